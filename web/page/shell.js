// What stands around every page: the five places with their counts, who is signed in, whether the agent answers, the
// sign-in, and the list of keys.
import { get, getIfThere, me, signOut } from './agent.js';
import { add, button, clock, el, say } from './dom.js';
import { icon } from './marks.js';
import { command } from './data.js';
import { notice, speak, tell } from './ui.js';

const $ = (id) => document.getElementById(id);
export const kPlaces = [
  ['inbox', '#/', 'Inbox', 'i'], ['runs', '#/runs', 'Runs', 'r'], ['workflows', '#/workflows', 'Workflows', 'w'],
  ['deliveries', '#/deliveries', 'Deliveries', 'd'], ['agent', '#/agent', 'This agent', 'a'],
];
const kWords = { inbox: ['needs you', 'need you'], deliveries: ['is parked', 'are parked'], agent: ['wants a look', 'want a look'] };
const kSpokenEveryMs = 10_000;

const counts = { inbox: 0, deliveries: 0, agent: 0 };
let host = '';
let heading = '';
let spokenAt = 0;

export function build() {
  add(document.querySelector('.brand'), icon('bide'), el('span', {}, 'bide'), el('span.host'));
  add($('nav'), kPlaces.map(([id, address, name]) => el('a', { href: address, 'data-place': id }, icon(id),
    el('span.name', {}, id === 'agent' ? [el('span.long', {}, 'This agent'), el('span.short', {}, 'Agent')] : name), el('span.count'))));
  add(document.querySelector('.tools'), button('Sign out', leave, '.link'), button(['Keys ', el('kbd', {}, '?')], () => help(), '.link.keys'));
}
async function leave() {
  await signOut().catch(() => {});
  document.dispatchEvent(new CustomEvent('signed-out', { detail: 'You are signed out.' }));
}

export function setHost(name) {
  host = name;
  say(document.querySelector('.brand .host'), name ? `on ${name}` : '');
  title();
}
export function setUser() {
  say($('name'), me.name, el('span.scopes', {}, me.scopes ? ` · ${me.scopes.split(/[ ,]+/).join(', ')}` : ''));
  document.querySelector('.tools').hidden = me.name === '';
}

function title() {
  const need = counts.inbox ? `${counts.inbox} need${counts.inbox === 1 ? 's' : ''} you · ` : '';
  document.title = `${need}${heading ? `${heading} · ` : ''}bide${host ? ` on ${host}` : ''}`;
}
// Which place is open, what it is called, and where "back" leads on a phone.
export function setPlace(place, name, back) {
  heading = name;
  for (const node of document.querySelectorAll('#nav a')) node.setAttribute('aria-current', node.dataset.place === place ? 'page' : 'false');
  const link = document.querySelector('.back');
  link.hidden = !back;
  if (back) {
    link.href = back[0];
    say(link, `‹ ${back[1]}`);
  }
  title();
}
export function setCount(place, count) {
  const more = count > counts[place];
  const was = counts[place];
  counts[place] = count;
  const words = kWords[place];
  say(document.querySelector(`#nav [data-place="${place}"] .count`), count ? [el('span', { 'aria-hidden': 'true' }, count),
    el('span.unseen', {}, ` ${count} ${words[count === 1 ? 0 : 1]}`)] : '');
  title();
  if (place === 'inbox' && more && was >= 0 && Date.now() - spokenAt > kSpokenEveryMs) {
    spokenAt = Date.now();
    speak(`${count} ${words[count === 1 ? 0 : 1]}`);
  }
}
export const countOf = (place) => counts[place];

