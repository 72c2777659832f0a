#!/usr/bin/env python3
"""Backs a folder up: archives it, sums the archive, asks whether old archives may go, and removes them.

    bide run backup --input '{"folder": "/home/ada/notes", "into": "/srv/backups", "keep": 7}'

Python's standard library alone: it speaks HTTP to its attempt's socket. It is run from the top at every attempt;
what the journal already has is answered at once.
"""
import hashlib
import http.client
import json
import os
import socket
import sys
import tarfile


class Attempt:
    """The routes below /v1/runs/{id}/attempt/ of the run that this process belongs to."""

    def __init__(self):
        self.base = f"/v1/runs/{os.environ['BIDE_RUN']}/attempt/"
        self.headers = {
            "Authorization": "Bearer " + os.environ["BIDE_ATTEMPT"],
            "Content-Type": "application/json",
        }

    def post(self, path, body):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(os.environ["BIDE_AGENT"])
        connection.request("POST", self.base + path, json.dumps(body), self.headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            sys.exit(f"bide: {text.decode()}")
        return json.loads(text)

    def step(self, name, effect, request, run):
        """Runs `run` once, by its effect class, and returns what was recorded."""
        said = self.post("steps", {"name": name, "effect": effect, "request": request, "retries": 2})
        while said["state"] == "execute":
            here = f"steps/{said['step']}/"
            try:
                result = run()
            except OSError as error:
                failure = {"code": "OSError", "message": str(error)}
                said = self.post(here + "fail", {"nonce": said["nonce"], "error": failure, "retryable": True})
            else:
                said = self.post(here + "complete", {"nonce": said["nonce"], "result": result})
        return said["result"]

    def question(self, name, text, options, data):
        """Waits, for days if need be: the process may be ended meanwhile and is run again when somebody has answered."""
        request = {"text": text, "options": options, "data": data}
        return self.post("waits", {"kind": "question", "name": name, "request": request})["result"]

    def now(self):
        return self.post("values", {"name": "now"})["result"]

    def result(self, value):
        self.post("result", {"result": value})


def archive(folder, target):
    """Writes the archive beside its place and renames it: whoever sees it sees all of it."""
    part = target + ".part"
    with tarfile.open(part, "w:gz") as tar:
        tar.add(folder, arcname=os.path.basename(os.path.normpath(folder)))
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    return os.path.getsize(target)


def digest(file):
    whole = hashlib.sha256()
    with open(file, "rb") as opened:
        for block in iter(lambda: opened.read(1 << 20), b""):
            whole.update(block)
    return whole.hexdigest()


def remove(files):
    for file in files:
        if os.path.exists(file):
            os.remove(file)
    return len(files)


def main():
    with open(os.environ["BIDE_INPUT"], encoding="utf-8") as file:
        wanted = json.load(file)
    folder, into, keep = wanted["folder"], wanted["into"], int(wanted.get("keep", 7))
    bide = Attempt()

    stamp = bide.now().replace(":", "").replace("-", "").split(".")[0]
    name = os.path.basename(os.path.normpath(folder))
    target = os.path.join(into, f"{name}-{stamp}.tar.gz")
    size = bide.step("archive", "idempotent", {"folder": folder, "target": target}, lambda: archive(folder, target))
    total = bide.step("sum", "pure", {"target": target}, lambda: digest(target))

    def older():
        found = sorted(f for f in os.listdir(into) if f.startswith(name + "-") and f.endswith(".tar.gz"))
        return [os.path.join(into, f) for f in found[:-keep]]

    old = bide.step("list-old", "pure", {"into": into, "keep": keep}, older)
    removed = 0
    if old:
        answer = bide.question("prune", f"Remove {len(old)} old archives of {name}?", ["yes", "no"], {"files": old})
        if answer == "yes":
            removed = bide.step("prune", "idempotent", {"files": old}, lambda: remove(old))
    bide.result({"archive": target, "bytes": size, "sha256": total, "removed": removed})


main()
