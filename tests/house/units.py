#!/usr/bin/env python3
"""The systemd units say what the agent needs, and systemd understands them: units.py FOLDER BIDE."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import sources

# What a holder (K7) and a shutdown (K5) need; a unit without it puts the outcome of running commands in doubt.
WANTED = {"KillMode": "process", "Restart": "always", "OOMPolicy": "continue", "Type": "exec"}


def complaints_of(name, text):
    found = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    wrong = [f"{name}: {key}={found.get(key)}, {value} is wanted" for key, value in WANTED.items()
             if found.get(key) != value]
    if int(found.get("TimeoutStopSec", "0")) < 60:
        wrong.append(f"{name}: TimeoutStopSec is shorter than a shutdown may take")
    if "@" in found.get("ExecStart", "@") or not found["ExecStart"].endswith("/bide serve"):
        wrong.append(f"{name}: ExecStart={found.get('ExecStart')}")
    return wrong


def verified(path, text, bide):
    """systemd's own words; the executable is that of the build, for what is installed may not be there."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "bide.service")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^ExecStart=\S+", f"ExecStart={bide}", text, flags=re.M))
        ran = subprocess.run([tool, "verify", "--man=no"] + (["--user"] if "/user/" in path else []) + [copy],
                             check=False, capture_output=True, text=True,
                             env={**os.environ, "XDG_RUNTIME_DIR": folder})
        return [f"{path}: {line}" for line in ran.stderr.splitlines() if "bide" in line]


def main():
    folder, bide = sys.argv[1:3]
    complaints, count = [], 0
    if not complaints_of("blind", "[Service]\nKillMode=control-group\nExecStart=/usr/bin/bide serve\n"):
        complaints.append("units: blind")
    for kind in ("system", "user"):
        path = os.path.join(folder, kind, "bide.service")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        complaints += complaints_of(path, text) + verified(path, text, bide)
        count += 1
    sources.finish("units", complaints, count, 2)


main()
