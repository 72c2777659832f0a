// The page: which view is open (the address says it), signing in, keys, and who hears of what happens.
import { Offline, Refused, info, me, session } from './agent.js';
import { switchTimes, tick } from './dom.js';
import { Deliveries } from './deliveries.js';
import { Inbox } from './inbox.js';
import { Live } from './live.js';
import { RunView } from './run.js';
import { Runs } from './runs.js';
import { Several } from './several.js';
import { ThisAgent } from './this_agent.js';
import { WaitView } from './wait.js';
import { Workflows } from './workflows.js';
import { notice, toast } from './ui.js';
import * as shell from './shell.js';

const $ = (id) => document.getElementById(id);
const kAgainMs = 2000;
const kLookMs = 15_000;
const inbox = new Inbox($('list'));
const wait = new WaitView($('detail'));
// A view has a place of its own: what it draws late, after another was opened, is not seen.
function place() {
  const node = document.createElement('div');
  node.hidden = true;
  $('view').append(node);
  return node;
}
// place in the rail, title, back on a phone, the view; the address is #/NAME/ID?query
const kViews = {
  runs: ['runs', 'Runs', null, new Runs(place())],
  run: ['runs', 'Run', ['#/runs', 'Runs'], new RunView(place())],
  workflows: ['workflows', 'Workflows', null, new Workflows(place())],
  deliveries: ['deliveries', 'Deliveries', null, new Deliveries(place())],
  agent: ['agent', 'This agent', null, new ThisAgent(place())],
  several: ['inbox', 'Decide together', ['#/', 'Inbox'], new Several(place())],
};
let signedIn = false;
let open = null;      // the view that is open besides the inbox
let address = '';     // of what is open: coming back to it keeps what is there
const scrolls = new Map();

// -- The address.

function takeCode() {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code !== undefined) history.replaceState(null, '', '#/');
  return code;
}

async function route() {
  const code = takeCode();
  if (code !== undefined) return enter(code);
  if (!signedIn) return undefined;
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, id = ''] = path.split('/');
  const args = new URLSearchParams(query);
  if (address !== location.hash) scrolls.set(address, window.scrollY);
  address = location.hash;
  if (name === '' && args.get('select')) return show('several', args.get('select'), args);
  if (kViews[name] && name !== 'several') return show(name, id, args);
  return name === 'wait' && Number(id) ? showWait(Number(id)) : showInbox();
}

async function show(name, id, args) {
  const [where, title, back, view] = kViews[name];
  wait.close();
  if (open && open !== view) open.close();
  open = view;
  for (const other of Object.values(kViews)) other[3].place.hidden = other[3] !== view;
  shell.setPlace(where, id && name !== 'several' ? `${title} ${id}` : title, back);
  document.body.dataset.view = name;
  await view.open(id, args);
  if (open === view) window.scrollTo(0, scrolls.get(address) ?? 0);
}
function leaveView() {
  open?.close();
  open = null;
}
async function showWait(id) {
  leaveView();
  shell.setPlace('inbox', `Wait ${id}`, ['#/', 'Inbox']);
  document.body.dataset.view = 'wait';
  inbox.current = id;
  window.scrollTo(0, 0);
  return wait.open(id);
}
async function showInbox() {
  const was = wait.id;
  leaveView();
  wait.close();
  shell.setPlace('inbox', '', null);
  document.body.dataset.view = 'inbox';
  inbox.current = 0;
  await inbox.open();
  if (was) document.querySelector(`#list [data-wait="${was}"], #list .card`)?.focus();
}

// -- Signing in.

function signedOut(why) {
  signedIn = false;
  live.stop();
  wait.setOnline(false);
  shell.offline(0);
  shell.askForCode(why, enter);
}
// With a code, or with the cookie that is there.
async function enter(code) {
  try {
    await session(code).catch((error) => {
      if (code === undefined || !(error instanceof Refused) || error.status !== 401) throw error;
      return session().catch(() => { throw error; });  // a used link in a browser that is signed in
    });
    signedIn = true;
    shell.setUser();
    shell.setHost((await info()).host ?? location.hostname);
    shell.setLive('Live', 'on');
    wait.setOnline(true);
    $('sign-in').replaceChildren();
    await inbox.load();
    await route();
    await live.start();
  } catch (error) {
    if (error instanceof Refused) return signedOut(code === undefined ? '' : error.message);
    if (!(error instanceof Offline)) throw error;
    shell.setLive('Offline', 'off');
    setTimeout(() => enter(code), kAgainMs);
  }
  return undefined;
}

