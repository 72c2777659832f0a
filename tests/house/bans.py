#!/usr/bin/env python3
"""Things that have one home, and things that have none. A line with NOLINT(bide-<name>): reason is let through."""
import re

import sources

HOUSE = ("agent/", "db/", "web/")
CODE = HOUSE + ("tests/",)


class Ban:
    def __init__(self, name, pattern, because, where=HOUSE, homes=(), view=sources.code_only, flags=0):
        self.name, self.because, self.where, self.homes, self.view = name, because, where, homes, view
        self.pattern = re.compile(pattern, flags)


def whole(text):
    return text


CALL = r"(?<![\w.>:])(?:::|std::)?"

BANS = [
    Ban("clock", r"\b(?:clock_gettime|gettimeofday|timespec_get)\b|"
                 r"\b(?:system|steady|high_resolution|file)_clock\s*::|\bchrono::\w+_clock\b|" + CALL +
                 r"time\s*\(\s*(?:NULL|nullptr|0|&\w+)\s*\)|(?<![\w>])(?:std)?::clock\s*\(",
        "time is an argument; only agent/base/clock.cpp reads it (C1)", homes=("agent/base/clock.cpp",)),
    Ban("local-time", r"\b(?:localtime|localtime_r|mktime)\b", "times are UTC; zones are computed from the rules"),
    Ban("random", CALL + r"(?:rand|srand|rand_r|drand48|arc4random\w*|getrandom|getentropy|RAND_bytes)\s*\(|"
                  r"\b(?:random_device|mt19937\w*|default_random_engine)\b|(?<![\w>])(?:std)?::random\s*\(",
        "chance is an argument; only agent/base/random.cpp reads it (C1)", homes=("agent/base/random.cpp",)),
    Ban("sleep", r"\bthis_thread::sleep|\bsleep_(?:for|until)\b|\b(?:usleep|nanosleep|clock_nanosleep)\s*\(|"
                 r"(?<![\w.>:])::sleep\s*\(",
        "wait for a condition with a deadline", where=CODE, homes=("tests/support/eventually.h", "tests/bench/")),
    Ban("regex", r"\bstd::w?regex\b|#\s*include\s*<regex>", "std::regex recurses on its input and is slow", where=CODE),
    Ban("async", r"\bstd::async\b|\.detach\s*\(\s*\)|\bco_(?:await|yield|return)\b",
        "threads have owners who join them", where=CODE),
    Ban("fork", CALL + r"v?fork\s*\(", "posix_spawn; a fork of a process with threads is a trap", where=CODE),
    Ban("sql-now", r"\b(?:datetime|date|time|julianday|strftime|unixepoch)\s*\([^()]*'now'|"
                   r"\b(?:datetime|date|time|julianday|unixepoch)\s*\(\s*\)\s*(?=[,);\s]*(?:FROM|WHERE|AS|,|\)|$))|"
                   r"\bCURRENT_(?:TIME|DATE|TIMESTAMP)\b|\brandom\s*\(\s*\)\s*(?=[%,;]|LIMIT|FROM|AS\b)|\brandomblob\s*\(|"
                   r"ORDER\s+BY\s+random\s*\(", "SQL gets now and chance as parameters (C1)",
        view=sources.strings_only, flags=re.I),
    Ban("sql-now", r"'now'|\bCURRENT_(?:TIME|DATE|TIMESTAMP)\b|\brandom(?:blob)?\s*\(|"
                   r"\b(?:datetime|julianday|unixepoch)\s*\(\s*\)", "SQL gets now and chance as parameters (C1)",
        where=("migrations/",), view=whole, flags=re.I),
    Ban("promise", r"\b(?:TODO|FIXME|XXX|HACK)\b", "do it, or say why it is so", where=CODE + ("migrations/", "packaging/"),
        homes=("tests/house/bans.py",), view=whole),
    Ban("promise", r"\bfor now\b(?!\s*[(_])", "do it, or say why it is so",
        where=CODE, homes=("tests/house/bans.py",), view=sources.comments_only, flags=re.I),
]

# Foreign headers and their homes. A home that ends in '/' is the .cpp files of that folder.
HEADERS = [
    (re.compile(r"^(?:SQLiteCpp/|sqlite3)"), ("db/",), "SQLite"),
    (re.compile(r"^httplib"), ("web/", "agent/work/delivery.cpp", "agent/cli/client.cpp"), "httplib"),
    (re.compile(r"^(?:spdlog|fmt)/"), ("agent/base/log.cpp",), "spdlog"),
    (re.compile(r"^nlohmann/(?!json_fwd)"), HOUSE, "nlohmann/json"),
    (re.compile(r"^CLI/"), ("agent/cli/", "agent/main.cpp"), "CLI11"),
    (re.compile(r"^(?:mosquitto|mqtt_protocol)\.h"), ("agent/work/broker.cpp", "agent/work/mqtt_connection.cpp"),
     "libmosquitto"),
    (re.compile(r"^toml"), ("agent/config.cpp", "agent/work/", "agent/cli/"), "toml++"),
]


