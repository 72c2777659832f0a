#!/usr/bin/env python3
"""An app that drives its own runs over HTTP, with Python's standard library alone: refunds.
    python3 remote-app.py SOCKET PAY-COMMAND        # as many as you like, on one agent
    bide run refund --input '{"order": 7, "amount": 25}'; bide inbox; bide approve WAIT; bide signal 1 parcel '{"weight": 2}'
The code is run from the top each time the run moves; what was settled before is answered at once, in its place: the
branch, and a number that counts from 1 in it."""
import http.client, json, os, socket, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

AGENT, PAY = sys.argv[1:]
class Stop(Exception): pass  # suspended, ended, or another has the run: leave everything as it is

def post(path, body, token=None, wait=0):
    headers = {"Content-Type": "application/json", "Prefer": f"wait={wait}"}
    headers |= {"Authorization": "Bearer " + token} if token else {}
    while True:  # an agent that restarts is asked again: it knows what it answered
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(AGENT)
            connection.request("POST", path, json.dumps(body), headers)
            status, text = (answer := connection.getresponse()).status, answer.read()
        except (OSError, http.client.HTTPException):
            status = 503
        connection.close()
        if status == 409:
            raise Stop
        if status < 300:
            return json.loads(text) if text else None
        if status != 503:
            raise RuntimeError(text.decode())
        time.sleep(0.2)
class Branch:
    def __init__(self, run, name=""):
        self.run, self.name, self.seq = run, name, 0
    def ask(self, operation, **body):
        self.seq += 1
        while True:  # "waiting": other branches can go on, so the run is not suspended
            place = {"branch": self.name, "seq": self.seq, "branches": self.run["branches"]}
            answer = post(self.run["attempt"] + operation, {**body, **place}, self.run["token"], wait=5)
            if answer["state"] in ("suspended", "ended", "ending"):
                raise Stop
            if answer["state"] != "waiting":
                return answer
    def step(self, name, effect, request, function):
        answer = self.ask("steps", name=name, effect=effect, request=request)
        if answer["state"] == "execute":
            try:  # the key is the same however often it is executed
                how, done = "complete", {"result": function(answer["idempotency_key"])}
            except Exception as error:
                how, done = "fail", {"error": {"code": "AppError", "message": str(error)}}
            path = f"{self.run['attempt']}steps/{answer['step']}/{how}"
            answer = post(path, {"nonce": answer["nonce"], **done}, self.run["token"])
        if answer["state"] != "settled":
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]
    def wait(self, kind, name, **request):
        return self.ask("waits", kind=kind, name=name, request=request)["result"]
def branches(run, **functions):
    def one(name, function):
        result = function(Branch(run, name))
        run["branches"] -= 1
        return result
    run["branches"] = len(functions)
    with ThreadPoolExecutor(len(functions)) as pool:
        results = [pool.submit(one, *item) for item in functions.items()]
    run["branches"] = 1
    return [result.result() for result in results]
def refund(main, order):
    amount = main.step("amount", "pure", order, lambda key: order["amount"] - order["amount"] // 10)
    parcel, decision = branches(
        main.run, stock=lambda branch: branch.wait("signal", "parcel"),
        boss=lambda branch: branch.wait("approval", "refund", text=f"Refund {amount} for order {order['order']}?"))
    if decision["decision"] != "approved":
        return {"refunded": 0}
    main.step("pay", "idempotent", amount, lambda key: subprocess.run([PAY, key, str(amount)], check=True).returncode)
    return {"refunded": amount, "weight": parcel["payload"]["weight"]}

def drive(run):
    over = threading.Event()
    def beat():  # an effect may take longer than the lease
        while not over.wait(run["lease_ms"] / 3000):
            post(run["attempt"] + "heartbeat", {}, run["token"])
    threading.Thread(target=beat, daemon=True).start()
    try:
        try:
            done = {"result": refund(Branch({**run, "branches": 1}), run["input"])}
        except RuntimeError as error:
            done = {"error": {"code": "AppError", "message": str(error)}}
        post(run["attempt"] + "finish", done, run["token"])
    except Stop:
        pass
    over.set()

post("/v1/workflows", {"name": "refund", "version": "1"})
while True:
    if given := post("/v1/attempts", {"workflows": ["refund"], "worker": f"py-{os.getpid()}"}, wait=30):
        drive(given)
