// A person decides on the page, for real: `bide serve` on a folder of its own, a program workflow that asks, the link of
// `bide ui`, Debian's chromium. What the page did is checked with the agent's API, not on the page.
// Environment: BIDE (the executable), BROWSER_MODULES (a folder for playwright-core, filled when it is empty), CHROMIUM.
// The picture at 360 px stays in BROWSER_MODULES/pictures.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const bide = process.env.BIDE;
const modules = process.env.BROWSER_MODULES;
const kEvilText = 'Install <img src=x onerror="document.title=\'owned\'"> now?';
const kFlags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'];
const kLongMs = 30_000;

function playwright() {
  if (!fs.existsSync(path.join(modules, 'node_modules/playwright-core/package.json'))) {
    fs.mkdirSync(modules, { recursive: true });
    for (const name of ['package.json', 'package-lock.json']) fs.copyFileSync(path.join(import.meta.dirname, name), path.join(modules, name));
    const got = spawnSync('npm', ['ci', '--prefix', modules, '--no-audit', '--no-fund'], { stdio: 'inherit' });
    assert.equal(got.status, 0, 'npm ci');
  }
  return createRequire(path.join(modules, 'package.json'))('playwright-core');
}

class Agent {
  constructor(folder) {
    this.folder = folder;
    this.socket = path.join(folder, 'bide.sock');
    this.env = { ...process.env, BIDE_AGENT: this.socket };
    const workflows = path.join(folder, 'workflows');
    fs.mkdirSync(workflows, { mode: 0o755 });
    fs.writeFileSync(path.join(workflows, 'ask.sh'), `#!/bin/sh
set -eu
text=$(bide input text)
bide wait approval "$text" --name go --timeout 20m --data '{"release":"2.14.0","cost_eur":12400.00,"tries":1.50e2,"big":9007199254740993}' >/dev/null
where=$(bide wait question "Where to?" --name where --option eu-1 --option us-1)
bide result where="$where"
`, { mode: 0o755 });
    this.process = spawn(bide, ['serve', '--data', path.join(folder, 'data'), '--workflows', workflows, '--socket', this.socket,
      '--listen', '127.0.0.1:0'], { env: this.env, stdio: ['ignore', 'ignore', fs.openSync(path.join(folder, 'log'), 'w')] });
    this.ended = new Promise((done) => { this.process.on('exit', done); });
  }
  ask(method, target, body, headers = {}) {
    return new Promise((done, fail) => {
      const request = http.request({ socketPath: this.socket, method, path: target, headers: { Host: 'localhost',
        ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }), ...headers } }, (answer) => {
        let text = '';
        answer.on('data', (part) => { text += part; });
        answer.on('end', () => done({ status: answer.statusCode, value: text ? JSON.parse(text) : null }));
      });
      request.on('error', fail);
      request.end(body);
    });
  }
  async ready() {
    await until(async () => (await this.ask('GET', '/readyz').catch(() => ({}))).status === 200, 'the agent is ready');
  }
  verb(...args) { return execFileSync(bide, args, { env: this.env, encoding: 'utf8' }).trim(); }
  run(text) { return Number(this.verb('run', 'ask', '--input', JSON.stringify({ text }))); }
  // The wait that the run stands in.
  async wait(run, name) {
    let found;
    await until(async () => {
      const { value } = await this.ask('GET', `/v1/waits?status=pending&run=${run}`, undefined, { Prefer: 'wait=5' });
      found = value.items.find((one) => one.name === name);
      return found !== undefined;
    }, `run ${run} asks ${name}`);
    return found;
  }
  async stop() {
    this.process.kill('SIGTERM');
    await this.ended;
  }
}

async function until(condition, what) {
  const end = Date.now() + kLongMs;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${kLongMs} ms: ${what}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

// What no page may do: a fault in a script, a report of the content policy, an element past the window.
function watchFaults(page) {
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of 40[19]/.test(message.text())) faults.push(message.text());
  });
  return faults;
}
async function fits(page, width) {
  const past = await page.evaluate((most) => [...document.querySelectorAll('body *')]
    .filter((node) => node.getBoundingClientRect().right > most + 0.5).map((node) => node.outerHTML.slice(0, 80)), width);
  assert.deepEqual(past, [], `past ${width} px`);
}