// -- What happens while somebody looks.

const kOfInbox = /^(wait\.|run\.(failed|completed|cancelled)|control\.)/;
const live = new Live({
  async changed(events) {
    if (!signedIn) return;
    if (events === null || events.some((one) => kOfInbox.test(one.kind))) {
      await inbox.refresh();
      await wait.refresh();
    }
    if (events === null || events.some((one) => /^(outbox|delivery|webhook)\./.test(one.kind))) await shell.look();
    await open?.refresh(events);
  },
  gone(seenAt) {
    shell.setLive('Offline', 'off');
    shell.offline(seenAt, () => live.retryNow());
    wait.setOnline(false);
  },
  back() {
    shell.setLive('Live', 'on');
    shell.offline(0);
    shell.banner('fault', null);
    wait.setOnline(true);
    toast('Connected again. What you see is up to date.');
  },
  refused: () => signedOut('The session is over. What you typed is kept.'),
  fault: failed,
});

// What went wrong in a handler: signed out, no answer, or a fault of the page, which is not hidden.
function failed(error) {
  if (error?.name === 'AbortError') return;
  if (error instanceof Refused && error.status === 401) signedOut('The session is over. What you typed is kept.');
  else if (error instanceof Offline) live.suspect();
  else if (error instanceof Refused && error.status === 429) toast(`Too many requests: the agent takes more in ${error.after ?? 'a few'} seconds.`);
  else shell.banner('fault', notice('bad', 'failed', 'The page could not do it', error?.message ?? String(error)));
}
window.addEventListener('unhandledrejection', (event) => {
  event.preventDefault();
  failed(event.reason);
});
document.addEventListener('signed-out', (event) => signedOut(event.detail ?? 'The session is over. What you typed is kept.'));
window.addEventListener('no-answer', () => live.suspect());
window.addEventListener('hashchange', () => route().catch(failed));
setInterval(() => { tick(); wait.tick(); }, 1000);
setInterval(() => { if (signedIn && document.visibilityState === 'visible') shell.look().catch(failed); }, kLookMs);

// -- Keys. They lead somewhere; only Enter presses.

let after = '';  // the first of two keys
const kGo = Object.fromEntries(shell.kPlaces.map(([, where, , key]) => [key, where]));
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !signedIn) return;
  if (event.target.closest('input, textarea, select, dialog, [role="tab"]')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const first = after;
  after = '';
  if (event.key === '?') return shell.help();
  if (event.key === 'Escape') return goBack();
  if (shell.keysOff()) return undefined;
  if (first === 'g' && kGo[event.key]) {
    location.hash = kGo[event.key];
  } else if (event.key === 'g') {
    after = 'g';
  } else if (event.key === 't') {
    switchTimes();
  } else if (open) {
    if (open.key?.(event.key)) event.preventDefault();
  } else if (event.key === 'j' || event.key === 'k') {
    const at = Number(/^#\/wait\/(\d+)$/.exec(location.hash)?.[1] ?? 0);  // where one is going, be it there or not
    const id = inbox.beside(at, at ? { j: 1, k: -1 }[event.key] : 0);
    if (id) location.hash = `#/wait/${id}`;
  } else if (wait.id ? wait.key(event.key) : inbox.key(event.key)) {
    event.preventDefault();
  }
  return undefined;
});
function goBack() {
  const back = document.querySelector('.back');
  if (!back.hidden) location.hash = back.getAttribute('href');
}

shell.build();
inbox.onCount = (count) => shell.setCount('inbox', count);
enter(takeCode()).then(() => (me.name ? shell.look() : undefined)).catch(failed);
