#!/usr/bin/env python3
"""Files over 500 lines and functions over 70 fail; files over 400, and such functions of tests, are listed."""
import re

import sources

FILE_LISTED, FILE_MOST, FUNCTION_MOST = 400, 500, 70
# In "X(int a) : a_{a} {" the first brace starts no body: a name stands right before it.
INIT_BRACE = re.compile(r"\)[^;{}]*[^:]:[^:].*[\w>]\s*$", re.S)
CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")


def functions(text):
    """(line, name, lines) of each function body that stands in a namespace or a class."""
    code = sources.code_only(text)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
    stack, head_from, parens = [], 0, 0
    for offset, char in enumerate(code):
        if char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif char == "{":
            head = code[head_from:offset]
            outside = all(kind == "container" for kind, _, _ in stack)
            before_brackets = head.split("(")[0]
            if outside and parens == 0 and CONTAINER.search(before_brackets) and "=" not in before_brackets:
                kind = "container"
            elif outside and parens == 0 and "(" in head and not INIT_BRACE.search(head):
                kind = "function"
            else:
                kind = "block"
            stack.append((kind, offset, head))
            head_from = offset + 1 if kind == "container" else head_from
        elif char == "}" and stack:
            kind, begin, head = stack.pop()
            if kind == "function":
                first = sources.line_of(code, begin)
                name = re.findall(r"[\w~:]+(?=\s*\()", head)
                yield first, name[0] if name else "?", sources.line_of(code, offset) - first + 1
            if kind != "block" and all(k == "container" for k, _, _ in stack):
                head_from = offset + 1
        elif char == ";" and all(k == "container" for k, _, _ in stack) and parens == 0:
            head_from = offset + 1


def self_test():
    body = "\n".join("  a();" for _ in range(80))
    text = "namespace x {\nclass A {\n int f() const {\n" + body + "\n}\n};\nint A::g(int a = {}) : b_{1} {\n return 1;\n}\n}"
    found = {name: lines for _, name, lines in functions(text)}
    return [] if found.get("f") == 82 and "A::g" in found else [f"sizes: does not see functions: {found}"]


def main():
    complaints = self_test()
    paths = sources.files(".h", ".cpp", ".sql", ".py", ".sh", ".cmake", ".js", ".css", ".html")
    for path in paths:
        if path.startswith("tests/golden/"):
            continue
        text = sources.read(path)
        lines = text.count("\n")
        if lines > FILE_MOST:
            complaints.append(f"{path}: {lines} lines, split it (at most {FILE_MOST})")
        elif lines > FILE_LISTED:
            print(f"{path}: {lines} lines (note)")
        if not path.endswith((".cpp", ".h")):
            continue
        for line, name, length in functions(text):
            if length > FUNCTION_MOST:
                note = f"{path}:{line}: {name} has {length} lines (at most {FUNCTION_MOST})"
                if path.startswith("tests/"):
                    print(note + " (note)")
                else:
                    complaints.append(note)
    sources.finish("sizes", complaints, len(paths), 30)


main()
