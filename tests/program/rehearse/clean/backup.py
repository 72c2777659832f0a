#!/usr/bin/env python3
# A folder is packed, old archives are removed when somebody says so.
import json
import os
import subprocess


def bide(*words):
    done = subprocess.run(["bide", *words], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return done.stdout.strip()


now = bide("value", "now")
name = "archive-" + now[:10] + ".tar"
os.makedirs("store", exist_ok=True)
bide("step", "notes", "--", "sh", "-c", "mkdir -p notes && echo hello > notes/one")
bide("step", "pack", "--", "tar", "-cf", "store/" + name, "notes")
listing = bide("step", "list", "--effect", "pure", "--", "ls", "store").split()
answer = bide("wait", "question", f"Keep {len(listing)}?", "--option", "yes", "--option", "no")
with open("report.json", "w") as report:
    json.dump({"kept": answer, "archives": len(listing)}, report)
bide("sleep", "1d")
bide("result", json.dumps({"archives": len(listing), "answer": answer}))
