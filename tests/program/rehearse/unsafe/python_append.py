#!/usr/bin/env python3
# A log that a Python program adds to between its steps.
import json
import subprocess


def bide(*words):
    return subprocess.run(["bide", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


temperature = int(bide("step", "read", "--effect", "pure", "--", "echo", "21"))
with open("log.txt", "a") as log:
    log.write(f"{temperature}\n")
bide("step", "store", "--", "cp", "log.txt", "stored.txt")
bide("sleep", "15m")
bide("result", json.dumps({"temperature": temperature}))
