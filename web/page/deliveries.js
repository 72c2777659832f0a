// Deliveries: what bide has stopped trying comes first. Retry keeps the key; Drop is for good.
import { Refused, all, del, may, post } from './agent.js';
import { el, link, say, when } from './dom.js';
import { mark } from './marks.js';
import { act, confirm, empty, notice, toast } from './ui.js';
import { setCount } from './shell.js';

const kMost = 400;
const kStates = { parked: ['parked', 'Parked', 'bad'], retrying: ['retrying', 'Retrying', 'need'], due: ['queued', 'Due', 'accent'] };
const kOf = /^(outbox|delivery|webhook|message)\./;

export class Deliveries {
  #place;
  #fresh = 0;
  get place() { return this.#place; }
  constructor(place) { this.#place = place; }

  async open() {
    const [rows, destinations] = await Promise.all([all('/v1/outbox', kMost), all('/v1/outbox/destinations', kMost)]);
    this.#draw(rows, destinations.filter((one) => one.state !== 'ok'));
  }
  close() { this.#place.replaceChildren(); }
  async refresh(events) {
    if (events === null || events.some((one) => kOf.test(one.kind) || one.kind.includes('deliver'))) {
      const focused = document.activeElement?.dataset?.row;
      const top = window.scrollY;
      await this.open();
      if (focused) this.#place.querySelector(`[data-row="${focused}"]`)?.focus();
      window.scrollTo(0, top);
    }
  }

  #draw(rows, failing) {
    const parked = rows.filter((one) => one.status === 'parked');
    const others = rows.filter((one) => one.status !== 'parked');
    setCount('deliveries', parked.length);
    const admin = may('admin');
    say(this.#place, el('div.head', {}, el('h1', {}, parked.length === 0 ? 'No delivery is parked' : parked.length === 1 ? '1 delivery is parked' : `${parked.length} deliveries are parked`),
      el('p.note', {}, parked.length ? 'bide has stopped trying. They are kept until you retry or drop them.' : 'What leaves the box goes out by itself; what could not stands here.')),
    failing.length ? [el('h2', {}, 'Destinations that do not take them'), this.#destinations(failing)] : '',
    parked.length ? [el('div.line.bar-head', {}, el('h2', {}, 'Parked'), admin && parked.length > 1 ? act(`Retry all ${parked.length}`, () => this.#retryAll(parked)) : ''), this.#table('Parked deliveries', parked, admin),
      notice('info', 'info', '', el('p', {}, el('b', {}, 'Retry'), ' sends the same body under the same key, so a receiver that already has it can tell. ', el('b', {}, 'Drop'), ' deletes it for good; the run is not told.'),
        admin ? '' : el('p', {}, 'Both take the scope admin.'))] : '',
    others.length ? [el('h2', {}, 'On their way'), this.#table('Deliveries on their way', others, admin)] : rows.length === 0 ? empty('Nothing waits to go out') : '');
  }
  #destinations(failing) {
    const cell = (name, ...content) => el('span', { role: 'cell', 'data-label': name }, content);
    const head = ['Destination', 'State', 'Waiting', 'Parked', 'Last failure', 'Failing', 'Next'];
    return el('div.table.destinations', { role: 'table', 'aria-label': 'Destinations that do not take them' },
      el('div', { role: 'rowgroup' }, el('div.tr.th', { role: 'row' }, head.map((one) => el('span', { role: 'columnheader' }, one)))),
      el('div.tbody', { role: 'rowgroup' }, failing.map((one) => el('div.tr', { role: 'row', 'data-destination': one.to },
        cell('Destination', el('b', {}, one.to)),
        cell('State', one.state === 'parked' ? el('span.kind.bad', {}, mark('parked'), 'Given up') : el('span.kind.need', {}, mark('retrying'), 'Failing')),
        cell('Waiting', String(one.rows - one.parked)), cell('Parked', String(one.parked)), cell('Last failure', one.last_error ?? '–'),
        cell('Failing', one.failing_since ? when(one.failing_since, 'ago') : '–'), cell('Next', one.next_try_at ? when(one.next_try_at, 'in') : '–')))));
  }
  #table(name, rows, admin) {
    return el('div.table.deliveries', { role: 'table', 'aria-label': name },
      el('div', { role: 'rowgroup' }, el('div.tr.th', { role: 'row' }, ['To', 'Run', 'State', 'Tries', 'Last try', rows[0].status === 'parked' ? 'Parked' : 'Next', 'What to do'].map((one, i) => el('span', { role: 'columnheader' }, i < 6 ? one : el('span.unseen', {}, one))))),
      el('div.tbody', { role: 'rowgroup' }, rows.map((row) => this.#row(row, admin))));
  }
  #row(row, admin) {
    const cell = (name, ...content) => el('span', { role: 'cell', 'data-label': name }, content);
    const state = kStates[row.status] ?? kStates.due;
    const parked = row.status === 'parked';
    return el('div.tr', { role: 'row', 'data-delivery': row.id },
      cell('To', el('b', {}, row.to), el('span.hint.under', {}, `${row.kind}, delivery ${row.id}`)), cell('Run', row.run ? link(`#/run/${row.run}`, `run ${row.run}`) : '–'),
      cell('State', el(`span.kind.${state[2]}`, {}, mark(state[0]), state[1])), cell('Tries', String(row.tries)), cell('Last try', row.last_error ?? 'not tried'),
      cell(parked ? 'Parked' : 'Next', parked ? when(row.parked_at, 'ago') : row.next_try_at ? when(row.next_try_at, 'in') : ''),
      cell('', admin ? el('span.buttons', {}, row.status === 'due' ? '' : act(parked ? 'Retry' : 'Try now', () => this.#retry(row), '', { 'data-row': `retry-${row.id}`, 'aria-label': `${parked ? 'Retry' : 'Try now'}: delivery ${row.id}` }),
        parked ? act('Drop…', () => this.#drop(row), '.no', { 'data-row': `drop-${row.id}`, 'aria-label': `Drop… delivery ${row.id}` }) : '') : ''));
  }

  async #try(what, said) {
    try {
      await what();
      toast(said);
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 401) throw error;
      toast(`Not done: ${error.message}`);
    }
    await this.open();
  }
  #retry(row) { return this.#try(() => post(`/v1/outbox/${row.id}/retry`), `Delivery ${row.id} is tried again, under the same key.`); }
  async #retryAll(rows) {
    let done = 0;
    for (const row of rows) {
      await post(`/v1/outbox/${row.id}/retry`).then(() => { done += 1; }, (error) => { if (!(error instanceof Refused)) throw error; });
    }
    toast(`${done} of ${rows.length} are tried again.`);
    await this.open();
  }
  async #drop(row) {
    const yes = await confirm({ title: `Drop delivery ${row.id}?`, text: [`It is for ${row.to} and was tried ${row.tries} times. It is deleted for good; the run is not told.`], safe: 'Keep it', go: 'Drop it' });
    if (yes) await this.#try(() => del(`/v1/outbox/${row.id}`), `Delivery ${row.id} is dropped.`);
  }
}
