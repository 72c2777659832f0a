#!/usr/bin/env python3
"""An independent verifier of Standard Webhooks 1.0 signatures (standard library only). One JSON object a line on stdin:
{"secret","id","timestamp","body" (base64) or "text","signature"}; answers ok or no, a line each."""
import base64
import hashlib
import hmac
import json
import sys


def verifies(case):
    key = base64.b64decode(case["secret"].removeprefix("whsec_"))
    body = case["text"].encode() if "text" in case else base64.b64decode(case["body"])
    content = f'{case["id"]}.{case["timestamp"]}.'.encode() + body
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    for one in case["signature"].split(" "):
        version, _, value = one.partition(",")
        if version == "v1" and hmac.compare_digest(value, wanted):
            return True
    return False


for line in sys.stdin:
    print("ok" if verifies(json.loads(line)) else "no")
