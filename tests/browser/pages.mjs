// Every page, in both schemes and both widths: what axe finds, whether it fits, in forced colours, at twice the text, in
// a wide font.
import assert from 'node:assert/strict';
import { accessible, fits, kDesk, kPhone, picture, test, until } from './support.mjs';

const kWorkflows = {
  'all.sh': `#!/bin/sh
set -eu
bide step publish --effect idempotent -- echo published
bide send http://127.0.0.1:9/nowhere --data '{"n":1}' --name tell || true
bide wait approval "Install 2.14.0 on eu-1 and us-1?" --name go --quorum 2 --timeout 40m --data '{"release":"2.14.0","sites":["eu-1","us-1"],"cost_eur":12400.00,"nested":{"a":{"b":[{"c":1}]}}}' >/dev/null
`,
  'form.sh': `#!/bin/sh
set -eu
cat > form.json <<'JSON'
{"type":"object","required":["n"],"properties":{"n":{"type":"number","minimum":1},"how":{"enum":["a","b","c","d","e","f"]},"deep":{"type":"object","properties":{"x":{"type":"string"},"deeper":{"type":"object","properties":{"y":{"type":"string"}}}}},"yes":{"type":"boolean"}}}
JSON
bide wait question "How many?" --name many --schema form.json >/dev/null
`,
  'fails.sh': `#!/bin/sh
set -eu
bide step load -- sh -c 'echo no route >&2; exit 75'
`,
  'doubt.sh': `#!/bin/sh
set -eu
bide step install -- sh -c 'kill -9 $PPID; kill -9 $$'
`,
};
const at = (agent, hash) => new URL(`/${hash}`, agent.url).href;

async function prepared(agent) {
  const all = agent.run('all');
  const go = await agent.wait(all, 'go');
  const many = await agent.wait(agent.run('form'), 'many');
  const doubt = await agent.wait(agent.run('doubt'), 'install');
  const failed = agent.run('fails');
  await until(async () => (await agent.ask('GET', `/v1/runs/${failed}`)).value.status === 'failed', 'the run fails');
  return [['inbox', '#/', '.card'], ['approval', `#/wait/${go.id}`, '#detail [data-key="a"]'], ['question', `#/wait/${many.id}`, '.schema .field'], ['doubt', `#/wait/${doubt.id}`, '.choice'],
    ['several', `#/?select=${go.id}`, '.several-list'], ['run', `#/run/${all}`, '.tl .label'], ['failed-run', `#/run/${failed}`, '.tl .label'], ['runs', '#/runs', '.runs .tbody .tr'], ['no-run', '#/runs?status=cancelled&workflow=x', '.empty'],
    ['workflows', '#/workflows', '#view .card'], ['deliveries', '#/deliveries', '#view h1'], ['agent', '#/agent', '.facts-grid'], ['nothing', '#/wait/99999', '#detail h1']];
}
let pages = null;

async function eachPage({ agent, newPage, signedIn }) {
  pages ??= await prepared(agent);
  for (const [width, viewport] of [[360, kPhone], [1280, kDesk]]) {
    for (const colorScheme of ['light', 'dark']) {
      const page = await signedIn('', { viewport, colorScheme });
      for (const [name, hash, ready] of pages) {
        await page.goto(at(agent, hash));
        await page.locator(ready).first().waitFor();
        await picture(page, `${name}-${width}-${colorScheme}`);
        await fits(page, width);
        await accessible(page, `${name} ${width} ${colorScheme}`);
      }
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await accessible(page, `keys ${width} ${colorScheme}`);
      const out = await newPage({ viewport, colorScheme });
      await out.goto(agent.url);
      await out.locator('#sign-in h1').waitFor();
      await fits(out, width);
      await picture(out, `sign-in-${width}-${colorScheme}`, false);
      await accessible(out, `sign-in ${width} ${colorScheme}`);
    }
  }
}

// The same pages with twice the text, and in DejaVu Sans, which is wide: nothing past 360.
async function largeText({ agent, signedIn }) {
  pages ??= await prepared(agent);
  for (const css of ['html { font-size: 200%; }', '* { font-family: "DejaVu Sans" !important; }']) {
    const page = await signedIn('');
    for (const [name, hash, ready] of pages) {
      await page.goto(at(agent, hash));
      await page.locator(ready).first().waitFor();
      await page.evaluate((text) => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(text);
        document.adoptedStyleSheets = [sheet];
      }, css);
      await fits(page, 360).catch((error) => { error.message = `${name} with ${css}: ${error.message}`; throw error; });
    }
  }
}

