// A run on the page: its timeline, journal and log, why it does not move, what can be done about it; and lists that are
// long: 10 000 steps, 500 waits.
import assert from 'node:assert/strict';
import { fits, kDesk, picture, test, until } from './support.mjs';

const kUsableMs = 1000;
const kBusyFactor = 4;  // the page has one second on an idle machine; tests share theirs

const kWorkflows = {
  'rollout.sh': `#!/bin/sh
set -eu
bide step publish --effect idempotent --retries 4 --backoff 200ms -- sh -c 'echo publishing; test -f tried && echo 9007199254740993 || { touch tried; exit 7; }'
bide step snapshot --compensate "true" -- sh -c 'echo "{\\"slot\\": 1.50e2}"'
bide sleep 300ms
bide state set phase '"asking"'
bide wait approval "Install 2.13.1?" --name go --timeout 4h >/dev/null
bide step install -- sh -c 'echo installed'
bide result slot=a
`,
  'fails.sh': `#!/bin/sh
set -eu
bide step load -- sh -c 'echo no route to 10.0.4.8 >&2; exit 75'
`,
  'asks.sh': `#!/bin/sh
set -eu
bide wait approval "Shall it?" --name go >/dev/null
`,
};
const at = (agent, hash) => new URL(`/${hash}`, agent.url).href;

// No label of the time axis stands in another.
async function labelsApart(page) {
  const boxes = await page.locator('svg.ticks text').evaluateAll((all) => all.map((one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    return { words: one.textContent, left, right, top, bottom };
  }));
  assert.ok(boxes.length >= 2, JSON.stringify(boxes));
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 4 || b.bottom <= a.top + 4;
    assert.ok(apart, `"${a.words}" and "${b.words}" overlap on the time axis`);
  }));
}