// What the agent says of itself, and how many deliveries are parked. Asked now and then, never for each event.
export async function look() {
  const ready = await get('/readyz').then((answer) => answer.value, (error) => {
    if (error.status !== 503) throw error;
    return error.problem;  // not ready is an answer
  });
  if (Number.isInteger(ready?.parked)) setCount('deliveries', ready.parked);
  setCount('agent', ready?.ready === false ? 1 : 0);
  const relaxed = (await getIfThere('/v1/info'))?.value?.store?.durability === 'relaxed';
  banner('relaxed', relaxed ? notice('need', 'warning', '', el('p', {}, 'Durability is relaxed: a power cut may lose the last second.')) : null);
  banner('full', /disk is full/.test(ready?.reason ?? '')
    ? notice('bad', 'warning', `The disk of ${host || 'the agent'} is full`, el('p', {}, 'No new work. Decisions and cancels still go through.')) : null);
  banner('clock', /clock/.test(ready?.reason ?? '')
    ? notice('need', 'sleeping', 'The clock is held', el('p', {}, `${ready.reason}. Nothing new begins until then.`), command('bide clock accept')) : null);
}

// -- Banners, one of a kind.
export function banner(kind, node) {
  const old = document.querySelector(`#banners [data-banner="${kind}"]`);
  if (!node) return old?.remove();
  node.dataset.banner = kind;
  if (old?.isEqualNode(node)) return undefined;
  return old ? old.replaceWith(node) : $('banners').append(node);
}

export function setLive(word, state) {
  if ($('live').textContent !== word) say($('live'), word);
  $('live').dataset.state = state;
}
// The agent does not answer: since when, and what still holds.
export function offline(since, again) {
  if (!since) {
    banner('offline', null);
    return;
  }
  if (document.querySelector('[data-banner="offline"]')) return;
  const box = notice('bad', 'offline', 'The agent does not answer',
    el('p', {}, `What you see is from ${clock(since)} UTC. Decisions are off until it is back; what you typed is kept here.`),
    button('Try now', again));
  box.id = 'offline';
  box.setAttribute('role', 'alert');
  banner('offline', box);
}

// -- Sign-in.
export function askForCode(why, enter) {
  const field = el('input', { type: 'text', id: 'code', autocomplete: 'one-time-code', autocapitalize: 'off', spellcheck: 'false',
    'aria-describedby': 'code-hint code-wrong' });
  const complaint = el('p.complaint', { role: 'alert', id: 'code-wrong' }, why);
  const press = async (event) => {
    event.preventDefault();
    await enter(field.value.trim().replace(/^.*#code=/, ''));
  };
  $('sign-in').replaceChildren(el('h1', {}, 'Sign in with a code'),
    el('p', {}, 'On the machine of the agent, type this. It prints a link with a code that works once, for 60 seconds.'),
    command('bide ui'),
    el('form', { onsubmit: press }, el('label.field', { for: 'code' }, 'Code or link'), field, el('p.hint', { id: 'code-hint' }, 'Open the link, or paste it here.'),
      complaint, el('button.yes', {}, 'Sign in')),
    el('p.hint', {}, 'This device stays signed in for 12 hours, with the rights of the account that typed it.'));
  document.body.dataset.view = 'sign-in';
  setPlace('', 'Sign in', null);
  document.querySelector('.tools').hidden = true;
  setLive('Signed out', 'off');
  field.focus();
}

// -- Keys.
const kKeys = [
  ['j k', 'next, previous'], ['Enter', 'open'], ['a c d', 'go to Approve, Changes, Deny; Enter presses it'], ['x', 'select'],
  ['g i, g r, g w, g d, g a', 'go to the inbox, runs, workflows, deliveries, this agent'], ['/', 'filter'], ['t', 'exact or relative times'],
  ['o', 'open the run'], ['p', 'pause or resume the run'], ['← →', 'pan the timeline'], ['+ −', 'zoom it'], ['Esc', 'back'], ['?', 'this list'],
];
const kOff = 'bide.keys.off';
export const keysOff = () => localStorage.getItem(kOff) === 'yes';
export function help() {
  const box = el('input', { type: 'checkbox', id: 'keys-on', onchange: () => localStorage.setItem(kOff, box.checked ? 'no' : 'yes') });
  box.checked = !keysOff();
  tell('Keys', el('dl.rows', {}, kKeys.map(([keys, what]) => el('div', {}, el('dt', {}, keys.split(' ').map((one) => [el('kbd', {}, one), ' '])), el('dd', {}, what)))),
    el('label.tick', {}, box, el('span', {}, 'Keys are on (never in a field)')));
}
