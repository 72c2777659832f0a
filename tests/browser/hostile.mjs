// Hostile text through everything that a user or a program can set: 200 strings, and on no page is one of them more than
// text. What has no page of its own (tokens, folders, endpoints) is set too, and every view is looked at with it there.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fits, test, until } from './support.mjs';

const kStrings = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, 'hostile.json'), 'utf8'));
// What a shell or an argument can hold.
const kWords = kStrings.map((text) => text.replace('\u0000', ''));
const kAtOnce = 20;  // strings of a run

const kWorkflows = {
  'evil.sh': `#!/bin/sh
set -eu
text=$(bide input text)
bide state set said "$(bide input text --json)"
echo "$text"
bide step "$(printf %s "$text" | tr -c 'a-zA-Z0-9<>=()' . | cut -c1-60)" --effect idempotent -- printf %s "$text"
bide wait question "$text" --name ask --option "$text" --option other >/dev/null
bide wait approval "$text" --name go --data "$(bide input --json)" >/dev/null
exit 1
`,
  // Each text as the name and the key of a step, its output, a state, a progress, a line of the log, and what is asked.
  'evils.py': `#!/usr/bin/env python3
import json, subprocess, sys
def bide(*words, **more): return subprocess.Popen(['bide', *words], stdout=subprocess.DEVNULL, **more)
texts = json.loads(subprocess.run(['bide', 'input', '/texts'], check=True, capture_output=True, text=True).stdout)
def done(*words): assert bide(*words).wait() == 0
for text in texts:
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    done('step', text[:100], '--key', text, '--effect', 'pure', '--', 'printf', '%s', text)
    done('state', 'set', text[:100], text)
    done('progress', '50', text)
asked = [bide('wait', 'approval', text, '--name', 'n%d' % i, '--key', text, '--branch', 'b%d' % i, '--data', json.dumps({text: text})) for i, text in enumerate(texts)]
for one in asked: assert one.wait() == 0
done('result', '--text', ' '.join(texts))
`,
  // Its last words are the run's error.
  'ends.py': `#!/usr/bin/env python3
import json, subprocess, sys
texts = json.loads(subprocess.run(['bide', 'input', '/texts'], check=True, capture_output=True, text=True).stdout)
sys.exit('\\n'.join(texts))
`,
};
const at = (agent, hash) => new URL(`/${hash}`, agent.url).href;

async function check(page, where) {
  const found = await page.evaluate(() => ({ owned: window.owned, tags: document.querySelectorAll('img, iframe, object, video, details:not(.filters), script:not([src="/page.js"]), style, math, a[href^="javascript"], [onerror], [onload], [onfocus], [srcdoc]').length }));
  assert.deepEqual(found, { owned: undefined, tags: 0 }, where);
}
async function go(page, hash, selector, text) {
  await page.evaluate((to) => { window.location.hash = to; }, hash);
  await page.locator(selector, text ? { hasText: text } : {}).first().waitFor();
}

async function asked({ agent, signedIn }) {
  const data = Object.fromEntries(kStrings.map((text, i) => [`${i} ${text}`, { [text]: text, list: [text, text] }]));
  const waits = [];
  for (const text of [kStrings[0], kStrings[21], kStrings[42], kStrings[126]].map((one) => one.replace('\u0000', ''))) {
    const { value } = await agent.ask('POST', '/v1/runs', JSON.stringify({ workflow: 'evil', input: { text, data }, key: text, mission: text, labels: { [text]: text } }));
    const ask = await agent.wait(value.id, 'ask');
    waits.push([value.id, ask, text]);
  }
  const page = await signedIn('');
  await page.locator(`[data-wait="${waits[0][1].id}"]`).waitFor();
  await check(page, 'inbox');
  for (const [run, ask, text] of waits) {
    await page.goto(at(agent, `#/wait/${ask.id}`));
    await page.locator('.choice').first().waitFor();
    await check(page, 'question');
    await page.locator('.choice input').first().check();
    await page.getByRole('button', { name: 'Send answer' }).click();
    await page.locator('.outcome', { hasText: 'Answer sent.' }).waitFor();
    await check(page, 'answered');
    const go = await agent.wait(run, 'go');
    await page.goto(at(agent, `#/wait/${go.id}`));
    await page.locator('.rows > div').nth(5).waitFor();
    await check(page, 'approval');
    await page.getByRole('tab', { name: 'Exact text' }).click();
    await check(page, 'exact text');
    await fits(page, 360);
    await agent.ask('POST', `/v1/waits/${go.id}/resolve`, JSON.stringify({ decision: 'changes_requested', comment: text }));
    await page.locator('.outcome').waitFor();
    await check(page, 'decided elsewhere');
    await page.goto(at(agent, `#/run/${run}`));
    await page.locator('.tl .label').first().waitFor();
    await check(page, 'run');
    for (const opener of await page.locator('.steps .name').all()) await opener.click();
    await check(page, 'steps');
    await fits(page, 360);
    await page.goto(at(agent, `#/runs?mission=${encodeURIComponent(text)}`));
    await page.locator(`[data-run="${run}"]`).waitFor();
    await check(page, 'runs');
    await fits(page, 360);
  }
  await page.goto(at(agent, '#/workflows'));
  await page.locator('#view .card').first().waitFor();
  await check(page, 'workflows');
}

