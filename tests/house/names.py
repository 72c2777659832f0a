#!/usr/bin/env python3
"""Names of test cases that CTest and Catch2 can carry: a name that they mangle matches no test, and passes."""
import re

import sources

CASE = re.compile(r'\b(?:TEST_CASE|TEST_CASE_METHOD|SCENARIO|TEMPLATE_TEST_CASE)\s*\(\s*(?:[\w:]+\s*,\s*)?((?:"(?:\\.|[^"\\])*"\s*)+)')


def wrong(name):
    if ";" in name:
        return "a ';' ends the name for CMake"
    if '\\"' in name or "\\" in name:
        return "quotes and backslashes are changed on the way"
    if name.count("[") != name.count("]"):
        return "brackets must be in pairs (CMake lists)"
    if "*" in name:
        return "a '*' is a wildcard for Catch2"
    if name != name.strip() or not name:
        return "white space at an end"
    return None


def main():
    complaints, count, seen = [], 0, {}
    for bad in ("a;b", 'a\\"b', "[N1 x", "a*"):
        if not wrong(bad):
            complaints.append(f"names: blind for {bad!r}")
    for path in sources.files(".cpp", under=("tests",)):
        text = sources.read(path)
        folder = path.split("/")[1]
        for match in CASE.finditer(text):
            name = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1)))
            where = f"{path}:{sources.line_of(text, match.start())}"
            count += 1
            if wrong(name):
                complaints.append(f"{where}: {name!r}: {wrong(name)}")
            if (folder, name) in seen:
                complaints.append(f"{where}: {name!r} is also at {seen[folder, name]}")
            seen[folder, name] = where
    sources.finish("names", complaints, count, 20)


main()