async function tells({ agent, signedIn }) {
  const run = agent.run('rollout');
  const wait = await agent.wait(run, 'go');
  const page = await signedIn(`#/run/${run}`, { viewport: kDesk });
  await page.locator('h1', { hasText: `Run ${run}, rollout` }).waitFor();
  await page.locator('.why', { hasText: 'It does not move because one question is open.' }).waitFor();
  assert.ok((await page.locator('.why code').textContent()).startsWith(`bide approve ${wait.id}`));
  const rows = page.locator('.tl > li');
  await page.locator('.tl .label', { hasText: 'publish' }).waitFor();
  assert.ok(await rows.count() >= 4);
  const words = await page.locator('.tl .label .unseen').allTextContents();
  assert.ok(words.some((one) => /^publish, step: completed, .*1 failed try$/.test(one)), words.join(' | '));
  assert.equal(await page.locator('.lane .b-failed').count(), 1);
  assert.ok(await page.locator('.lane .b-person').count() >= 1);
  assert.ok(await page.locator('.lane .b-ran').count() >= 2);
  // A bar is as wide as its time: the two parts of the first step follow each other.
  await page.locator('.log pre', { hasText: 'publishing' }).waitFor();
  await fits(page, 1280);
  await labelsApart(page);
  await picture(page, 'run-1280');

  const opener = page.locator('.steps .name', { hasText: 'snapshot' });
  await opener.click();
  const opened = page.locator('.opened');
  await opened.getByRole('tab', { name: 'Exact text' }).first().click();
  assert.ok((await opened.locator('pre').first().textContent()).includes('1.50e2'), 'a number as it was written');
  assert.equal(await opener.getAttribute('aria-expanded'), 'true');
  assert.ok((await page.locator('.steps').innerText()).includes('9007199254740993'));

  // It goes on: the page hears of it, what was open stays open.
  await agent.ask('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"approved"}');
  await page.locator('h1 + .kind', { hasText: 'Completed' }).waitFor();
  await page.locator('.steps .name', { hasText: 'install' }).waitFor();
  await page.locator('.steps', { hasText: 'Approved by' }).waitFor();
  assert.equal(await opener.getAttribute('aria-expanded'), 'true');
  await page.setViewportSize({ width: 360, height: 740 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await fits(page, 360);
  await labelsApart(page);
  await picture(page, 'run-360-dark');
}

async function acts({ agent, signedIn }) {
  const run = agent.run('rollout');
  await agent.wait(run, 'go');
  const page = await signedIn(`#/run/${run}`, { viewport: kDesk });
  const status = async () => (await agent.ask('GET', `/v1/runs/${run}`)).value;
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.toast', { hasText: `Run ${run} is paused.` }).waitFor();
  assert.ok((await status()).paused_at);
  await page.locator('.toast').getByRole('button', { name: 'Undo' }).click();
  await page.locator('.toast', { hasText: `Run ${run} goes on.` }).waitFor();
  assert.equal((await status()).paused_at, null);

  // Cancel asks first, names what is undone, and the focus is on the safe button.
  const cancel = page.getByRole('button', { name: 'Cancel run…' });
  await cancel.click();
  const dialog = page.getByRole('dialog', { name: `Cancel run ${run}?` });
  await dialog.waitFor();
  assert.match(await dialog.innerText(), /1 finished step is undone, last first: snapshot/);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Keep it running');
  await picture(page, 'cancel-1280', false);
  await page.keyboard.press('Escape');
  assert.equal((await status()).status, 'waiting');
  await cancel.click();
  await dialog.getByLabel('Why').fill('wrong shop');
  await dialog.getByRole('button', { name: 'Cancel the run' }).click();
  await until(async () => (await status()).status === 'cancelled', 'the run is cancelled');
  assert.equal((await status()).cancel_reason, 'wrong shop');
  await page.locator('h1 + .kind', { hasText: 'Cancelled' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0, 'only what applies is offered');
  assert.match(await page.locator('.actions').innerText(), /Not now: only a failed run can be retried\./);

  const failed = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${failed}`)).value.status === 'failed', 'the run fails');
  await page.goto(at(agent, `#/run/${failed}`));
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('.toast', { hasText: `Run ${failed} is queued again.` }).waitFor();
  await until(async () => (await agent.ask('GET', `/v1/runs/${failed}/journal`)).value.items[0].executions === 2, 'it is tried again');
  await until(async () => (await agent.ask('GET', `/v1/runs/${failed}`)).value.status === 'failed', 'and fails again');
  await page.locator('h1 + .kind', { hasText: 'Failed' }).waitFor();
  await page.getByRole('button', { name: 'Fork…' }).click();
  await page.getByLabel('Entries to copy').fill('0');
  await page.getByRole('button', { name: 'Start the fork' }).click();
  await page.waitForURL((url) => !url.href.endsWith(`/${failed}`));
  const forked = Number(page.url().split('/').at(-1));
  await page.getByRole('link', { name: `run ${failed}`, exact: true }).waitFor();
  assert.equal((await agent.ask('GET', `/v1/runs/${forked}`)).value.forked_from, failed);
}

// Runs: filters in the address, and what fits of several.
async function many({ agent, signedIn }) {
  const failed = [agent.run('fails'), agent.run('fails')];
  for (const run of failed) await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'failed', 'the run fails');
  const open = agent.run('asks');
  await agent.wait(open, 'go');
  const page = await signedIn('#/runs', { viewport: kDesk });
  await page.locator(`[data-run="${open}"]`).waitFor();
  await page.getByRole('group', { name: 'State' }).getByRole('link', { name: 'Failed' }).click();
  await page.locator(`[data-run="${failed[0]}"]`).waitFor();
  assert.match(page.url(), /#\/runs\?status=failed$/);
  await page.locator(`[data-run="${open}"]`).waitFor({ state: 'detached' });
  await page.reload();
  await page.locator(`[data-run="${failed[0]}"]`).waitFor();
  await page.getByLabel('Workflow').fill('nothing');
  await page.keyboard.press('Tab');
  await page.locator('.empty', { hasText: 'No run matches' }).waitFor();
  await page.getByRole('link', { name: 'Clear filters' }).last().click();
  for (const run of [...failed, open]) await page.getByLabel(`Select run ${run}`).check();
  const bar = page.locator('#view .many');
  assert.match(await bar.innerText(), /3 selected\./);
  assert.match(await bar.innerText(), /Retry 2: puts back in the queue; completed steps are not run again \(1 it does not fit is left alone\)\./);
  await picture(page, 'runs-1280', false);
  await bar.getByRole('button', { name: 'Cancel 1…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel 1' }).click();
  await page.locator('.toast', { hasText: 'Cancel: 1 of 1 done.' }).waitFor();
  assert.equal((await agent.ask('GET', `/v1/runs/${open}`)).value.status, 'cancelled');
  await page.locator(`[data-run="${open}"] .kind`, { hasText: 'Cancelled' }).waitFor();  // in its place
  await page.locator(`[data-run="${open}"].selected`).waitFor();  // with its mark, and with the focus that it has
  const other = agent.run('asks');
  const wait = await agent.wait(other, 'go');
  await page.getByRole('button', { name: '1 new: show it' }).click();
  await page.locator(`[data-run="${other}"] .kind`, { hasText: 'Waiting' }).waitFor();
  await page.locator(`[data-run="${open}"].selected`).waitFor();
  await page.locator(`[data-run="${other}"] a`).focus();
  await agent.ask('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"approved"}');
  await page.locator(`[data-run="${other}"] .kind`, { hasText: 'Completed' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.closest('.tr')?.dataset.run), String(other), 'the focus stays');
  const first = await page.locator('.runs .tbody .tr').first().getAttribute('data-run');
  const fresh = agent.run('asks');
  await page.getByRole('button', { name: '1 new: show it' }).waitFor();
  assert.equal(await page.locator('.runs .tbody .tr').first().getAttribute('data-run'), first, 'nothing moves under the finger');
  await page.getByRole('button', { name: '1 new: show it' }).click();
  await page.locator(`[data-run="${fresh}"]`).waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await fits(page, 360);
  await picture(page, 'runs-360');
}

// An answer to what was asked before comes after the answer to what is asked now: it changes nothing.
async function lateAnswers({ agent, signedIn }) {
  const failed = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${failed}`)).value.status === 'failed', 'the run fails');
  const [one, two] = [await agent.wait(agent.run('asks'), 'go'), await agent.wait(agent.run('asks'), 'go')];
  const page = await signedIn('#/runs', { viewport: kDesk });
  await page.locator(`[data-run="${two.run}"]`).waitFor();
  const held = [];
  const hold = (what) => page.route(what, async (route) => {
    await new Promise((release) => { held.push(release); });
    await route.continue();
  });
  const settle = async (what) => {
    const answered = page.waitForResponse(what);
    held.forEach((release) => release());
    await (await answered).finished();
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  };
  await hold('**/v1/runs?status=failed*');
  await page.evaluate(() => { location.hash = '#/runs?status=failed'; });
  await until(() => held.length >= 1, 'the first list is asked for');
  await page.evaluate(() => { location.hash = '#/runs?status=waiting'; });
  await page.locator(`[data-run="${failed}"]`).waitFor({ state: 'detached' });
  await settle('**/v1/runs?status=failed*');
  assert.equal(await page.locator(`[data-run="${failed}"]`).count(), 0);
  assert.equal(await page.locator(`[data-run="${two.run}"]`).count(), 1);

  held.length = 0;
  await hold(`**/v1/waits/${one.id}`);
  await page.evaluate((id) => { location.hash = `#/wait/${id}`; }, one.id);
  await until(() => held.length >= 1, 'the first question is asked for');
  await page.evaluate((id) => { location.hash = `#/wait/${id}`; }, two.id);
  const shown = page.locator('#detail .meta', { hasText: `wait ${two.id}` });
  await shown.waitFor();
  await page.evaluate(() => new Promise((done) => { setTimeout(done, 600); }));  // later than what says that the first one is loading
  assert.equal(await shown.count(), 1, 'nothing takes its place');
  await settle(`**/v1/waits/${one.id}`);
  assert.equal(await shown.count(), 1, 'nothing takes its place');
}

// More than the page shows: the agent counts what each action fits, and does it.
async function allThatMatch({ agent, signedIn }) {
  const run = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'failed', 'the run fails');
  await agent.stop();
  agent.sql(`INSERT INTO runs (uid, workflow_id, workflow_version_id, mission, created_by, status, run_at, input, error, created_at, started_at, finished_at)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
      SELECT r.uid || '-' || i, workflow_id, workflow_version_id, 'bulk', created_by, status, run_at, input, error, created_at, started_at, finished_at FROM n, runs r WHERE r.id = ${run};`);
  await agent.start();
  const page = await signedIn('#/runs?mission=bulk', { viewport: kDesk });
  await page.getByRole('button', { name: 'Show older ones' }).waitFor();
  await page.locator('.runs input').first().check();
  await page.getByRole('button', { name: 'Select all that match' }).click();
  await page.locator('#view .many', { hasText: 'All that match: mission bulk.' }).waitFor();
  // What happens meanwhile takes nothing back.
  const refreshed = page.waitForResponse((one) => one.url().includes('/v1/runs?mission=bulk'));
  const other = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${other}`)).value.status === 'failed', 'another run fails');
  await refreshed;
  await page.locator('#view .many', { hasText: 'All that match: mission bulk.' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /^Cancel/ }).count(), 0, 'no action that fits none');
  await page.getByRole('button', { name: 'Retry 60' }).click();
  await page.locator('.toast', { hasText: 'Retry: 60 of 60 done.' }).waitFor();
  const { value } = await agent.ask('GET', '/v1/runs?mission=bulk&limit=200');
  for (const one of value.items) {
    const { value: events } = await agent.ask('GET', `/v1/runs/${one.id}/events?limit=200`);
    assert.ok(events.items.some((event) => event.kind === 'control.retry'), `run ${one.id} was retried`);
  }
}

// Long lists, written into the file of an agent that is stopped.
async function long({ agent, signedIn }) {
  const run = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'failed', 'the run fails');
  const asking = agent.run('asks');
  const wait = await agent.wait(asking, 'go');
  await agent.stop();
  agent.sql(`
    INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, executions, request, request_hash, result, created_at, updated_at)
      WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
      SELECT (SELECT max(id) FROM steps) + i, ${run}, '/step/item/' || i || '/1', i, 'step', 'item ' || i, 'idempotent', CASE i % 997 WHEN 0 THEN 'failed' ELSE 'completed' END, 1,
        '{"n":1.50e2}', zeroblob(32), CASE i % 997 WHEN 0 THEN NULL ELSE '{"n":' || i || '.00}' END, r.created_at + i * 20, r.created_at + i * 20 + 15 FROM n, runs r WHERE r.id = ${run};
    INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, request, request_hash, created_at, updated_at)
      WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      SELECT 10000000 + i, ${asking}, '/approval/go/' || i || '/1', i, 'approval', 'go' || i, 'pure', 'started', '{}', zeroblob(32), s.created_at, s.updated_at FROM n, steps s WHERE s.id = ${wait.step};
    INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, created_at)
      WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      SELECT 10000000 + i, ${asking}, 10000000 + i, 'approval', 'go' || i, 'pending', '{"text":"Shall it, ' || i || '?","data":{"row":' || i || '}}', zeroblob(32), w.created_at FROM n, waits w WHERE w.id = ${wait.id};
  `);
  await agent.start();
  const limit = kUsableMs * kBusyFactor;
  const page = await signedIn('', { viewport: kDesk });
  const timed = async (what, hash, ready) => {
    await page.goto(at(agent, '#/deliveries'));
    await page.getByRole('heading', { name: /deliver/ }).first().waitFor();
    const ms = await page.evaluate(async ([address, selector, count]) => {
      const began = performance.now();
      location.hash = address;
      while (document.querySelectorAll(selector).length < count) await new Promise((done) => { requestAnimationFrame(done); });
      await new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });
      return performance.now() - began;
    }, [hash, ...ready]);
    console.log(`  ${what}: ${Math.round(ms)} ms`);
    assert.ok(ms < limit, `${what} takes ${ms} ms`);
  };
  await timed('500 waits', '#/', ['#list .card', 500]);
  await timed('10 000 steps, the first rows', `#/run/${run}`, ['.tl .label', 10]);
  await page.locator('.steps .note', { hasText: '10000 in order' }).waitFor();
  assert.ok(await page.evaluate(() => document.querySelectorAll('#view *').length) < 4000, 'only what is near is in the document');
  await picture(page, 'long-1280');
  // The last row is reached, and opened, with its exact text.
  const box = page.locator('.table-box');
  await box.evaluate((node) => { node.scrollTop = node.scrollHeight; });
  await page.locator('.steps .name', { hasText: /^item 10000$/ }).click();
  await page.locator('.panel', { hasText: '10000.00' }).waitFor();
  await page.getByRole('button', { name: 'Only what failed or waits' }).click();
  await until(async () => await page.locator('.tl > li').count() < 15, 'only what failed is drawn');
  assert.ok(await page.locator('.tl .name', { hasText: 'item 997' }).count() > 0);
}

