// A person decides on the page, for real: `bide serve` on a folder of its own, a program workflow that asks, the link of
// `bide ui`, Debian's chromium. What the page did is checked with the agent's API, not on the page.
import assert from 'node:assert/strict';
import { fits, picture, test, until } from './support.mjs';

const kEvilText = 'Install <img src=x onerror="document.title=\'owned\'"> now?';
const kWorkflows = {
  'ask.sh': `#!/bin/sh
set -eu
text=$(bide input text)
bide wait approval "$text" --name go --timeout 20m --data '{"release":"2.14.0","cost_eur":12400.00,"tries":1.50e2,"big":9007199254740993}' >/dev/null
where=$(bide wait question "Where to?" --name where --option eu-1 --option us-1)
bide result where="$where"
`,
};

async function approvesAndAnswers({ agent, newPage }) {
  const run = agent.run('ask', { text: kEvilText });
  const wait = await agent.wait(run, 'go');
  const page = await newPage();
  const posts = [];
  page.on('request', (request) => { if (request.url().endsWith('/resolve')) posts.push(request.headers()); });

  const denied = await page.request.get(new URL('/v1/waits', agent.url).href);
  assert.equal(denied.status(), 401, 'without a session nothing is told');
  const files = await page.request.get(agent.url);
  assert.match(files.headers()['content-security-policy'], /default-src 'self'/);
  assert.equal(files.headers()['cache-control'], 'no-store');

  await page.goto(agent.link());
  const card = page.locator(`[data-wait="${wait.id}"]`);
  await card.waitFor();
  assert.ok(!page.url().includes('code='), 'the code is cleared');
  assert.equal(await page.locator('#list').getByRole('button', { name: /approve|deny/i }).count(), 0, 'nothing is decided in a list');
  assert.ok((await card.textContent()).includes(kEvilText));
  await until(async () => /^1 needs you · bide on /.test(await page.title()), 'the title counts');
  await fits(page, 360);
  await picture(page, 'inbox-360');

  await card.focus();
  await page.keyboard.press('Enter');
  await page.locator('#detail h1', { hasText: 'Install' }).waitFor();
  assert.equal(await page.locator('#detail h1').textContent(), kEvilText);
  assert.equal(await page.locator('img').count(), 0, 'text is no markup');
  await page.getByRole('button', { name: 'whole digest' }).click();
  const shown = await page.locator('#detail').innerText();
  for (const exact of ['12400.00', '1.50e2', '9007199254740993', wait.etag]) assert.ok(shown.includes(exact), `${exact} is shown as it stands`);
  await page.getByRole('tab', { name: 'Exact text' }).click();
  assert.ok((await page.locator('#detail pre').textContent()).includes('"cost_eur":12400.00'));
  await fits(page, 360);
  await picture(page, 'approval-360');

  await page.getByRole('button', { name: /changes/i }).click();
  await page.locator('.complaint', { hasText: 'Say in the comment' }).waitFor();
  assert.equal(posts.length, 0, 'no change without words');
  await page.getByLabel('Comment').fill('looks good');
  await page.locator('#detail h1').click();
  await page.keyboard.press('a');  // goes to the button, does not press it
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), 'a');
  assert.equal(posts.length, 0);
  await page.getByRole('button', { name: 'Approve' }).dblclick();
  await page.locator('.outcome', { hasText: 'Approved.' }).waitFor();
  assert.equal(posts.length, 1, 'a double click is one decision');
  assert.equal(posts[0]['if-match'], `"${wait.etag}"`);
  assert.ok(posts[0]['idempotency-key'].length >= 16);
  const decided = await agent.resolved(wait.id);
  assert.equal(decided.resolution.decision, 'approved');
  assert.equal(decided.resolution.comment, 'looks good');

  const where = await agent.wait(run, 'where');
  await page.getByRole('link', { name: '‹ Inbox' }).click();
  await page.locator(`[data-wait="${where.id}"]`).click();
  await page.getByRole('button', { name: 'Send answer' }).click();
  await page.locator('.complaint', { hasText: 'Choose' }).waitFor();
  await page.getByLabel('us-1').check();
  await fits(page, 360);
  await page.getByRole('button', { name: 'Send answer' }).click();
  await page.locator('.outcome', { hasText: 'Answer sent.' }).waitFor();
  let ended;
  await until(async () => {
    ended = (await agent.ask('GET', `/v1/runs/${run}`, undefined, { Prefer: 'wait=5' })).value;
    return ended.finished_at !== null;
  }, `run ${run} ends`);
  assert.equal(ended.status, 'completed');
  assert.deepEqual(ended.result, { where: 'us-1' });
}