// What people and apps set: key, mission, label, input, signal, reason, and the rest of the API.
async function toldByPeople({ agent, signedIn }) {
  assert.equal(new Set(kStrings).size, 200);
  const post = (target, body) => agent.ask('POST', target, JSON.stringify(body));
  const runs = [];
  for (const [i, text] of kStrings.entries()) {
    const began = await post('/v1/runs', { workflow: 'evil', run_at: '2099-01-01T00:00:00Z', key: `later ${text}`, mission: text, labels: { [text]: text }, input: { [text]: [text] } });
    assert.equal(began.status, 201, text);
    const run = began.value.id;
    runs.push([run, text]);
    assert.equal((await post(`/v1/runs/${run}/signals/${encodeURIComponent(kWords[i].slice(0, 100))}`, { payload: { [text]: text } })).status, 200);
    if (i % 2 === 0) assert.equal((await post(`/v1/runs/${run}/cancel`, { reason: text })).status, 200);
    // Refused or taken: neither may be more than text.
    for (const [target, body] of [['/v1/tokens', { name: text, scopes: 'read' }], ['/v1/environments', { name: text }], ['/v1/webhooks', { url: `https://a.example/${text}`, events: [text] }],
      ['/v1/webhooks', { url: `https://a.example/${encodeURIComponent(text)}`, events: ['run.*'] }], ['/v1/workflows', { name: text, version: text }], ['/v1/runs', { workflow: text }]]) {
      const { status, value } = await post(target, body);
      assert.ok(status < 500 && value, `${target} ${text}`);
    }
  }
  const page = await signedIn('');
  for (const [run, text] of runs) {
    await go(page, `#/run/${run}`, 'h1', `Run ${run},`);
    await page.locator('code', { hasText: text.replace(/[\u0000\u202e\ufeff]/g, '').slice(-12) }).first().waitFor();
    await check(page, `run ${run}: ${text}`);
  }
  for (const [run, text] of runs.filter((_, i) => i % 10 === 0)) {
    await go(page, `#/runs?mission=${encodeURIComponent(text)}`, `[data-run="${run}"]`);
    await check(page, `runs: ${text}`);
  }
  await fits(page, 360);
  for (const [hash, selector] of [['#/', '#nav'], ['#/workflows', '#view .card'], ['#/deliveries', '#view h1'], ['#/agent', '.facts-grid']]) {
    await go(page, hash, selector);
    await check(page, hash);
  }
}

// What programs set: names, keys, outputs, states, progress, log, what they ask, results and last words.
async function saidByPrograms({ agent, signedIn }) {
  const runs = [];
  const ended = [];
  for (let from = 0; from < kWords.length; from += kAtOnce) {
    const texts = kWords.slice(from, from + kAtOnce);
    runs.push([agent.run('evils', { texts }), texts]);
    ended.push(agent.run('ends', { texts }));
  }
  const page = await signedIn('');
  let seen = 0;
  for (const [run, texts] of runs) {
    let waits = [];
    await until(async () => {
      waits = (await agent.ask('GET', `/v1/waits?status=pending&run=${run}&limit=200`)).value.items;
      return waits.length === texts.length;
    }, `run ${run} asks ${texts.length} times`);
    await go(page, '#/', `[data-wait="${waits[0].id}"]`);
    await check(page, 'inbox');
    for (const wait of waits) {
      await go(page, `#/wait/${wait.id}`, '#detail [data-key="a"]');
      await check(page, `wait ${wait.id}`);
      await agent.ask('POST', `/v1/waits/${wait.id}/resolve`, JSON.stringify({ decision: 'approved', comment: texts[seen % texts.length] }));
      await page.locator('.outcome').first().waitFor();
      await check(page, `decided ${wait.id}`);
      seen += 1;
    }
    await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'completed', `run ${run} completes`);
    await go(page, `#/run/${run}`, 'h1', `Run ${run},`);
    await page.locator('.steps .name').nth(2 * kAtOnce).waitFor();
    for (const opener of (await page.locator('.steps .name').all()).slice(0, kAtOnce)) await opener.click();
    await page.locator('.log', { hasText: texts[0].slice(-12) }).waitFor();
    await check(page, `run ${run}`);
  }
  assert.equal(seen, 200);
  for (const run of ended) {
    await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'failed', `run ${run} fails`);
    await go(page, `#/run/${run}`, 'h1', `Run ${run},`);
    await page.getByText('program_failed').first().waitFor();
    await check(page, `the end of ${run}`);
  }
}

await test('hostile', kWorkflows, [['asked and answered', asked], ['told by people', toldByPeople], ['said by programs', saidByPrograms]]);
