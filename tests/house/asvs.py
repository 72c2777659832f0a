#!/usr/bin/env python3
"""Each requirement of tests/web/asvs.md has a test that is there: a row without one fails."""
import re

import sources

CASE = re.compile(r'\bTEST_CASE\s*\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')
NUMBER = re.compile(r"\d+\.\d+\.\d+")
ROWS = 21


def test_names():
    """As ctest has them: the folder, or browser, and the case's name."""
    names = set()
    for path in sources.files(".cpp", under=("tests",)):
        for match in CASE.finditer(sources.read(path)):
            case = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1)))
            names.add(path.split("/")[1] + ": " + case)
    for name in re.findall(r'"\w+=([^"]+)"', sources.read("tests/CMakeLists.txt")):
        names.add("browser: " + name)
    return names


def wrong(cells, names, seen):
    if len(cells) != 3:
        return "has not three cells"
    number, sentence, test = cells
    if not NUMBER.fullmatch(number):
        return f"{number!r} is no number of a requirement"
    if number in seen:
        return f"{number} stands twice"
    if len(sentence) < 20:
        return f"{number} says nothing"
    if test not in names:
        return f"{number}: there is no test {test!r}"
    return None


def main():
    names = test_names()
    complaints, seen = [], set()
    for bad in (["1.1.1", "a sentence of ours, long enough", "web: none such"], ["x", "", ""], ["1.1.1"]):
        if not wrong(bad, names, seen):
            complaints.append(f"asvs: blind for {bad!r}")
    for line in sources.read("tests/web/asvs.md").splitlines():
        if not line.startswith("|") or line.startswith(("| number", "| ---")):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        fault = wrong(cells, names, seen)
        if fault:
            complaints.append("tests/web/asvs.md: " + fault)
        seen.add(cells[0])
    if len(seen) != ROWS:
        complaints.append(f"tests/web/asvs.md: {len(seen)} requirements, not {ROWS}")
    sources.finish("asvs", complaints, len(seen), ROWS)


main()
