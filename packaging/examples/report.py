#!/usr/bin/env python3
"""A report of several sources: each is measured in a branch of its own, side by side; an editor reads the draft and
sends it back with a comment as often as it takes; then it is published with one rename.

Shows: a workflow in Python whose steps are `bide` commands; branches in threads; an approval that is asked again.

    bide run report --input '{"sources": {"north": "wc -l </srv/north.csv", "south": "wc -l </srv/south.csv"},
                              "target": "/srv/www/report.txt"}'

It is run from the top at every attempt: what the journal already has is answered at once.
"""
import json
import os
import subprocess
import sys
import threading


def bide(*words, branch=None):
    """What the verb prints. It returns 0 or does not return, unless it says --try."""
    environment = dict(os.environ, BIDE_BRANCH=branch) if branch else None
    done = subprocess.run(["bide", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          env=environment, check=True)
    return done.stdout.rstrip("\n")


def together(jobs):
    """Runs each function in a thread, and gives their results by name."""
    results = {}

    def run(name, job):
        results[name] = job()

    threads = [threading.Thread(target=run, args=item) for item in jobs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) < len(jobs):
        sys.exit("report: a branch did not come to its end")
    return results


def measure(name, command):
    return bide("step", "measure", "--effect", "pure", "--retries", "2", "--", "sh", "-c", command, branch=name)


def draft_of(figures, comments):
    lines = ["Figures", ""] + [f"{name:12} {figures[name]:>12}" for name in sorted(figures)]
    return "\n".join(lines + ["", *(f"Note: {comment}" for comment in comments)]) + "\n"


def publish(target, text):
    """As a step, so that it happens once. The file is written beside its place and renamed: readers see all of it."""
    script = 'printf %s "$1" >"$2.part" && sync "$2.part" && mv -f -- "$2.part" "$2" && sha256sum "$2" | cut -c1-64'
    return bide("step", "publish", "--effect", "idempotent", "--", "sh", "-c", script, "publish", text, target)


def main():
    with open(os.environ["BIDE_INPUT"], encoding="utf-8") as file:
        given = json.load(file)
    sources = given["sources"]
    figures = together({name: lambda name=name: measure(name, sources[name]) for name in sources})
    comments = []
    while True:
        text = draft_of(figures, comments)
        verdict = subprocess.run(
            ["bide", "wait", "approval", f"Publish this?\n\n{text}", "--name", "publish", "--try", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        if verdict.returncode == 0:
            break
        said = json.loads(verdict.stdout)
        if verdict.returncode != 11 or not said.get("comment"):
            sys.exit(f"report: not published: {said}")
        comments.append(said["comment"])
    total = publish(given["target"], text)
    bide("result", json.dumps({"sha256": total, "drafts": len(comments) + 1}))


main()
