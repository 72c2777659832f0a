// What the browser tests share: an agent of their own for real, Debian's chromium, and what no page may do.
// Environment: BIDE (the executable), BROWSER_MODULES (a folder for playwright-core and axe-core, filled when it is
// empty; pictures of the pages stay in its folder pictures/), CHROMIUM; PAGE_FILES: a folder whose files stand in for
// those in the program, to work on the page without a build.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const bide = process.env.BIDE;
const modules = process.env.BROWSER_MODULES;
const kFlags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'];
export const kLongMs = 60_000;
export const kPhone = { width: 360, height: 740 };
export const kDesk = { width: 1280, height: 820 };

// Fetched once; of two tests that begin together one waits for the other.
function fetched(name) {
  const there = () => fs.existsSync(path.join(modules, `node_modules/${name}/package.json`));
  const lock = `${modules}.lock`;
  const end = Date.now() + 120_000;
  while (!there()) {
    try {
      fs.mkdirSync(lock);
    } catch {
      assert.ok(Date.now() < end, `${lock} stays: another test ended while it fetched; remove it`);
      spawnSync('sleep', ['0.2']);
      continue;
    }
    try {
      // Unpacked beside, and moved in whole: who does not come by the lock must not load half a package.
      const fresh = `${modules}.fetched`;
      for (const folder of [modules, fresh]) {
        fs.mkdirSync(folder, { recursive: true });
        for (const file of ['package.json', 'package-lock.json']) fs.copyFileSync(path.join(import.meta.dirname, file), path.join(folder, file));
      }
      const got = spawnSync('npm', ['ci', '--prefix', fresh, '--no-audit', '--no-fund'], { stdio: 'inherit' });
      assert.equal(got.status, 0, 'npm ci');
      fs.rmSync(path.join(modules, 'node_modules'), { recursive: true, force: true });
      fs.renameSync(path.join(fresh, 'node_modules'), path.join(modules, 'node_modules'));
      fs.rmSync(fresh, { recursive: true });
    } finally {
      fs.rmdirSync(lock);
    }
  }
  return createRequire(path.join(modules, 'package.json'));
}

export class Agent {
  // workflows: {'name.sh': text}
  constructor(folder, workflows) {
    this.folder = folder;
    this.socket = path.join(folder, 'bide.sock');
    this.env = { ...process.env, BIDE_AGENT: this.socket };
    const place = path.join(folder, 'workflows');
    fs.mkdirSync(place, { mode: 0o755 });
    for (const [name, text] of Object.entries(workflows)) fs.writeFileSync(path.join(place, name), text, { mode: 0o755 });
    this.port = 0;
  }
  // Again after a stop: on the same port, so that an open page finds it.
  async start() {
    const log = fs.openSync(path.join(this.folder, 'log'), 'a');
    this.process = spawn(bide, ['serve', '--data', path.join(this.folder, 'data'), '--workflows', path.join(this.folder, 'workflows'), '--socket', this.socket,
      '--listen', `127.0.0.1:${this.port}`], { env: this.env, stdio: ['ignore', 'ignore', log] });
    this.ended = new Promise((done) => { this.process.on('exit', done); });
    await until(async () => (await this.ask('GET', '/readyz').catch(() => ({}))).status === 200, 'the agent is ready');
    this.url = new URL('/', this.link()).href;
    this.port = new URL(this.url).port;
  }
  async stop(signal = 'SIGTERM') {
    this.process?.kill(signal);
    await this.ended;
  }
  link() { return this.verb('ui').match(/https?:\S+/)[0]; }
  ask(method, target, body, headers = {}) {
    return this.#request({ socketPath: this.socket }, method, target, body, headers);
  }
  // As another principal: the one of the agent's first token.
  askAsAdmin(method, target, body, headers = {}) {
    const token = fs.readFileSync(path.join(this.folder, 'data/admin.token'), 'utf8').trim();
    return this.#request({ host: '127.0.0.1', port: this.port }, method, target, body, { Authorization: `Bearer ${token}`, Host: `127.0.0.1:${this.port}`, ...headers });
  }
  #request(where, method, target, body, headers) {
    return new Promise((done, fail) => {
      const request = http.request({ ...where, method, path: target, headers: { Host: 'localhost',
        ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }), ...headers } }, (answer) => {
        let text = '';
        answer.on('data', (part) => { text += part; });
        answer.on('end', () => done({ status: answer.statusCode, value: text ? JSON.parse(text) : null }));
      });
      request.on('error', fail);
      request.end(body);
    });
  }
  verb(...args) { return execFileSync(bide, args, { env: this.env, encoding: 'utf8' }).trim(); }
  run(workflow, input = {}) { return Number(this.verb('run', workflow, '--input', JSON.stringify(input))); }
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
  async resolved(wait) { return (await this.ask('GET', `/v1/waits/${wait}`)).value; }
  // Rows that would take long to come about: written into the file of an agent that is stopped.
  sql(text) {
    const got = spawnSync('sqlite3', ['-bail', path.join(this.folder, 'data/bide.db')], { input: text, encoding: 'utf8' });
    assert.equal(got.status, 0, got.stderr);
    return got.stdout.trim();
  }
}

