#!/usr/bin/env python3
"""No #include climbs to a higher floor, none goes in a circle, and agent/verb uses agent/base only."""
import os

import sources


def climbs(path, text):
    own = sources.floor_of(path)
    for line, kind, name in sources.includes(text):
        where = f"{path}:{line}"
        if kind == "<":
            continue
        if not os.path.exists(os.path.join(sources.ROOT, name)):
            yield f'{where}: "{name}" is no path from the root'
        elif path.startswith(sources.VERB + "/"):
            if not name.startswith((sources.VERB + "/", "agent/base/")):
                yield f"{where}: agent/verb starts in milliseconds and includes agent/base only, not {name}"
        elif name.startswith(sources.VERB + "/") and not path.startswith("tests/"):
            yield f"{where}: agent/verb is a program of its own; {name} is for nobody else"
        elif name.startswith("tests/") and not path.startswith("tests/"):
            yield f"{where}: {name} belongs to the tests"
        elif own is not None and (sources.floor_of(name) or 0) > own:
            yield f"{where}: {name} is on a higher floor"


def circles(graph):
    done, path, found = set(), [], []

    def visit(node):
        if node in path:
            found.append(" -> ".join(path[path.index(node):] + [node]))
            return
        if node in done:
            return
        path.append(node)
        for other in graph.get(node, ()):
            visit(other)
        path.pop()
        done.add(node)

    for node in sorted(graph):
        visit(node)
    return found


def main():
    complaints, graph = [], {}
    paths = sources.files(".h", ".cpp", under=("agent", "db", "web", "tests"))
    for path in paths:
        text = sources.read(path)
        complaints += climbs(path, text)
        if path.endswith(".h"):
            graph[path] = [name for _, kind, name in sources.includes(text) if kind == '"']
    complaints += ["circle: " + circle for circle in circles(graph)]
    sources.finish("floors", complaints, len(paths), 30)


main()
