// What else can happen while somebody decides: a quorum, a form that does not fit, a step in doubt, several at once, a
// question that changed or whose time came, a person who may not.
import assert from 'node:assert/strict';
import { fits, kDesk, picture, test, until } from './support.mjs';

const kSchema = { type: 'object', required: ['window', 'outage', 'ticket'], properties: {
  window: { title: 'Window', enum: ['today 18:00 to 19:00', 'tonight 02:00 to 04:00', 'Sunday morning'] },
  outage: { title: 'Longest outage, minutes', type: 'number', minimum: 1, maximum: 120 },
  tell: { title: 'Tell', type: 'array', uniqueItems: true, items: { enum: ['on-call', 'all customers'] } },
  ticket: { title: 'Ticket', type: 'string', pattern: '^OPS-[0-9]+$' },
  silent: { type: 'boolean' },
  more: { title: 'More', oneOf: [{ type: 'string' }, { type: 'number' }] } } };
const kWorkflows = {
  'quorum.sh': `#!/bin/sh
set -eu
bide wait approval "Install 2.14.0 on eu-1 and us-1?" --name go --quorum 2 --data '{"release":"2.14.0","sites":["eu-1","us-1"],"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}' >/dev/null
`,
  'form.sh': `#!/bin/sh
set -eu
cat > form.json <<'JSON'
${JSON.stringify(kSchema)}
JSON
bide wait question "When may the database be offline?" --name when --schema form.json --timeout 3h --json
`,
  'load.sh': `#!/bin/sh
set -eu
bide wait approval "Load $(bide input rows) orders?" --name go --data "{\\"rows\\":$(bide input rows),\\"sum\\":40112.50}" >/dev/null
`,
  'soon.sh': `#!/bin/sh
set -eu
bide wait approval "Be quick" --name go --timeout 8s --default denied >/dev/null
`,
  'other.sh': `#!/bin/sh
set -eu
bide wait approval "Somebody else must say" --name go --not-initiator >/dev/null
`,
  'doubt.sh': `#!/bin/sh
set -eu
bide step install -- sh -c 'kill -9 $PPID; kill -9 $$'
bide result done=1
`,
};
const at = (agent, hash) => new URL(`/${hash}`, agent.url).href;

async function quorum({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('quorum'), 'go');
  const page = await signedIn(`#/wait/${wait.id}`);
  await page.locator('.quorum', { hasText: '0 of 2' }).waitFor();
  assert.equal((await agent.askAsAdmin('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"approved"}')).status, 202);
  await page.locator('.quorum', { hasText: /1 of 2.*admin.*1 more/ }).waitFor();  // without a reload
  await page.locator('.bar .effect', { hasText: 'Yours is number 2 of 2. The run goes on at once.' }).waitFor();  // a button says what happens now
  await page.locator('.effects', { hasText: 'Yours is number 2 of 2.' }).waitFor();
  await fits(page, 360);
  await picture(page, 'quorum-360');
  await page.goto(at(agent, '#/'));
  await page.locator(`[data-wait="${wait.id}"]`, { hasText: '1 of 2 said yes: admin' }).waitFor();
  await page.goto(at(agent, `#/wait/${wait.id}`));
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.locator('.outcome', { hasText: 'Approved.' }).waitFor();
  assert.equal((await agent.resolved(wait.id)).resolution.votes.length, 2);

  // The first of two may be changed for as long as it is open.
  const second = await agent.wait(agent.run('quorum'), 'go');
  await page.goto(at(agent, `#/wait/${second.id}`));
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.locator('.outcome', { hasText: 'Approved, 1 of 2' }).waitFor();
  await page.locator('.bar').getByRole('button', { name: 'Change' }).click();
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.locator('.outcome', { hasText: 'Denied.' }).waitFor();
  assert.equal((await agent.resolved(second.id)).resolution.decision, 'denied');
}

