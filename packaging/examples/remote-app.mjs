#!/usr/bin/env node
// An app that drives its own runs over HTTP, with Node alone: refunds. The same workflow as remote-app.py.
//   node remote-app.mjs SOCKET PAY-COMMAND
//   bide run refund --input '{"order": 7, "amount": 25}'; bide inbox; bide approve WAIT; bide signal 1 parcel '{"weight": 2}'
// The code is run from the top each time the run moves; what was settled before is answered at once, in its place: the
// branch, and a number that counts from 1 in it.
import { execFile } from 'node:child_process';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
const [agent, payCommand] = process.argv.slice(2);
class Stop extends Error {} // suspended, ended, or another has the run: leave everything as it is

const once = (path, body, token, wait) =>
  new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', Prefer: `wait=${wait}`, ...(token && { Authorization: `Bearer ${token}` }) };
    const text = JSON.stringify(body);
    headers['Content-Length'] = Buffer.byteLength(text); // the agent reads no chunks
    const request = http.request({ socketPath: agent, host: 'localhost', path, method: 'POST', headers }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part)).on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString() }));
    });
    request.on('error', reject).end(text);
  });

async function post(path, body, token, wait = 0) {
  for (;;) { // an agent that restarts is asked again: it knows what it answered
    const answer = await once(path, body, token, wait).catch(() => ({ status: 503 }));
    if (answer.status === 409) throw new Stop();
    if (answer.status === 503) await sleep(200);
    else if (answer.status >= 400) throw new Error(answer.text);
    else return answer.text ? JSON.parse(answer.text) : null;
  }
}

class Branch {
  constructor(attempt, name = '') { Object.assign(this, { attempt, name, seq: 0 }); }
  async ask(operation, body) {
    this.seq += 1;
    for (;;) { // "waiting": other branches can go on, so the run is not suspended
      const place = { branch: this.name, seq: this.seq, branches: this.attempt.branches };
      const answer = await post(this.attempt.attempt + operation, { ...body, ...place }, this.attempt.token, 5);
      if (['suspended', 'ended', 'ending'].includes(answer.state)) throw new Stop();
      if (answer.state !== 'waiting') return answer;
    }
  }
  async step(name, effect, request, execute) {
    let answer = await this.ask('steps', { name, effect, request });
    if (answer.state === 'execute') { // the key is the same however often it is executed
      const [how, done] = await Promise.resolve(answer.idempotency_key).then(execute).then(
        (result) => ['complete', { result }], (error) => ['fail', { error: { code: 'AppError', message: error.message } }]);
      const path = `${this.attempt.attempt}steps/${answer.step}/${how}`;
      answer = await post(path, { nonce: answer.nonce, ...done }, this.attempt.token);
    }
    if (answer.state !== 'settled') throw new Error(answer.error.message);
    return answer.result;
  }
  async wait(kind, name, request = {}) { return (await this.ask('waits', { kind, name, request })).result; }
}
async function branches(attempt, functions) {
  attempt.branches = Object.keys(functions).length;
  const ended = await Promise.allSettled(Object.entries(functions).map(async ([name, work]) => {
    const result = await work(new Branch(attempt, name));
    attempt.branches -= 1;
    return result;
  }));
  attempt.branches = 1;
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  return ended.map((one) => one.value);
}

async function refund(main, order) {
  const amount = await main.step('amount', 'pure', order, () => order.amount - Math.floor(order.amount / 10));
  const [decision, parcel] = await branches(main.attempt, {
    boss: (b) => b.wait('approval', 'refund', { text: `Refund ${amount} for order ${order.order}?` }),
    stock: (b) => b.wait('signal', 'parcel'),
  });
  if (decision.decision !== 'approved') return { refunded: 0 };
  await main.step('pay', 'idempotent', amount, async (key) => (await promisify(execFile)(payCommand, [key, String(amount)])) && 0);
  return { refunded: amount, weight: parcel.payload.weight };
}
async function drive(attempt) {
  attempt.branches = 1;
  const beat = setInterval(() => post(`${attempt.attempt}heartbeat`, {}, attempt.token).catch(() => {}), attempt.lease_ms / 3);
  try {
    const done = await refund(new Branch(attempt), attempt.input).then((result) => ({ result }), (error) => {
      if (error instanceof Stop) throw error;
      return { error: { code: 'AppError', message: String(error.message) } };
    });
    await post(`${attempt.attempt}finish`, done, attempt.token);
  } catch (error) { if (!(error instanceof Stop)) throw error; } finally { clearInterval(beat); }
}

await post('/v1/workflows', { name: 'refund', version: '1' });
for (;;) {
  const given = await post('/v1/attempts', { workflows: ['refund'], worker: `node-${process.pid}` }, null, 30);
  if (given) await drive(given);
}