export async function until(condition, what) {
  const end = Date.now() + kLongMs;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${kLongMs} ms: ${what}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

// What no page may do: a fault in a script, a report of the content policy. What a route refuses is told on the page.
export function watchFaults(page) {
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of (40[0-9]|41[02]|422|429|503)|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED/.test(message.text())) faults.push(message.text());
  });
  return faults;
}
// No element past the right edge: compared with the width, not with what the page has grown to.
export async function fits(page, width) {
  const past = await page.evaluate((most) => [...document.querySelectorAll('body *')]
    .filter((node) => !node.closest('.unseen, svg') && node.getBoundingClientRect().right > most + 0.5).map((node) => node.outerHTML.slice(0, 120)), width);
  assert.deepEqual(past, [], `past ${width} px`);
}
// Faults that axe finds by WCAG 2.2 A and AA.
export async function accessible(page, what) {
  if (!await page.evaluate(() => 'axe' in window)) {
    // The policy of the page lets no script in but its own: this one comes through the debugger.
    await page.evaluate(fs.readFileSync(path.join(modules, 'node_modules/axe-core/axe.min.js'), 'utf8'));
  }
  const found = await page.evaluate(async () => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const { violations } = await window.axe.run(document, { runOnly: { type: 'tag', values: tags } });
    return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target.join(' ')}: ${node.failureSummary.replace(/\s+/g, ' ').slice(0, 200)}`));
  });
  assert.deepEqual(found, [], `axe on ${what}`);
}
export const picture = (page, name, fullPage = true) => page.screenshot({ path: path.join(modules, 'pictures', `${name}.png`), fullPage });

async function fromFolder(route) {
  const answer = await route.fetch().catch(() => null);
  if (!answer) return route.abort('connectionrefused');
  const name = new URL(route.request().url()).pathname.slice(1) || 'index.html';
  const type = { js: 'text/javascript', css: 'text/css', html: 'text/html', svg: 'image/svg+xml' }[name.split('.').at(-1)];
  return route.fulfill({ headers: { ...answer.headers(), 'content-type': `${type}; charset=utf-8` }, body: fs.readFileSync(path.join(process.env.PAGE_FILES, name), 'utf8'), status: 200 });
}

// One case after the other on one agent and one browser. cases: [[name, async ({agent, browser, newPage}) => …], …]
export async function test(title, workflows, cases) {
  const { chromium } = fetched('axe-core')('playwright-core');
  fs.mkdirSync(path.join(modules, 'pictures'), { recursive: true });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bide-browser-'));
  const agent = new Agent(folder, workflows);
  const wanted = process.argv[2];
  let browser;
  let done = 0;
  try {
    await agent.start();
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true, args: kFlags });
    for (const [name, run] of cases) {
      if (wanted && !name.includes(wanted)) continue;
      const contexts = [];
      const faults = [];
      const newPage = async (options = {}) => {
        const context = await browser.newContext({ viewport: kPhone, ...options });
        contexts.push(context);
        if (process.env.PAGE_FILES) await context.route(/:\d+\/([\w-]+\.(js|css|html|svg))?$/, fromFolder);
        const page = await context.newPage();
        page.setDefaultTimeout(kLongMs);
        faults.push(watchFaults(page));
        return page;
      };
      // A page that is signed in, at an address.
      const signedIn = async (hash = '', options = {}) => {
        const page = await newPage(options);
        await page.goto(agent.link());
        await page.locator('body[data-view="inbox"]').waitFor();
        if (hash) await page.goto(new URL(`/${hash}`, agent.url).href);
        return page;
      };
      const began = Date.now();
      try {
        await run({ agent, browser, newPage, signedIn });
        assert.deepEqual(faults.flat(), [], name);
      } catch (error) {
        await Promise.all(contexts.flatMap((one) => one.pages()).map((page, i) => picture(page, `failed-${title}-${i}`).catch(() => {})));
        error.message = `${name}: ${error.message}`;
        throw error;
      }
      for (const context of contexts) await context.close();
      done += 1;
      console.log(`ok ${name} (${Date.now() - began} ms)`);
    }
    assert.ok(done > 0, 'no case ran');
  } catch (error) {
    console.error(fs.readFileSync(path.join(folder, 'log'), 'utf8').slice(-4000));
    throw error;
  } finally {
    await browser?.close();
    await agent.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
  console.log(`${title}: ${done} cases`);
}
