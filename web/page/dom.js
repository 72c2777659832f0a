// Nodes, marks and times. Text from outside becomes text nodes only, never markup.
import { now } from './agent.js';
import { visible } from './json.js';

// el('p.note', {id: 'x', onclick: f}, 'text', node, …). Attributes of value false, null or undefined are left out.
export function el(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split('.');
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  add(node, ...children);
  return node;
}

export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === '') continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}

// A state is a shape and a word; the colour comes third.
const kMarks = {
  asks: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M4 10 10 4M5 13 13 5' }]],
  doubt: [['path', { d: 'M8 1 15 8 8 15 1 8z' }], ['path', { d: 'M8 1v14L1 8z', fill: 'currentColor' }]],
  done: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M5 8l2 2.5L11 6' }]],
  over: [['path', { d: 'M4 2h8L4 14h8z' }]],
};
export function mark(name) {
  const make = (tag, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const svg = make('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 });
  for (const [tag, attributes] of kMarks[name]) svg.append(make(tag, attributes));
  return svg;
}

const kUnits = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
export function length(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const i = kUnits.findIndex(([size]) => s >= size);
  if (i < 0) return '0 s';
  const [size, unit] = kUnits[i];
  const rest = i + 1 < kUnits.length ? Math.floor((s % size) / kUnits[i + 1][0]) : 0;
  const whole = `${Math.floor(s / size)} ${unit}`;
  return rest > 0 && Math.floor(s / size) < 10 ? `${whole} ${rest} ${kUnits[i + 1][1]}` : whole;
}

const kWords = { ago: (at) => `${length(now() - at)} ago`, in: (at) => (at > now() ? `in ${length(at - now())}` : 'now') };
// A time that keeps itself true; exact on hover. `how`: ago or in.
export function when(text, how) {
  return el('time', { datetime: text, 'data-how': how, title: `${text} · ${new Date(text).toLocaleString()}` },
    kWords[how](Date.parse(text)));
}
export function tick() {
  for (const node of document.querySelectorAll('time[data-how]')) {
    const text = kWords[node.dataset.how](Date.parse(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
}

// A value as a person reads it: rows for an object, text as text, numbers as written.
export function readable(node) {
  if (node.kind === 'object' && node.members.length) {
    return el('dl', {}, node.members.map((one) => [el('dt', {}, one.name), el('dd', {}, readable(one.node))]));
  }
  if (node.kind === 'array' && node.items.length && node.items.every((one) => !one.items && !one.members)) {
    return el('span', {}, node.items.map((one) => one.text ?? one.raw).join(', '));
  }
  if (node.kind === 'array' && node.items.length) {
    return el('dl', {}, node.items.map((one, i) => [el('dt', {}, String(i + 1)), el('dd', {}, readable(one))]));
  }
  return node.kind === 'string' ? el('span', {}, node.text) : el('span.exact', {}, node.raw);
}

// Readable | Exact text.
export function dataBox(shown, exact) {
  const body = el('div');
  const button = (name, make) => el('button', {
    type: 'button', onclick: (event) => {
      for (const other of event.target.parentNode.querySelectorAll('button')) other.setAttribute('aria-pressed', other === event.target);
      body.replaceChildren(make());
    },
  }, name);
  const first = button('Readable', () => (shown ? readable(shown) : el('p.hint', {}, 'Nothing beyond the text above.')));
  const bytes = new TextEncoder().encode(exact).length;
  const box = el('div.data', {}, el('div.tabs', {}, first, button('Exact text', () => el('pre', {}, exact)), el('span.meta', {}, `${bytes} bytes`)), body);
  first.click();
  return box;
}