async function form({ agent, signedIn }) {
  const run = agent.run('form');
  const wait = await agent.wait(run, 'when');
  const page = await signedIn(`#/wait/${wait.id}`);
  const posts = [];
  page.on('request', (request) => { if (request.url().endsWith('/resolve')) posts.push(request.postData()); });
  const send = page.getByRole('button', { name: 'Send answer' });
  await send.click();
  await page.locator('.schema .notice', { hasText: 'Not sent: 3 fields do not fit.' }).waitFor();
  assert.equal(posts.length, 0, 'what cannot be an answer is not sent');
  await page.getByLabel('tonight 02:00 to 04:00').check();
  await page.getByLabel('Longest outage, minutes').fill('12.50');
  await page.getByLabel('on-call').check();
  await page.getByLabel('Ticket').fill('ops 4471');
  await page.locator('.field', { hasText: 'More' }).locator('textarea').fill('1.50e2');
  await send.click();
  await page.locator('.schema .notice', { hasText: 'Not sent: 1 field does not fit.' }).waitFor();
  await page.locator('.wrong', { hasText: '/ticket' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.value), 'ops 4471', 'the focus is on the field');
  assert.equal(await page.getByLabel('Ticket').getAttribute('aria-invalid'), 'true');
  await fits(page, 360);
  await picture(page, 'question-360');
  // What was typed is there after a look elsewhere.
  await page.goto(at(agent, '#/'));
  await page.goto(at(agent, `#/wait/${wait.id}`));
  assert.equal(await page.getByLabel('Longest outage, minutes').inputValue(), '12.50');
  assert.ok(await page.getByLabel('tonight 02:00 to 04:00').isChecked());
  await page.getByLabel('Ticket').fill('OPS-4471');
  await send.click();
  await page.locator('.outcome', { hasText: 'Answer sent.' }).waitFor();
  assert.equal(posts.at(-1), '{"answer":{"window":"tonight 02:00 to 04:00","outage":12.50,"tell":["on-call"],"ticket":"OPS-4471","silent":false,"more":1.50e2}}', 'numbers are sent as typed');
  assert.deepEqual((await agent.resolved(wait.id)).resolution.answer.ticket, 'OPS-4471');

  // As JSON: what the form had is there to go on from.
  const again = await agent.wait(agent.run('form'), 'when');
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route(`**/v1/waits/${again.id}`, async (route) => { await held; await route.continue(); });
  await page.goto(at(agent, `#/wait/${again.id}`));
  // Until it is there nothing of the question before can be typed into or pressed.
  await page.locator('[inert]').waitFor({ state: 'attached' });
  release();
  await page.locator('.meta', { hasText: `wait ${again.id}` }).waitFor();
  assert.equal(await page.locator('[inert]').count(), 0);
  await page.getByLabel('Sunday morning').check();
  await page.getByRole('button', { name: 'Write the answer as JSON instead' }).click();
  const area = page.getByLabel('The answer as JSON');
  assert.match(await area.inputValue(), /"window":"Sunday morning"/);
  await area.fill('{"window":"Sunday morning","outage":1.0,"ticket":"OPS-1"}');
  await send.click();
  await page.locator('.outcome', { hasText: 'Answer sent.' }).waitFor();
}

async function inDoubt({ agent, signedIn }) {
  const run = agent.run('doubt');
  const wait = await agent.wait(run, 'install');
  assert.equal(wait.kind, 'reconcile');
  const page = await signedIn(`#/wait/${wait.id}`);
  await page.locator('.evidence li').first().waitFor();
  const press = page.locator('.bar [data-key="a"]');
  assert.match(await press.textContent(), /Record answer/);
  await press.click();
  await page.locator('.complaint', { hasText: 'Choose an answer first.' }).waitFor();
  assert.equal(await page.locator('input[name="choice"]:checked').count(), 0, 'none is preset');
  await fits(page, 360);
  await picture(page, 'reconcile-360');
  await page.getByLabel('It ran').check();
  assert.match(await press.textContent(), /Record: it ran/);
  await page.getByLabel('Result of the step').fill('{"slot": "a"');
  await press.click();
  await page.locator('.complaint', { hasText: 'no JSON' }).waitFor();
  await page.getByLabel('Result of the step').fill('{"slot": 1.50e2}');
  await press.click();
  await page.locator('.outcome', { hasText: 'Your answer is recorded.' }).waitFor();
  const { resolution } = await agent.resolved(wait.id);
  assert.equal(resolution.answer, 'ran');
  await until(async () => (await agent.ask('GET', `/v1/runs/${run}`)).value.status === 'completed', 'the run goes on with it');
}