def at_home(path, homes):
    if not path.endswith(".cpp"):
        return False
    return any(path == home or (home.endswith("/") and path.startswith(home)) for home in homes)


def banned(path, text):
    lines = text.split("\n")
    for ban in BANS:
        if not path.startswith(ban.where) or path.startswith(ban.homes):
            continue
        if ban.view is not whole and not path.endswith((".cpp", ".h")):
            continue
        view = ban.view(text)
        for match in ban.pattern.finditer(view):
            line = sources.line_of(view, match.start())
            allowed = f"NOLINT(bide-{ban.name}): "
            if allowed in lines[line - 1] or (line > 1 and allowed in lines[line - 2]):
                continue
            yield f"{path}:{line}: {match.group(0).strip()!r} [{ban.name}]: {ban.because}"


def homeless(path, text):
    if not path.startswith(HOUSE):
        return
    for line, _, name in sources.includes(text):
        for pattern, homes, what in HEADERS:
            if pattern.search(name) and not at_home(path, homes):
                yield f"{path}:{line}: {what} is included in {', '.join(homes) or 'no file'} (.cpp) only"


def self_test():
    """The checks must see what they are for."""
    def hits(path, text):
        return len(list(banned(path, text))) + len(list(homeless(path, text)))
    bad = [
        ("web/a.cpp", "auto t = std::chrono::steady_clock::now();"),
        ("db/a.cpp", "auto t = ::time(nullptr);"),
        ("db/a.cpp", "int r = std::rand();"),
        ("tests/base/a.cpp", "std::this_thread::sleep_for(1s);"),
        ("agent/flow/a.cpp", "std::regex r;"),
        ("agent/work/a.cpp", "if (fork() == 0) {}"),
        ("agent/kernel/a.cpp", "tx.query(\"SELECT unixepoch('now')\");"),
        ("agent/kernel/a.cpp", 'tx.query(R"(SELECT id FROM runs ORDER BY random() LIMIT 1)");'),
        ("agent/kernel/a.cpp", 'tx.query("UPDATE r SET at=CURRENT_TIMESTAMP");'),
        ("migrations/1.sql", "x INTEGER DEFAULT (unixepoch())"),
        ("agent/base/a.h", "// TO" + "DO later"),
        ("agent/base/a.cpp", "// good enough for now."),
        ("db/a.h", "#include <SQLiteCpp/SQLiteCpp.h>"),
        ("agent/kernel/a.cpp", "#include <sqlite3.h>"),
        ("agent/kernel/a.cpp", '#include "httplib.h"'),
        ("web/a.h", "#include <nlohmann/json.hpp>"),
        ("web/a.cpp", "#include <spdlog/spdlog.h>"),
    ]
    good = [
        ("web/a.cpp", "// steady_clock and fork() are banned\nlog(\"std::regex sleep_for(1) rand()\");"),
        ("agent/flow/a.cpp", "context.random(); context.sleep(5); random_.next(); clock.wall_ms(); now.time(at);"),
        ("agent/kernel/a.cpp", 'throw Bug("the time (now) of a run");'),
        ("agent/work/a.cpp", "if (fork() == 0) {}  // NOLINT(bide-fork): execs at once"),
        ("web/a.cpp", "#include <httplib.h>\n#include <nlohmann/json.hpp>"),
        ("web/a.h", "#include <nlohmann/json_fwd.hpp>"),
        ("web/a.cpp", 'detail = "what the code asks for now.";'),
        ("agent/flow/a.h", "TimeMs now() const;  // for now() see clock.h"),
    ]
    wrong = [f"bans: blind for {text!r} in {path}" for path, text in bad if hits(path, text) == 0]
    return wrong + [f"bans: wrong alarm for {text!r} in {path}" for path, text in good if hits(path, text) != 0]


def main():
    complaints = self_test()
    paths = sources.files(".h", ".cpp", ".sql", ".py", ".sh", ".cmake", ".txt", ".js", ".html", ".css")
    for path in paths:
        text = sources.read(path)
        complaints += banned(path, text)
        complaints += homeless(path, text)
    sources.finish("bans", complaints, len(paths), 30)


main()