// Denied, and sent back for changes: the run hears which.
async function deniesAndSendsBack({ agent, signedIn }) {
  const page = await signedIn();
  for (const [button, decision, said] of [['Deny', 'denied', 'Denied.'], [/changes/i, 'changes_requested', 'Changes requested.']]) {
    const wait = await agent.wait(agent.run('ask', { text: `To be ${decision}` }), 'go');
    await page.goto(new URL(`/#/wait/${wait.id}`, agent.url).href);
    await page.locator('#detail h1', { hasText: decision }).waitFor();
    await page.getByLabel('Comment').fill(`because ${decision}`);
    await page.getByRole('button', { name: button }).click();
    await page.locator('.outcome', { hasText: said }).waitFor();
    const { resolution } = await agent.resolved(wait.id);
    assert.deepEqual([resolution.decision, resolution.comment], [decision, `because ${decision}`]);
  }
}

// Decided by another while the page is open: it is told, the buttons go, the comment stays.
async function decidedElsewhere({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('ask', { text: 'Somebody else is quicker' }), 'go');
  const page = await signedIn(`#/wait/${wait.id}`, { colorScheme: 'dark' });
  await page.getByLabel('Comment').fill('a draft');
  // Whether the place of the buttons was inert when the outcome took it: looked at by the page itself, as it lasts 700 ms.
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.outcome')) return;
      window.wasInert = document.querySelector('#detail .bar').inert;
      observer.disconnect();
    }).observe(document.querySelector('#detail'), { childList: true, subtree: true });
  });
  const { status } = await agent.askAsAdmin('POST', `/v1/waits/${wait.id}/resolve`, '{"decision":"denied","comment":"Not before Monday."}');
  assert.equal(status, 200);
  await page.locator('.outcome', { hasText: /admin denied this .* Nothing of yours was sent\./ }).waitFor();
  assert.ok(await page.evaluate(() => window.wasInert), 'nothing can be pressed at that place for a moment');
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  assert.equal(await page.locator('textarea').inputValue(), 'a draft');
  assert.ok((await page.locator('.outcome').textContent()).includes('Not before Monday.'));
  await until(() => page.evaluate(() => !document.querySelector('#detail .bar').inert), 'the way back can be pressed');
  await fits(page, 360);
  await picture(page, 'decided-elsewhere-360-dark');
}

// Without a cookie the page asks for the link, and goes on where it was; a link is for one use.
async function signsIn({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('ask', { text: 'Who are you?' }), 'go');
  const page = await signedIn(`#/wait/${wait.id}`);
  await page.getByLabel('Comment').fill('kept over the sign-in');
  await page.context().clearCookies();
  await page.evaluate(() => document.querySelector('#detail [data-key="a"]').click());
  await page.locator('#sign-in h1').waitFor();
  await picture(page, 'sign-in-360');
  await fits(page, 360);
  const link = agent.link();
  for (const [text, what] of [['bide', '.complaint:has-text("not valid")'], [link, '#detail h1']]) {
    await page.getByLabel('Code or link').fill(text);
    await page.keyboard.press('Enter');
    await page.locator(what).waitFor();
  }
  assert.match(page.url(), /#\/wait\/\d+$/);
  // Drawn anew after a look elsewhere: what was typed comes from what the page kept, not from an old field.
  await page.goto(new URL('/#/', agent.url).href);
  await page.locator('body[data-view="inbox"]').waitFor();
  await page.goto(new URL(`/#/wait/${wait.id}`, agent.url).href);
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  assert.equal(await page.getByLabel('Comment').inputValue(), 'kept over the sign-in');
  assert.equal((await agent.resolved(wait.id)).status, 'pending', 'what was pressed without a session was not kept');
}

// The agent is gone: it is said, and nothing can be pressed; what is shown stays. It is back: the page goes on.
async function outlivesTheAgent({ agent, signedIn }) {
  const wait = await agent.wait(agent.run('ask', { text: 'Are you there?' }), 'go');
  const page = await signedIn(`#/wait/${wait.id}`);
  const button = page.getByRole('button', { name: 'Approve' });
  await button.waitFor();
  await page.getByLabel('Comment').fill('typed before');
  assert.equal(await button.getAttribute('aria-disabled'), 'false');
  await agent.stop();
  await page.locator('#offline', { hasText: 'does not answer' }).waitFor();
  assert.equal(await button.getAttribute('aria-disabled'), 'true');
  assert.equal(await page.locator('#detail h1').textContent(), 'Are you there?');
  await fits(page, 360);
  await picture(page, 'offline-360');
  await agent.start();
  // A session lives in the agent's memory: whoever looked signs in again, in the same place, with what was typed.
  await page.locator('#sign-in h1').waitFor();
  await page.getByLabel('Code or link').fill(agent.link());
  await page.keyboard.press('Enter');
  await button.waitFor();
  assert.equal(await page.getByLabel('Comment').inputValue(), 'typed before');
  await until(async () => await button.getAttribute('aria-disabled') === 'false', 'it can be pressed again');
  await button.click();
  await page.locator('.outcome', { hasText: 'Approved.' }).waitFor();
  assert.equal((await agent.resolved(wait.id)).resolution.comment, 'typed before');
}

await test('approve', kWorkflows, [
  ['approves and answers', approvesAndAnswers], ['denies and sends back', deniesAndSendsBack], ['decided elsewhere', decidedElsewhere],
  ['signs in', signsIn], ['outlives the agent', outlivesTheAgent],
]);