async function several({ agent, signedIn }) {
  const waits = [];
  for (const rows of [812, 77, 120]) waits.push(await agent.wait(agent.run('load', { rows }), 'go'));
  const page = await signedIn('');
  await page.getByRole('button', { name: 'Select several' }).click();
  for (const wait of waits) await page.getByLabel(`Select: ${wait.asks}`).check();
  await page.getByRole('link', { name: 'Read these 3, then decide' }).click();
  await page.getByRole('heading', { name: 'Decide 3 together' }).waitFor();
  assert.match(page.url(), /\?select=\d+,\d+,\d+$/);
  assert.ok((await page.locator('.several-list').innerText()).includes('40112.50'));
  await fits(page, 360);
  await picture(page, 'several-360');
  // One of them is decided by another: skipped and told.
  await agent.askAsAdmin('POST', `/v1/waits/${waits[1].id}/resolve`, '{"decision":"denied"}');
  await page.locator('.result', { hasText: 'admin denied it. Nothing of yours was sent.' }).waitFor();
  await page.getByRole('button', { name: 'Approve 2' }).dblclick();
  await page.locator('.effect', { hasText: '2 of 2 recorded.' }).waitFor();
  // What happens afterwards takes nothing of it back.
  const counted = () => page.locator('#nav a').first().textContent();
  const before = await counted();
  await agent.wait(agent.run('load', { rows: 9 }), 'go');
  await until(async () => await counted() !== before, 'the page has heard of a new question');
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  assert.match(await page.locator('.effect').innerText(), /^2 of 2 recorded\. Back to the inbox$/);
  assert.equal(await page.locator('.result.ok', { hasText: 'Recorded.' }).count(), 2);
  const decided = await Promise.all(waits.map((wait) => agent.resolved(wait.id)));
  assert.deepEqual(decided.map((one) => one.resolution.decision), ['approved', 'denied', 'approved']);
}