// Without colour a state is a shape and a word. The targets of a finger are large enough.
async function withoutColour({ agent, signedIn }) {
  pages ??= await prepared(agent);
  const page = await signedIn('', { forcedColors: 'active', hasTouch: true, isMobile: true });
  for (const [name, hash, ready] of pages) {
    await page.goto(at(agent, hash));
    await page.locator(ready).first().waitFor();
    const bare = await page.evaluate(() => [...document.querySelectorAll('.kind')].filter((one) => one.checkVisibility() && !(one.querySelector('svg') && (one.textContent.trim() || one.closest('.label')?.textContent.trim() || one.nextSibling))).map((one) => one.outerHTML.slice(0, 100)));
    assert.deepEqual(bare, [], `${name}: a state with a shape and a word`);
    const small = await page.evaluate(() => [...document.querySelectorAll('button:not(.link, .copy, .close), a.button, a.card, #nav a, select, input[type="text"], textarea')].filter((one) => one.checkVisibility() && one.getBoundingClientRect().height > 0)
      .filter((one) => one.getBoundingClientRect().height < (one.closest('.bar .buttons') ? 48 : one.matches('.tr .name') ? 24 : 43.5)).map((one) => `${Math.round(one.getBoundingClientRect().height)} ${one.outerHTML.slice(0, 100)}`));
    assert.deepEqual(small, [], `${name}: targets`);
    if (['inbox', 'run', 'doubt'].includes(name)) await picture(page, `${name}-360-forced`);
  }
}

async function aroundTheWorld({ agent, signedIn }) {
  pages ??= await prepared(agent);
  const page = await signedIn('', { viewport: kDesk });
  for (const [name, address] of [['Runs', /#\/runs$/], ['Workflows', /#\/workflows$/], ['Deliveries', /#\/deliveries$/], ['This agent', /#\/agent$/], ['Inbox', /#\/$/]]) {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: new RegExp(`^${name}`) }).click();
    await page.waitForURL(address);
    await page.locator('#nav [aria-current="page"]', { hasText: name }).waitFor();
    await page.locator('h1:visible').first().waitFor();
    assert.equal(await page.locator('h1:visible').count(), 1, `${name} has one heading of its page`);
  }
}

// Deliveries that could not go out: retried under their key, or dropped after a question.
async function deliveries({ agent, signedIn }) {
  pages ??= await prepared(agent);
  await agent.stop();
  agent.sql("UPDATE outbox SET parked_at = created_at, tries = 10, last_error = 'HTTP status 503' WHERE parked_at IS NULL;");
  await agent.start();
  const { value } = await agent.ask('GET', '/v1/outbox?status=parked');
  assert.ok(value.items.length > 0, 'something is parked');
  const id = value.items[0].id;
  const page = await signedIn('#/deliveries', { viewport: kDesk });
  await page.locator('h1', { hasText: /parked/ }).waitFor();
  const destination = page.locator(`[data-destination="${value.items[0].to}"]`);
  await destination.getByText('Given up').waitFor();
  const told = (await agent.ask('GET', '/v1/outbox/destinations')).value.items.find((one) => one.to === value.items[0].to);
  assert.equal(told.state, 'parked');
  await destination.getByText(told.last_error).waitFor();
  await picture(page, 'deliveries-parked-1280', false);
  await page.getByRole('button', { name: `Drop… delivery ${id}` }).click();
  await page.keyboard.press('Enter');  // the safe button has the focus
  assert.equal((await agent.ask('GET', `/v1/outbox/${id}`)).status, 200);
  await page.getByRole('button', { name: `Drop… delivery ${id}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop it' }).click();
  await page.locator('.toast', { hasText: `Delivery ${id} is dropped.` }).waitFor();
  assert.equal((await agent.ask('GET', `/v1/outbox/${id}`)).status, 404);
}

await test('pages', kWorkflows, [['each page', eachPage], ['large text', largeText], ['without colour', withoutColour], ['around', aroundTheWorld], ['deliveries', deliveries]]);
