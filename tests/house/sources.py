"""What the house checks share: finding our files, and looking at C++ without its comments or strings."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED_DIRS = {".git", "node_modules", "__pycache__", ".cache"}

# The floors of the house, lowest first: a file includes its own floor or a lower one.
FLOORS = ["agent/base", "db", "agent/kernel", "agent/flow", "agent/work", "web", "agent"]
VERB = "agent/verb"


def floor_of(path):
    """Number of the floor, or None outside of the house. agent/cli and the files of agent/ itself are the top."""
    folder = os.path.dirname(path)
    if folder == "agent/cli" or folder.startswith("agent/cli/"):
        return len(FLOORS) - 1
    if folder == "agent":
        return len(FLOORS) - 1
    for number, name in enumerate(FLOORS[:-1]):
        if folder == name or folder.startswith(name + "/"):
            return number
    return None


def files(*endings, under=("agent", "db", "web", "tests", "migrations", "packaging")):
    """Paths from the root, sorted. Builds and foreign code are left out."""
    found = []
    for top in under:
        for folder, dirs, names in os.walk(os.path.join(ROOT, top)):
            dirs[:] = [d for d in dirs if d not in SKIPPED_DIRS and not d.startswith("build")]
            for name in names:
                if not endings or name.endswith(endings):
                    found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|(?:u8|u|U|L)?R"(?P<tag>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and the insides of strings turned into spaces; lines keep their numbers."""
    def replace(match):
        found = match.group(0)
        return _blank(found) if found.startswith("/") else '"' + _blank(found[1:-1]) + '"'
    return TOKEN.sub(replace, text)


def comments_only(text):
    """The text with everything but comments turned into spaces."""
    out, last = [], 0
    for match in TOKEN.finditer(text):
        found = match.group(0)
        out.append(_blank(text[last:match.start()]) + (found if found.startswith("/") else _blank(found)))
        last = match.end()
    return "".join(out) + _blank(text[last:])


def strings_only(text):
    """The text with everything but the insides of strings turned into spaces."""
    out, last = [], 0
    for match in TOKEN.finditer(text):
        out.append(_blank(text[last:match.start()]))
        found = match.group(0)
        out.append(_blank(found) if found.startswith("/") else found)
        last = match.end()
    out.append(_blank(text[last:]))
    return "".join(out)


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def includes(text):
    """(line, quote or angle, name) of each include."""
    bare = TOKEN.sub(lambda m: _blank(m.group(0)) if m.group(0).startswith("/") else m.group(0), text)
    for match in INCLUDE.finditer(bare):
        yield bare.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def finish(name, complaints, looked_at, least):
    """Prints what is wrong and ends. A check that looked at nothing has found nothing out: that fails too."""
    for complaint in complaints:
        print(complaint)
    print(f"{name}: {looked_at} looked at, {len(complaints)} wrong")
    if looked_at < least:
        print(f"{name}: expected to look at {least} at least; the check is broken")
        sys.exit(1)
    sys.exit(1 if complaints else 0)
