// The page: sign-in, which view is open (the address says it), and what keeps it true while somebody looks.
import { Offline, Refused, events, info, session } from './agent.js';
import { add, el, tick } from './dom.js';
import { Inbox } from './inbox.js';
import { WaitView } from './wait.js';

const $ = (id) => document.getElementById(id);
const inbox = new Inbox($('list'));
const view = new WaitView($('detail'));
const kAgainMs = 2000;  // without an answer: a person looks, the agent is on the same box
let signedIn = false;
let cursor = null;     // the newest event that was seen
let seenAt = new Date();

function say(place, ...text) {
  place.replaceChildren();
  add(place, ...text);
}

function live(state, banner = '') {
  say($('live'), state);
  say($('offline'), banner);
  $('offline').hidden = banner === '';
  view.setOnline(banner === '');
}

// -- Sign-in. The code comes in the fragment, which no server and no log sees; it is taken out at once.

function takeCode() {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code !== undefined) history.replaceState(null, '', '#/');
  return code;
}

function askForCode(why) {
  signedIn = false;
  view.online = false;
  live('Signed out');
  const field = el('input', { type: 'text', id: 'code', autocomplete: 'one-time-code', spellcheck: 'false' });
  const complaint = el('p.complaint', { role: 'alert' }, why);
  const send = async (event) => {
    event.preventDefault();
    await enter(field.value.trim().replace(/^.*#code=/, ''));
  };
  $('sign-in').replaceChildren(el('h1', {}, 'Sign in'),
    el('p', {}, 'Type ', el('code', {}, 'bide ui'), ' on the machine of the agent and open its link, or paste it here. It is for one use within 60 seconds.'),
    el('form', { onsubmit: send }, el('label.field', { for: 'code' }, 'Code or link', field), complaint, el('p'), el('button', {}, 'Sign in')));
  document.body.dataset.view = 'sign-in';
  field.focus();
}

// With a code, or with the cookie that is there.
async function enter(code) {
  try {
    const who = await session(code).catch((error) => {
      if (code === undefined || !(error instanceof Refused) || error.status !== 401) throw error;
      return session().catch(() => { throw error; });  // a used link in a browser that is signed in
    });
    say($('name'), who.name);
    view.me = inbox.me = who.name;
    if (cursor === null) cursor = (await info()).last_event;
    signedIn = true;
    live('Live');
    await inbox.open();
    await route();
    watch();
  } catch (error) {
    if (error instanceof Refused) return askForCode(code === undefined ? '' : error.message);
    if (!(error instanceof Offline)) throw error;
    live('Offline', 'The agent does not answer.');
    setTimeout(() => enter(code), kAgainMs);
  }
}

// -- Views.

async function route() {
  const code = takeCode();
  if (code !== undefined) return enter(code);
  if (!signedIn) return;
  const id = Number(/^#\/wait\/(\d+)$/.exec(location.hash)?.[1] ?? 0);
  document.body.dataset.view = id ? 'wait' : 'inbox';
  inbox.current = id;
  if (id) return view.open(id);
  const was = view.id;
  view.close();
  if (was) {
    await inbox.open();
    document.querySelector(`#list [data-wait="${was}"], #list .card`)?.focus();
  }
}

// What went wrong in a handler: signed out, no answer, or a fault of the page, which is not hidden.
function failed(error) {
  if (error.name === 'AbortError') return;
  if (error instanceof Refused && error.status === 401) return askForCode('The session is over. What you typed is kept.');
  if (error instanceof Offline) return live('Offline', `The agent does not answer. What you see is from ${seenAt.toLocaleTimeString()}.`);
  live('Live', `The page could not show it: ${error.message}`);
}

// -- Live: one open request while the page is seen, none while it is not.

let watching = null;
async function watch() {
  watching?.abort();
  if (!signedIn || document.visibilityState !== 'visible') return;
  const mine = watching = new AbortController();
  while (!mine.signal.aborted && signedIn) {
    try {
      const page = await events(cursor, mine.signal);
      if (mine.signal.aborted) return;
      cursor = Number(page.next);
      seenAt = new Date();
      if (page.items.length || $('live').textContent !== 'Live') {
        await inbox.refresh();
        await view.refresh();
      }
      live('Live');
    } catch (error) {
      failed(error);
      if (mine.signal.aborted) return;
      await new Promise((done) => { setTimeout(done, kAgainMs); });
    }
  }
}

document.addEventListener('visibilitychange', () => watch());
document.addEventListener('signed-out', () => askForCode('The session is over. What you typed is kept.'));
window.addEventListener('hashchange', () => route().catch(failed));
setInterval(() => { tick(); view.tick(); }, 1000);

// a, c, d only go to their button; Enter presses it.
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea')) return;
  const step = { j: 1, k: -1 }[event.key];
  if (step && signedIn) {
    const id = inbox.beside(view.id, view.id ? step : 0);
    if (id) location.hash = `#/wait/${id}`;
  } else if ('acd'.includes(event.key)) {
    view.focus(event.key);
  } else if (event.key === 'Escape' && view.id) {
    location.hash = '#/';
  }
});

enter(takeCode());
