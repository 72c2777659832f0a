#!/usr/bin/env python3
"""Nothing at the top of the tree but what belongs there, and folders open with a README."""
import os
import subprocess

import sources

ALLOWED = {
    ".ci", ".clang-format", ".clang-tidy", ".gitignore", "CMakeLists.txt", "CMakePresets.json", "README.md",
    "agent", "db", "migrations", "packaging", "tests", "web",
}


def entries():
    """What git tracks or would track; without git, what is there but builds."""
    listed = subprocess.run(["git", "-C", sources.ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return {line.strip('"').split("/")[0] for line in listed.stdout.splitlines()}
    return {name for name in os.listdir(sources.ROOT) if name != ".git" and not name.startswith("build")}


def main():
    found = entries()
    complaints = [f"{name}: does not belong at the top" for name in sorted(found - ALLOWED)]
    sources.finish("top", complaints, len(found), 8)


main()
