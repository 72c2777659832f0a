#!/usr/bin/env python3
"""All C++ is written as .clang-format says. With --fix the files are changed instead."""
import shutil
import subprocess
import sys

import sources


def main():
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        sys.exit("format: clang-format is missing (apt install clang-format-14)")
    paths = sources.files(".h", ".cpp", under=("agent", "db", "web", "tests", "packaging"))
    if "--fix" in sys.argv:
        sys.exit(subprocess.run([tool, "-i", *paths], cwd=sources.ROOT, check=False).returncode)
    wrong = []
    for begin in range(0, len(paths), 50):
        page = paths[begin:begin + 50]
        ran = subprocess.run([tool, "--dry-run", "--Werror", *page], cwd=sources.ROOT, check=False,
                             capture_output=True, text=True)
        wrong += sorted({line.split(":")[0] + ": not formatted" for line in ran.stderr.splitlines() if ": error:" in line})
    if wrong:
        print("tests/house/format.py --fix mends it")
    sources.finish("format", wrong, len(paths), 30)


main()
