// Nodes and times. Text from outside becomes text nodes only, never markup.
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
    if (child === null || child === undefined || child === '' || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}
export function say(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
}
export const button = (text, press, what = '', more = {}) => el(`button${what}`, { type: 'button', ...(press ? { onclick: press } : {}), ...more }, text);
export const link = (address, ...text) => el('a', { href: address }, ...text);

const kUnits = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
// "2 min 10 s", "4 h 17 min", "340 ms".
export function length(ms) {
  if (ms > 0 && ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.max(0, Math.round(ms / 1000));
  const i = kUnits.findIndex(([size]) => s >= size);
  if (i < 0) return '0 s';
  const [size, unit] = kUnits[i];
  const rest = i + 1 < kUnits.length ? Math.floor((s % size) / kUnits[i + 1][0]) : 0;
  const whole = `${Math.floor(s / size)} ${unit}`;
  return rest > 0 && Math.floor(s / size) < 10 ? `${whole} ${rest} ${kUnits[i + 1][1]}` : whole;
}
const about = (ms) => length(Math.max(0, ms) < 1000 ? 0 : ms);
export function bytes(count) {
  if (count < 10_000) return `${count} bytes`;
  const i = Math.min(3, Math.floor(Math.log10(count) / 3));
  return `${(count / 1000 ** i).toFixed(1)} ${['bytes', 'kB', 'MB', 'GB'][i]}`;
}

const kMonths = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const kDays = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const two = (n) => String(n).padStart(2, '0');
export function clock(at, seconds = true) {
  const d = new Date(at);
  return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}${seconds ? `:${two(d.getUTCSeconds())}` : ''}`;
}
export function day(at) {
  const d = new Date(at);
  return `${kDays[d.getUTCDay()]} ${d.getUTCDate()} ${kMonths[d.getUTCMonth()]}`;
}
const exact = (at) => `${day(at)} ${new Date(at).getUTCFullYear()} ${clock(at)}.${String(at % 1000).padStart(3, '0')} UTC`;

let exactTimes = false;  // `t` switches all
const kWords = {
  ago: (at) => (exactTimes ? `at ${clock(at)} UTC, ${day(at)}` : `${about(now() - at)} ago`),
  in: (at) => (exactTimes ? `at ${clock(at)} UTC, ${day(at)}` : at > now() ? `in ${about(at - now())}` : 'now'),
};
// A time that keeps itself true; exact on hover and focus. `how`: ago or in. `focus`: a stop of the Tab key.
export function when(text, how, focus = false) {
  return el('time', { datetime: text, 'data-how': how, tabindex: focus ? '0' : null }, kWords[how](Date.parse(text)));
}
export function tick() {
  for (const node of document.querySelectorAll('time[data-how]')) {
    const text = kWords[node.dataset.how](Date.parse(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
}
export function switchTimes() {
  exactTimes = !exactTimes;
  tick();
}

// The exact time beside the one that the pointer or the focus is on; one for all, kept within the window.
const tip = el('div.tip', { id: 'tip', role: 'tooltip', hidden: true });
function showTip(event) {
  const time = event.target.closest?.('time[data-how]');
  tip.hidden = !time;
  if (!time) return;
  const at = Date.parse(time.dateTime);
  say(tip, `${exact(at)} · here ${new Date(at).toLocaleTimeString()}`);
  const place = time.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.min(place.bottom + 4, window.innerHeight - tip.offsetHeight - 4)}px`;
}
document.body.append(tip);
for (const kind of ['pointerover', 'focusin']) document.addEventListener(kind, showTip);
for (const kind of ['scroll', 'focusout']) document.addEventListener(kind, () => { tip.hidden = true; }, { passive: true });
