// The parts of the page that need no browser: JSON as it stands, and where the bars of a timeline stand.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';

const load = (name) => import(`data:text/javascript,${encodeURIComponent(fs.readFileSync(path.join(import.meta.dirname, '../../web/page', name), 'utf8'))}`);
const json = await load('json.js');
const layout = await load('timeline_layout.js');

const kTexts = ['{"a":1.50e2,"b":12400.00,"c":9007199254740993,"d":[1,2.0,-0.0,1E+5],"e":{"f":null,"g":true},"h":"\\u00e9 \\"x\\" \\\\"}', '[]', '{}', '""', '-0.10', 'null', ' { "a" : [ 1 , 2 ] } ',
  '{"key with \\"quotes\\"":"{\\"not\\":1}"}', '["true",false]', '{"a":"1.5","b":1.5}'];

test('a tree keeps the bytes of each value, and the order of keys', () => {
  const node = json.tree(kTexts[0]);
  const raw = (name) => json.member(node, name).raw;
  assert.deepEqual(['a', 'b', 'c', 'h'].map(raw), ['1.50e2', '12400.00', '9007199254740993', '"\\u00e9 \\"x\\" \\\\"']);
  assert.deepEqual(json.member(node, 'd').items.map((one) => one.raw), ['1', '2.0', '-0.0', '1E+5']);
  assert.equal(json.member(node, 'h').text, 'é "x" \\');
  assert.deepEqual(node.members.map((one) => one.name), ['a', 'b', 'c', 'd', 'e', 'h']);
  for (const text of kTexts) assert.equal(json.tree(text).raw, text.trim());
});

test('tokens together are the text', () => {
  for (const text of kTexts) assert.equal(json.tokens(text, 1000).map(([, part]) => part).join(''), text);
  assert.deepEqual(json.tokens('{"a":1.50e2}', 10).filter(([kind]) => kind !== 'plain'), [['key', '"a"'], ['number', '1.50e2']]);
  assert.equal(json.tokens('[1,2,3]', 3), null);
});

test('what cannot be seen or turns text around is shown as an escape', () => {
  assert.equal(json.visible('a\u202eb\u0000c\ufeff\nd'), 'a\\u202eb\\u0000c\\ufeff\nd');
});

test('differences name the path, what was and what is', () => {
  const was = json.tree('{"cost":12400.00,"same":1,"deep":{"x":1,"y":2}}');
  const is = json.tree('{"cost":18400.00,"same":1,"deep":{"x":1,"z":3}}');
  assert.deepEqual(json.differences(was, is), [['cost', '12400.00', '18400.00'], ['deep.y', '2', undefined], ['deep.z', undefined, '3']]);
});

// -- Timeline. Times in ms.

const kBase = 1_800_000_000_000;
const iso = (ms) => new Date(kBase + ms).toISOString();
const step = (more) => ({ kind: 'step', status: 'completed', executions: 1, failures: 0, created_at: iso(0), updated_at: iso(100), ...more });

test('bars of a step: tries, a backoff, doubt, waits', () => {
  const kinds = (...args) => layout.barsOf(...args).map((bar) => `${bar.kind} ${bar.from - kBase}-${bar.to === null ? '' : bar.to - kBase}`);
  assert.deepEqual(kinds(step()), ['ran 0-100']);
  assert.deepEqual(kinds(step(), [kBase + 20, kBase + 50]), ['failed 0-20', 'failed 20-50', 'ran 50-100']);
  assert.deepEqual(kinds(step({ status: 'pending', not_before: iso(90), updated_at: iso(20) }), [kBase + 20]), ['failed 0-20', 'backoff 20-90']);
  assert.deepEqual(kinds(step({ status: 'started' })), ['running 0-']);
  assert.deepEqual(kinds(step({ status: 'failed' })), ['failed 0-100']);
  assert.deepEqual(kinds(step({ kind: 'approval' })), ['person 0-100']);
  assert.deepEqual(kinds(step({ kind: 'timer', status: 'started' })), ['time 0-']);
  assert.deepEqual(kinds(step({ status: 'needs_reconcile' }), [], [{ created_at: iso(40), resolved_at: null }]), ['ran 0-40', 'doubt 40-40', 'person 40-']);
});

const bar = (kind, from, to) => ({ kind, from, to });
test('the scale is linear, but for idle spans over 30 %, which become 6 %', () => {
  const bars = [bar('ran', 0, 100), bar('person', 100, 900), bar('ran', 900, 1000)];
  const pure = layout.scale(bars, 0, 1000, { fold: false });
  assert.deepEqual([0, 250, 1000].map(pure.at), [0, 25, 100]);
  const folded = layout.scale(bars, 0, 1000);
  assert.equal(folded.folds.length, 1);
  assert.ok(Math.abs(folded.at(900) - folded.at(100) - 6) < 1e-9);
  assert.ok(Math.abs(folded.at(100) - 47) < 1e-9, 'what is left shares the rest');
  assert.equal(layout.scale([bar('ran', 0, 1000)], 0, 1000).folds.length, 0, 'what ran is never folded');
  assert.equal(layout.scale([bar('person', 0, 1000)], 0, 1000).folds.length, 0, 'all that is there is not folded');
});

test('whatever the steps: the scale keeps the order of times, and stays within the width', () => {
  let seed = 7;
  const random = (most) => { seed = (seed * 48271) % 2147483647; return seed % most; };
  for (let round = 0; round < 300; round += 1) {
    const bars = Array.from({ length: 1 + random(12) }, () => {
      const from = random(100_000);
      return bar(['ran', 'person', 'time', 'failed', 'running'][random(5)], from, random(3) ? from + random(50_000) : null);
    });
    const end = 1 + random(120_000);
    const axis = layout.scale(bars, 0, end, { fold: random(2) === 0, copied: random(2) === 0 });
    let last = -1;
    for (let t = 0; t <= end; t += Math.max(1, Math.floor(end / 97))) {
      const x = axis.at(t);
      assert.ok(x >= last - 1e-9 && x >= -1e-9 && x <= 100 + 1e-9, `round ${round}, ${t} of ${end}: ${last} → ${x}`);
      last = x;
    }
    assert.ok(Math.abs(axis.at(end) - 100) < 1e-6);
    const { all } = layout.marks(axis, 9);
    for (let i = 1; i < all.length; i += 1) assert.ok(all[i].x - all[i - 1].x >= 9 - 1e-9);
  }
});

test('rows stand by branch in order of first appearance; copied ones by themselves', () => {
  const rows = ['/step/a//1', 'eu/step/b//1', '/step/c//1', '~undo/1'].map((position) => ({ position }));
  const { copied, groups } = layout.grouped([{ position: '/x', copied: true }, ...rows]);
  assert.equal(copied.length, 1);
  assert.deepEqual(groups.map((one) => [one.branch, one.steps.length]), [['', 2], ['eu', 1], ['~undo', 1]]);
});
