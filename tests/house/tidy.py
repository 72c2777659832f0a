#!/usr/bin/env python3
"""clang-tidy and clang's thread-safety analysis over our sources: tidy.py BUILD [--all] [FILE...].

A file that was clean is not looked at again until it, a header of ours, or .clang-tidy changes: the build directory
keeps a stamp of each."""
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys

import sources


def stamp_of(path, header_hashes, settings):
    """Hash of the file and of all our headers that it reaches."""
    reached, todo = set(), [path]
    while todo:
        now = todo.pop()
        if now in reached or now not in header_hashes:
            continue
        reached.add(now)
        todo += header_hashes[now][1]
    whole = settings + "".join(sorted(name + header_hashes[name][0] for name in reached))
    return hashlib.sha256(whole.encode()).hexdigest()


def main():
    build, wanted = os.path.abspath(sys.argv[1]), [a for a in sys.argv[2:] if not a.startswith("--")]
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        sys.exit("tidy: clang-tidy is missing (apt install clang-tidy-14)")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        known = {os.path.relpath(entry["file"], sources.ROOT) for entry in json.load(file)}

    hashes = {}
    for path in sources.files(".h", ".cpp", under=("agent", "db", "web", "tests")):
        text = sources.read(path)
        names = [name for _, kind, name in sources.includes(text) if kind == '"']
        hashes[path] = (hashlib.sha256(text.encode()).hexdigest(), names)

    stamps = os.path.join(build, "tidy-stamps")
    os.makedirs(stamps, exist_ok=True)
    settings = sources.read(".clang-tidy")
    todo = []
    for path in sorted(known & set(hashes)):
        if wanted and path not in wanted:
            continue
        stamp = os.path.join(stamps, path.replace("/", "~"))
        value = stamp_of(path, hashes, settings)
        if "--all" not in sys.argv and os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == value:
            continue
        todo.append((path, stamp, value))

    def run(job):
        path, stamp, value = job
        # The analyzer takes half of the time, and in tests it mostly looks at Catch2: sanitizers run these.
        checks = ["--checks=-clang-analyzer-*"] if path.startswith("tests/") else []
        ran = subprocess.run([tool, "--quiet", "-p", build, *checks, "--extra-arg=-Wthread-safety",
                              "--extra-arg=-Wno-unknown-warning-option", path],
                             cwd=sources.ROOT, check=False, capture_output=True, text=True)
        if ran.returncode == 0 and "warning:" not in ran.stdout:
            with open(stamp, "w", encoding="utf-8") as file:
                file.write(value)
            return []
        found = ran.stdout.strip() or ran.stderr.strip()
        print(found, flush=True)  # at once: the whole takes long
        return [f"{path}: see above"]

    complaints = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(run, todo):
            complaints += found
    sources.finish("tidy", complaints, len(todo), 0)


main()
