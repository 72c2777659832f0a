// What the agent says of itself: the verdict, what wants an eye with the command for it, and the facts.
import { get, getIfThere, may } from './agent.js';
import { bytes, clock, el, length, link, say, when } from './dom.js';
import { command } from './data.js';
import { mark } from './marks.js';
import { setCount } from './shell.js';

const kAgainMs = 5000;
const kChains = { whole: ['done', 'Unbroken', 'ok'], tampered: ['failed', 'Broken', 'bad'], cannot_tell: ['warning', 'Cannot tell', 'need'] };

export class ThisAgent {
  #place;
  #timer = 0;
  #looked = null;
  get place() { return this.#place; }
  constructor(place) { this.#place = place; }

  async open() {
    this.close();
    await this.#load();
    this.#timer = setInterval(() => { if (document.visibilityState === 'visible') this.#load().catch(() => {}); }, kAgainMs);
  }
  close() {
    clearInterval(this.#timer);
    this.#looked = null;
    this.#place.replaceChildren();
  }
  async refresh(events) { if (events === null) await this.#load(); }

  async #load() {
    const before = Date.now();
    // These two look through the file: once for each visit.
    this.#looked ??= await Promise.all(may('admin') ? [getIfThere('/v1/audit/verify'), getIfThere('/v1/doctor')] : []);
    const [audit, doctor] = this.#looked;
    const [ready, info, metrics] = await Promise.all([
      get('/readyz').then((answer) => answer.value, (error) => { if (error.status !== 503) throw error; return { ready: false, reason: 'it says that it is not ready', ...error.problem }; }),
      get('/v1/info'), readMetrics()]);
    const skew = Date.parse(info.value.now) - (before + Date.now()) / 2;
    this.#draw(ready, info.value, audit?.value, metrics, skew, doctor?.value);
  }

  #draw(ready, info, audit, metrics, skew, doctor) {
    const findings = findingsOf(ready, info, skew, doctor);
    setCount('agent', findings.length);
    const verdict = ready.ready === false ? 'It does not work now.' : findings.length ? `It works. ${findings.length} thing${findings.length === 1 ? ' wants' : 's want'} your eye.` : 'It works.';
    const store = info.store ?? {};
    const at = (name) => metrics.get(name);
    const focused = this.#place.contains(document.activeElement);
    const parts = [
      el('div.head', {}, el('h1', {}, verdict), el('p.note', {}, `bide ${info.version ?? ''} · data in ${info.data}. Checked `, when(info.now, 'ago'), '.')),
      findings.length ? [el('h2', {}, 'Look at these'), el('ul.card.findings', {}, findings.map(([title, text, how]) => el('li', {}, el('span.kind.need', {}, mark('warning')), el('div', {}, el('strong', {}, title), el('p.hint', {}, text), how ? command(how) : ''))))] : '',
      el('div.facts-grid', {},
        facts('Able to work', ready.ready === false ? ['failed', 'No', 'bad'] : ['done', 'Yes', 'ok'], [['Writer', `${store.queued_jobs ?? 0} in its queue`], ['Commits', store.commits], ['Jobs a commit', store.commits ? (store.jobs / store.commits).toFixed(2) : ''],
          ['Parked', ready.parked === undefined ? '' : link('#/deliveries', `${ready.parked} deliver${ready.parked === 1 ? 'y' : 'ies'}`)]]),
        facts('Durability', store.durability === 'relaxed' ? ['warning', 'Relaxed', 'need'] : ['done', 'Full', 'ok'], [['WAL', bytes(store.wal_bytes ?? 0)], ['SQLite', doctor?.sqlite ?? '']],
          store.durability === 'relaxed' ? 'A power cut may lose the last second.' : 'Nothing leaves before it is on disk. A power cut loses nothing that was acknowledged.'),
        facts('Clock', Math.abs(skew) < 2000 ? ['sleeping', 'Agrees with this device', 'idle'] : ['warning', 'Differs', 'need'], [['bide', `${clock(Date.parse(info.now))} UTC`], ['this device', `${clock(Date.now())} UTC`]]),
        facts('Disk', store.full ? ['failed', 'Full', 'bad'] : ['done', 'Has room', 'ok'], [['bide.db', doctor ? bytes(doctor.file_bytes) : ''], ['of it free', doctor ? bytes(doctor.file_free_bytes) : ''], ['Oldest question', at('bide_oldest_wait_seconds') ? length(at('bide_oldest_wait_seconds') * 1000) : '']]),
        facts('Audit', kChains[audit?.verdict] ?? ['info', 'Not shown', 'idle'], audit ? [['Decisions', `${audit.rows}, chain checked at this visit`], ['Head', audit.head ? el('code', {}, `${audit.head.slice(0, 12)}…`) : ''], ['Why', audit.why ?? '']]
          : [['Decisions', may('admin') ? 'bide audit' : 'take the scope admin']]),
        facts('This agent', null, [['Version', info.version], ['Reached at', location.host], ['Data', el('code', {}, info.data)], ['Incarnation', info.owner ? el('code', {}, info.owner) : '']])),
    ];
    if (focused) return;  // somebody reads or copies: the next look comes soon
    say(this.#place, parts);
  }
}

function facts(title, state, rows, text = '') {
  return el('div.card', {}, el('div.line', {}, el('h2', {}, title), state ? el(`span.kind.${state[2]}`, {}, mark(state[0]), state[1]) : ''), text ? el('p', {}, text) : '',
    el('dl.small', {}, rows.filter(([, value]) => value !== '' && value !== undefined && value !== null).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))));
}

// [title, what it means, the command]
function findingsOf(ready, info, skew, doctor) {
  const store = info.store ?? {};
  const all = (doctor?.findings ?? []).map((one) => [one.text, one.weight === 'error' ? 'It has to be mended.' : '', one.command]);
  if (ready.ready === false) all.push(['It is not ready', `${ready.reason ?? 'It does not say why.'}`, /clock/.test(ready.reason ?? '') ? 'bide clock accept' : 'bide doctor']);
  if (doctor) return all;  // it looks at more than what stands below
  if (store.full) all.push(['The disk is full', 'No new work is taken. Decisions and cancels still go through from a reserve.', 'bide doctor']);
  if (store.foreign_writer_seen) all.push(['Another program wrote to the file', 'Only bide may write to bide.db; what a tool changed there is not known to what runs.', 'bide doctor']);
  if (store.durability === 'relaxed') all.push(['Durability is relaxed', 'A power cut may lose what was acknowledged in the last second.', 'bide serve --print-config']);
  if (ready.parked > 0) all.push([`${ready.parked} deliver${ready.parked === 1 ? 'y is' : 'ies are'} parked`, 'bide has stopped trying; they are kept until somebody retries or drops them.', 'bide outbox --parked']);
  if (Math.abs(skew) >= 2000) all.push([`The clocks differ by ${length(Math.abs(skew))}`, 'Countdowns here follow the agent. Its clock only goes forward; bide says how far it is from the machine.', 'bide doctor']);
  return all;
}

// The plain numbers of /metrics that have no labels; an agent without it: none.
async function readMetrics() {
  const found = new Map();
  const response = await fetch('/metrics', { credentials: 'same-origin', cache: 'no-store' }).catch(() => null);
  if (!response?.ok) return found;
  for (const line of (await response.text()).split('\n')) {
    const [, name, value] = /^([a-z_]+) ([-+.\deE]+)/.exec(line) ?? [];
    if (name) found.set(name.replace(/_total$/, ''), Number(value));
  }
  return found;
}