// 50 events while somebody reads: no row moves, the focus stays.
async function still({ agent, signedIn }) {
  const page = await signedIn('');
  for (let i = 0; i < 3; i += 1) await agent.wait(agent.run('asks'), 'go');
  await page.reload();
  await page.locator('#list .card').first().waitFor();
  const places = () => page.evaluate(() => [...document.querySelectorAll('#list .card')].slice(0, 20).map((one) => `${one.dataset.wait} ${Math.round(one.getBoundingClientRect().top)}`));
  await page.locator('#list .card').nth(2).focus();
  const before = await places();
  const focus = await page.evaluate(() => document.activeElement.dataset.wait);
  for (let i = 0; i < 9; i += 1) agent.run('fails');  // some six events each
  await until(async () => {
    const { value } = await agent.ask('GET', '/v1/runs?limit=9');
    return value.items.every((run) => run.status === 'failed');
  }, 'the runs are over');
  await agent.wait(agent.run('asks'), 'go');
  await page.getByRole('button', { name: '1 new: show it' }).waitFor();  // so it has heard of all that was before
  assert.deepEqual(await places(), before, 'the rows stand where they stood');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.wait), focus);
}

await test('run', kWorkflows, [['tells', tells], ['acts', acts], ['many', many], ['late answers', lateAnswers], ['all that match', allThatMatch], ['long', long], ['still', still]]);