async function approves(agent, page) {
  const run = agent.run(kEvilText);
  const wait = await agent.wait(run, 'go');
  const posts = [];
  page.on('request', (request) => { if (request.url().endsWith('/resolve')) posts.push(request.headers()); });

  const denied = await page.request.get(new URL('/v1/waits', agent.url).href);
  assert.equal(denied.status(), 401, 'without a session nothing is told');
  const files = await page.request.get(agent.url);
  assert.match(files.headers()['content-security-policy'], /default-src 'self'/);
  assert.equal(files.headers()['cache-control'], 'no-store');

  await page.goto(agent.verb('ui'));
  const card = page.locator(`[data-wait="${wait.id}"]`);
  await card.waitFor();
  assert.ok(!page.url().includes('code='), 'the code is cleared');
  assert.equal(await page.locator('#list button').count(), 0, 'nothing is decided in a list');
  assert.ok((await card.textContent()).includes(kEvilText));
  await fits(page, 360);
  await page.screenshot({ path: path.join(modules, 'pictures/inbox-360.png') });

  await card.focus();
  await page.keyboard.press('Enter');
  await page.locator('#detail h1', { hasText: 'Install' }).waitFor();
  assert.equal(await page.locator('#detail h1').textContent(), kEvilText);
  assert.equal(await page.locator('img').count(), 0, 'text is no markup');
  const shown = await page.locator('#detail').innerText();
  for (const exact of ['12400.00', '1.50e2', '9007199254740993', wait.etag]) assert.ok(shown.includes(exact), `${exact} is shown as it stands`);
  await page.getByRole('button', { name: 'Exact text' }).click();
  assert.ok((await page.locator('#detail pre').textContent()).includes('"cost_eur":12400.00'));
  await fits(page, 360);
  await page.screenshot({ path: path.join(modules, 'pictures/approval-360.png') });

  await page.getByRole('button', { name: 'Request changes' }).click();
  await page.locator('.complaint', { hasText: 'Say in the comment' }).waitFor();
  assert.equal(posts.length, 0, 'no change without words');
  await page.getByLabel('Comment').fill('looks good');
  await page.locator('#detail h1').click();
  await page.keyboard.press('a');  // goes to the button, does not press it
  assert.equal(posts.length, 0);
  await page.getByRole('button', { name: 'Approve' }).dblclick();
  await page.locator('.outcome', { hasText: 'You approved it.' }).waitFor();
  assert.equal(posts.length, 1, 'a double click is one decision');
  assert.equal(posts[0]['if-match'], `"${wait.etag}"`);
  assert.ok(posts[0]['idempotency-key'].length >= 16);
  const { value: decided } = await agent.ask('GET', `/v1/waits/${wait.id}`);
  assert.equal(decided.resolution.decision, 'approved');
  assert.equal(decided.resolution.comment, 'looks good');
  return run;
}

async function answers(agent, page, run) {
  const wait = await agent.wait(run, 'where');
  await page.getByRole('link', { name: '‹ Inbox' }).click();
  await page.locator(`[data-wait="${wait.id}"]`).click();
  await page.getByRole('button', { name: 'Send answer' }).click();
  await page.locator('.complaint', { hasText: 'Choose' }).waitFor();
  await page.getByLabel('us-1').check();
  await fits(page, 360);
  await page.getByRole('button', { name: 'Send answer' }).click();
  await page.locator('.outcome', { hasText: 'You answered it.' }).waitFor();
  let ended;
  await until(async () => {
    ended = (await agent.ask('GET', `/v1/runs/${run}`, undefined, { Prefer: 'wait=5' })).value;
    return ended.finished_at !== null;
  }, `run ${run} ends`);
  assert.equal(ended.status, 'completed');
  assert.deepEqual(ended.result, { where: 'us-1' });
}

// Decided by another while the page is open: it is told, the buttons go, the comment stays.
async function decidedElsewhere(agent, page) {
  const run = agent.run('Somebody else is quicker');
  const wait = await agent.wait(run, 'go');
  await page.goto(new URL(`/#/wait/${wait.id}`, agent.url).href);
  await page.getByLabel('Comment').fill('a draft');
  await page.emulateMedia({ colorScheme: 'dark' });
  const { status } = await agent.ask('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"denied"}');
  assert.equal(status, 200);
  await page.locator('.outcome', { hasText: 'You denied it. Nothing was sent from here.' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  assert.equal(await page.getByLabel('Comment').inputValue(), 'a draft');
  await page.screenshot({ path: path.join(modules, 'pictures/decided-elsewhere-360-dark.png') });
}

// Without a cookie the page asks for the link, and goes on where it was; a link is for one use.
async function signsIn(agent, page) {
  await page.context().clearCookies();
  const link = agent.verb('ui');
  await page.reload();
  for (const [text, what] of [['bide', '.complaint:has-text("not valid")'], [link, '#detail h1']]) {
    await page.getByLabel('Code or link').fill(text);
    await page.keyboard.press('Enter');
    await page.locator(what).waitFor();
  }
  assert.match(page.url(), /#\/wait\/\d+$/);
}

// The agent is gone: it is said, and nothing can be pressed; what is shown stays.
async function tellsOfAnAgentThatIsGone(agent, page) {
  const wait = await agent.wait(agent.run('Are you there?'), 'go');
  await page.goto(new URL(`/#/wait/${wait.id}`, agent.url).href);
  const button = page.getByRole('button', { name: 'Approve' });
  await button.waitFor();
  assert.equal(await button.getAttribute('aria-disabled'), 'false');
  await agent.stop();
  await page.locator('#offline', { hasText: 'does not answer' }).waitFor();
  assert.equal(await button.getAttribute('aria-disabled'), 'true');
  assert.equal(await page.locator('#detail h1').textContent(), 'Are you there?');
}

const { chromium } = playwright();
fs.mkdirSync(path.join(modules, 'pictures'), { recursive: true });
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bide-browser-'));
const agent = new Agent(folder);
let browser;
try {
  await agent.ready();
  agent.url = new URL('/', agent.verb('ui')).href;
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true, args: kFlags });
  const page = await (await browser.newContext({ viewport: { width: 360, height: 740 } })).newPage();
  page.setDefaultTimeout(kLongMs);
  const faults = watchFaults(page);
  const run = await approves(agent, page);
  await answers(agent, page, run);
  await decidedElsewhere(agent, page);
  await signsIn(agent, page);
  assert.deepEqual(faults, []);
  await tellsOfAnAgentThatIsGone(agent, page);
} catch (error) {
  console.error(fs.readFileSync(path.join(folder, 'log'), 'utf8'));
  throw error;
} finally {
  await browser?.close();
  await agent.stop();
  fs.rmSync(folder, { recursive: true, force: true });
}
console.log('approved, answered, told of a decision made elsewhere and of an agent that is gone');
