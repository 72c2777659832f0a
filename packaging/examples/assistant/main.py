#!/usr/bin/env python3
"""A language model with tools. What it asks of the model is recorded, so a replay asks nothing again and costs nothing.
A tool that only reads runs at once; one that changes something is shown to a person, with its exact arguments, and runs
after a yes. A no is told to the model.

Shows: an agent loop that survives everything; a secret in the environment of one command; approvals of exact arguments.

    bide run assistant --input '{"model": "https://api.example.org/v1/chat", "task": "Free some space in /var/tmp"}'

Input: model  URL that takes {"messages": […]} and answers {"tool": NAME, "arguments": {…}} or {"text": …}
       task   what is to be done
       turns  answers of the model at most (20)
The key for it is the secret MODEL_KEY: a file secrets/MODEL_KEY in the agent's folder.
"""
import json
import os
import subprocess
import sys

# Tools: how the command is made of the arguments, and whether a person has to say yes.
TOOLS = {
    "list": (lambda a: ["ls", "-la", "--", a["path"]], False),
    "size": (lambda a: ["du", "-sk", "--", a["path"]], False),
    "read": (lambda a: ["head", "-c", "4000", "--", a["path"]], False),
    "remove": (lambda a: ["rm", "-r", "--", a["path"]], True),
    "write": (lambda a: ["sh", "-c", 'printf %s "$1" >"$2"', "write", a["text"], a["path"]], True),
}


def bide(*words, given=None):
    """The exit code and what the verb prints. It returns 0 or does not return, unless it says --try."""
    done = subprocess.run(["bide", *words], input=given, stdin=None if given else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def ask_model(turn, url, messages):
    """One answer. The request is the step's stdin, so it is part of what is recorded; the key is not."""
    # MODEL_KEY is in the environment of this command alone, and reaches curl on its stdin: never in a command line.
    command = ('body=$(cat); printf \'header = "Authorization: Bearer %s"\' "$MODEL_KEY" | curl --config - --fail '
               '--silent --show-error --max-time 120 -H "Content-Type: application/json" '
               '-H "Idempotency-Key: $BIDE_IDEMPOTENCY_KEY" --data-raw "$body" -- "$1"')
    _, out = bide("step", "ask", "--key", str(turn), "--effect", "idempotent", "--retries", "4", "--secret", "MODEL_KEY",
                  "--stdin", "--", "sh", "-c", command, "ask", url, given=json.dumps({"messages": messages}))
    return json.loads(out)


def use_tool(turn, name, arguments):
    """What the model is told of it."""
    if name not in TOOLS:
        return f"there is no tool {name}; there are {', '.join(TOOLS)}"
    make, asks = TOOLS[name]
    try:
        command = make(arguments)
    except (KeyError, TypeError):
        return f"{name} was not called with its arguments"
    if asks:
        code, said = bide("wait", "approval", f"Let the model {name}: {json.dumps(arguments)}?", "--name", name, "--key",
                          str(turn), "--data", json.dumps(command), "--try", "--json")
        if code != 0:
            return f"a person did not allow it: {json.loads(said).get('comment', 'no comment')}"
    # What changes something runs once: after a crash in it a person is asked whether it happened.
    effect = ["--effect", "non_idempotent" if asks else "pure"]
    code, out = bide("step", name, "--key", str(turn), *effect, "--try", "--timeout", "5m", "--on-timeout", "fail", "--",
                     *command)
    return out if code == 0 else f"it failed with {code}: {out}"


def main():
    with open(os.environ["BIDE_INPUT"], encoding="utf-8") as file:
        given = json.load(file)
    messages = [{"role": "system", "content": "Tools: " + ", ".join(TOOLS)}, {"role": "user", "content": given["task"]}]
    for turn in range(1, given.get("turns", 20) + 1):
        answer = ask_model(turn, given["model"], messages)
        messages.append({"role": "assistant", "content": answer})
        if "text" in answer:
            bide("result", json.dumps({"text": answer["text"], "turns": turn}))
            return
        told = use_tool(turn, answer.get("tool"), answer.get("arguments", {}))
        messages.append({"role": "tool", "content": told})
    sys.exit("assistant: the model did not come to an end")


main()
