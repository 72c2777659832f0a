// What somebody reads before deciding: JSON as rows or as its exact text, and commands to copy.
import { add, button, bytes, el, say } from './dom.js';
import { tokens, visible } from './json.js';

export async function copy(text, place) {
  try {
    await navigator.clipboard.writeText(text);
    say(place, 'Copied');
  } catch {
    say(place, 'Not copied: select it');
  }
  setTimeout(() => say(place, 'Copy'), 2000);
}
const copyButton = (text, what) => button('Copy', (event) => copy(text, event.currentTarget), '.copy', { 'aria-label': `Copy ${what}` });

// The `bide …` that does it.
export function command(text) {
  return el('div.command', {}, el('code', {}, text), copyButton(text, 'the command'));
}

const isLong = (text) => /^[0-9a-f]{32,}$/i.test(text);
function text(node) {
  if (node.kind !== 'string') return el('span.exact', {}, node.raw);
  // Eight by eight, so that two digests can be compared by eye; the blanks are not copied.
  if (isLong(node.text)) return el('span.exact.digest', {}, node.text.match(/.{1,8}/g).map((part) => el('span', {}, part)));
  return el('span', {}, node.text);
}

// A value as a person reads it: rows for an object, text as text, numbers as written.
export function readable(node) {
  if (node.kind === 'object' && node.members.length) {
    return el('dl.rows', {}, node.members.map((one) => el('div', {}, el('dt', {}, one.name), el('dd', {}, readable(one.node)))));
  }
  if (node.kind === 'array' && node.items.length && node.items.every((one) => !one.items && !one.members)) {
    return el('span', {}, node.items.map((one, i) => [i ? ', ' : '', text(one)]));
  }
  if (node.kind === 'array' && node.items.length) {
    return el('dl.rows', {}, node.items.map((one, i) => el('div', {}, el('dt', {}, String(i + 1)), el('dd', {}, readable(one)))));
  }
  return text(node);
}

const kMostTokens = 4000;  // spans for colour; beyond it the text stands plain
export function exactText(raw) {
  const pre = el('pre', { tabindex: '0' });
  const all = tokens(raw, kMostTokens);
  if (all === null) return add(pre, raw);
  for (const [kind, part] of all) {
    if (kind === 'plain') pre.append(visible(part));
    else add(pre, el(`span.${kind}`, {}, part));
  }
  return pre;
}

let boxes = 0;
// Readable | Exact text, as tabs. `shown`: a node or null; `raw`: the bytes. `aside`: what stands at the right.
export function dataBox(shown, raw, aside) {
  const id = `data-${boxes += 1}`;
  const body = el('div', { role: 'tabpanel', id, 'aria-labelledby': `${id}-0` });
  const makes = [() => (shown ? readable(shown) : el('p.hint', {}, 'Nothing beyond the text above.')), () => exactText(raw)];
  const choose = (i, focus) => {
    tabs.forEach((tab, j) => {
      tab.setAttribute('aria-selected', String(i === j));
      tab.tabIndex = i === j ? 0 : -1;
    });
    body.setAttribute('aria-labelledby', tabs[i].id);
    body.replaceChildren(makes[i]());
    if (focus) tabs[i].focus();
  };
  const tabs = ['Readable', 'Exact text'].map((name, i) => el('button', {
    type: 'button', role: 'tab', id: `${id}-${i}`, 'aria-controls': id, onclick: () => choose(i, true),
    onkeydown: (event) => { if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') choose(1 - i, true); },
  }, name));
  choose(0, false);
  return el('div.data', {},
    el('div.tabs', {}, el('div', { role: 'tablist', 'aria-label': 'How to show it' }, tabs),
      el('span.meta', {}, aside ?? bytes(new TextEncoder().encode(raw).length)), aside ? '' : copyButton(raw, 'the exact text')), body);
}