async function timeComes({ agent, signedIn }) {
  const page = await signedIn('');
  const wait = await agent.wait(agent.run('soon'), 'go');
  await page.goto(at(agent, `#/wait/${wait.id}`));
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.getByLabel('Comment').fill('too late');
  await page.locator('.outcome', { hasText: 'The default, denied, was applied' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  assert.equal(await page.locator('textarea').inputValue(), 'too late');
  await picture(page, 'expired-360');
}

// 412: what is shown is not what is asked. The page was given another text than the agent has.
async function changed({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('load', { rows: 5 }), 'go');
  const page = await signedIn('');
  let first = true;
  await page.route(`**/v1/waits/${wait.id}`, async (route) => {
    const answer = await route.fetch();
    const text = await answer.text();
    if (!first) return route.fulfill({ response: answer, body: text });
    first = false;
    return route.fulfill({ response: answer, body: text.replace('40112.50', '10.00'), headers: { ...answer.headers(), etag: `"${'0'.repeat(64)}"` } });
  });
  await page.goto(at(agent, `#/wait/${wait.id}`));
  await page.locator('.rows', { hasText: '10.00' }).waitFor();
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.locator('.outcome', { hasText: 'What is asked has changed' }).waitFor();
  assert.match(await page.locator('.outcome').innerText(), /data\.sum was 10\.00 and is 40112\.50/);
  assert.equal((await agent.resolved(wait.id)).status, 'pending');
  await picture(page, 'changed-360');
  await until(() => page.evaluate(() => !document.querySelector('#detail .bar').inert), 'it can be pressed');
  await page.getByRole('button', { name: 'Show the new text' }).click();
  await page.locator('.rows', { hasText: '40112.50' }).waitFor();
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.locator('.outcome', { hasText: 'Approved.' }).waitFor();
}

// 409: somebody was first, and the page had not heard of it.
async function secondOfTwo({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('load', { rows: 6 }), 'go');
  const page = await signedIn('');
  await page.route('**/v1/events*', () => {});  // what happens is not heard of
  await page.reload();
  await page.goto(at(agent, `#/wait/${wait.id}`));
  await page.getByRole('button', { name: 'Deny' }).waitFor();
  await page.getByLabel('Comment').fill('mine');
  await agent.askAsAdmin('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"approved"}');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.locator('.outcome', { hasText: 'admin approved it.' }).waitFor();
  assert.equal(await page.locator('textarea').inputValue(), 'mine');
  assert.equal((await agent.resolved(wait.id)).resolution.decision, 'approved');
}

async function mayNot({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('other'), 'go');
  const page = await signedIn(`#/wait/${wait.id}`);
  await page.locator('.notice', { hasText: 'Somebody else must decide' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  const reader = await signedIn('');
  await reader.route('**/v1/session', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: (await answer.text()).replace(/"scopes":"[^"]*"/, '"scopes":"read"') });
  });
  await reader.reload();
  await reader.goto(at(agent, `#/wait/${wait.id}`));
  await reader.locator('.notice', { hasText: 'You can read this, not decide it' }).waitFor();
  assert.equal(await reader.locator('[data-key]').count(), 0);
  await fits(reader, 360);
}

// All by keys, at a desk: from the inbox to a decision, and to the next one.
async function byKeys({ agent, signedIn }) {
  const [one, two] = [await agent.wait(agent.run('load', { rows: 1 }), 'go'), await agent.wait(agent.run('load', { rows: 2 }), 'go')];
  const page = await signedIn('', { viewport: kDesk });
  await page.locator(`[data-wait="${two.id}"]`).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  // As quick as one can: nothing needs to be there before the next press.
  const cards = await page.locator('#list [data-wait]').evaluateAll((all) => all.map((card) => Number(card.dataset.wait)));
  assert.ok(cards.indexOf(one.id) >= 1, 'not the first, so that it takes more than a press');
  await page.evaluate((presses) => {
    for (let i = 0; i < presses; i += 1) document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
  }, cards.indexOf(one.id) + 1);
  assert.equal(await page.evaluate(() => location.hash), `#/wait/${one.id}`);
  await page.locator('#detail h1', { hasText: 'Load 1 orders?' }).waitFor();
  await picture(page, 'inbox-1280', false);
  await page.keyboard.press('d');
  // What has the focus is not under the bar that sticks to the foot.
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  const [focus, bar] = await page.evaluate(() => [document.activeElement.getBoundingClientRect().bottom, document.querySelector('#detail .bar').getBoundingClientRect().top]);
  const inBar = await page.evaluate(() => document.querySelector('#detail .bar').contains(document.activeElement));
  assert.ok(inBar || focus <= bar + 1, `the focus ends at ${focus}, the bar begins at ${bar}`);
  await page.locator('#detail h1').focus();
  await page.keyboard.press('a');
  await page.keyboard.press('Enter');
  await page.locator('.outcome', { hasText: 'Approved.' }).waitFor();
  await page.keyboard.press('j');
  await page.locator('#detail h1', { hasText: 'Load 2 orders?' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
}

await test('decide', kWorkflows, [
  ['quorum', quorum], ['form', form], ['in doubt', inDoubt], ['several', several], ['time comes', timeComes], ['changed', changed],
  ['second of two', secondOfTwo], ['may not', mayNot], ['by keys', byKeys],
]);
