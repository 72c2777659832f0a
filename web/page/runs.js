// Runs, newest first. The filters live in the address; changed rows stay where they are, new ones are announced.
import { get, may, now, post } from './agent.js';
import { button, el, length, link, say, when } from './dom.js';
import { mark } from './marks.js';
import { stateOf } from './run.js';
import { command } from './run_actions.js';
import { act, confirm, empty, toast } from './ui.js';
import { countOf } from './shell.js';

const kPage = 50;
const kStates = [['failed', 'Failed'], ['running', 'Running'], ['waiting', 'Waiting'], ['queued', 'Queued'], ['completed', 'Completed'], ['cancelled', 'Cancelled']];
const kFilters = ['status', 'workflow', 'mission', 'label'];
const kKept = 2;  // cells of a row that never change: its box and its link keep their focus, and a click that has begun
const kEnds = new Set(['completed', 'failed', 'cancelled']);
// action → [which runs it fits, word, what it does]
const kActions = {
  retry: [(run) => run.status === 'failed', 'Retry', 'puts back in the queue; completed steps are not run again'],
  resume: [(run) => Boolean(run.paused_at) && !kEnds.has(run.status), 'Resume', 'lets go on'],
  pause: [(run) => !run.paused_at && !kEnds.has(run.status), 'Pause', 'stops at the next step boundary'],
  cancel: [(run) => !kEnds.has(run.status), 'Cancel', 'ends'],
};

export class Runs {
  #place;
  #filter = new URLSearchParams();
  #rows = new Map();   // id → {run, node}
  #next = null;
  #fresh = 0;
  #turn = 0;           // of the list that was asked for last: an answer about another one comes too late
  #selected = new Set();
  #all = false;  // all that the filters match is selected, as the agent counted them
  #head = el('div.head');
  #news = el('div.slot', { role: 'status' });
  #table = el('div.table.runs', { role: 'table', 'aria-label': 'Runs' });
  #body = el('div.tbody', { role: 'rowgroup' });
  #more = el('div.line.start');
  #bar = el('div.many.card', { hidden: true, role: 'region', 'aria-label': 'What to do with the selected runs' });

  get place() { return this.#place; }
  constructor(place) {
    this.#place = place;
    this.#table.append(el('div', { role: 'rowgroup' }, el('div.tr.th', { role: 'row' },
      ['Select', 'Run', 'State', 'Why', 'Mission', 'Started', 'Took'].map((name, i) => el('span', { role: 'columnheader' }, i ? name : el('span.unseen', {}, name))))), this.#body);
  }

  async open(_, args) {
    this.#filter = new URLSearchParams([...args].filter(([name, value]) => kFilters.includes(name) && value !== ''));
    this.#selected.clear();
    this.#all = false;
    this.#drawHead();
    say(this.#place, el('div.runs-page', {}, this.#head, this.#news, this.#table, this.#more, this.#bar));
    await this.#load();
  }
  close() {
    this.#turn += 1;
    this.#rows.clear();
    this.#place.replaceChildren();
  }
  #path(cursor) {
    const query = new URLSearchParams(this.#filter);
    query.set('limit', String(kPage));
    if (cursor) query.set('cursor', cursor);
    return `/v1/runs?${String(query).replaceAll('+', '%20')}`;  // a plus is a plus to the agent, not a blank
  }
  async #load() {
    const turn = ++this.#turn;
    const { value } = await get(this.#path());
    if (turn !== this.#turn) return;
    this.#rows.clear();
    this.#body.replaceChildren();
    this.#fresh = 0;
    this.#add(value);
  }
  async #older() {
    const turn = this.#turn;
    const { value } = await get(this.#path(this.#next));
    if (turn === this.#turn) this.#add(value);
  }
  #add(page) {
    for (const run of page.items) {
      const node = this.#row(run);
      this.#rows.set(run.id, { run, node });
      this.#body.append(node);
    }
    this.#next = page.next;
    this.#draw();
  }
  // Changed rows change in place; new ones are announced.
  async refresh(events) {
    if (!this.#table.isConnected) return;
    if (events !== null && !events.some((one) => one.run)) return;
    const turn = this.#turn;
    const { value } = await get(this.#path());
    if (turn !== this.#turn) return;
    this.#fresh = value.items.filter((run) => !this.#rows.has(run.id)).length;
    const there = new Map(value.items.map((run) => [run.id, run]));
    const touched = new Set(events?.map((one) => one.run) ?? []);
    for (const [id, row] of this.#rows) {
      let run = there.get(id);
      if (!run && touched.has(id)) run = (await get(`/v1/runs/${id}`).catch(() => null))?.value;  // it does not match any more: it stays, as it is now
      if (run && JSON.stringify(run) !== JSON.stringify(row.run)) {
        const cells = [...this.#row(run).children];
        [...row.node.children].forEach((cell, i) => { if (i >= kKept) cell.replaceWith(cells[i]); });
        row.run = run;
      }
    }
    this.#draw();
  }

  #drawHead() {
    const status = this.#filter.get('status');
    const to = (name, value) => {
      const query = new URLSearchParams(this.#filter);
      if (value) query.set(name, value);
      else query.delete(name);
      return `#/runs${query.size ? `?${query}` : ''}`;
    };
    const field = (name, label, hint) => {
      const input = el('input', { type: 'text', id: `filter-${name}`, autocomplete: 'off', placeholder: hint, onchange: () => { location.hash = to(name, input.value.trim()); } });
      input.value = this.#filter.get(name) ?? '';
      return el('div.field', {}, el('label', { for: input.id }, label), input);
    };
    const number = el('input', { type: 'text', inputmode: 'numeric', id: 'filter-run', autocomplete: 'off' });
    const go = (event) => {
      event.preventDefault();
      if (/^\d+$/.test(number.value.trim())) location.hash = `#/run/${number.value.trim()}`;
      else document.activeElement?.blur?.();
    };
    const need = countOf('inbox');
    const active = kFilters.slice(1).filter((name) => this.#filter.get(name)).length;
    say(this.#head, el('h1', {}, 'Runs'),
      el('div.chips', { role: 'group', 'aria-label': 'State' }, need ? el('a.pill', { href: '#/' }, `Needs you ${need}`) : '',
        el('a.pill', { href: to('status', ''), 'aria-current': status ? null : 'true' }, 'All'),
        kStates.map(([value, word]) => el('a.pill', { href: to('status', value), 'aria-current': status === value ? 'true' : null }, word))),
      el('details.filters', { open: active > 0 || window.innerWidth >= 900 }, el('summary', {}, active ? `Filters (${active})` : 'Filters'),
        el('form.fields', { onsubmit: go }, field('workflow', 'Workflow', 'any'), field('mission', 'Mission', 'any'), field('label', 'Label', 'name=value'),
          el('div.field', {}, el('label', { for: 'filter-run' }, 'Run number ', el('kbd', { 'aria-hidden': 'true' }, '/')), number),
          active || status ? el('a.button', { href: '#/runs' }, 'Clear filters') : '', el('button.unseen', {}, 'Open the run'))));
  }

  #draw() {
    say(this.#news, this.#fresh ? button(`${this.#fresh} new: show ${this.#fresh === 1 ? 'it' : 'them'}`, () => this.#load(), '.news') : el('p.note', {}, 'Newest first.'));
    const none = this.#rows.size === 0;
    this.#table.hidden = none;
    const words = kFilters.filter((name) => this.#filter.get(name)).map((name) => (name === 'status' ? this.#filter.get(name) : `${name} ${this.#filter.get(name)}`)).join(', ');
    say(this.#more, none ? (words ? empty('No run matches', el('p', {}, words), el('a.button', { href: '#/runs' }, 'Clear filters')) : empty('No runs yet', el('p', {}, 'Start one with bide run NAME.')))
      : this.#next ? act('Show older ones', () => this.#older()) : el('p.note', {}, 'That is all.'));
    this.#drawBar();
  }
  #row(run) {
    const state = stateOf(run, run.reason ? { reason: run.reason } : null);
    const box = el('input', { type: 'checkbox', 'aria-label': `Select run ${run.id}`, onchange: () => this.#select(run.id, box.checked) });
    box.checked = this.#selected.has(run.id);
    const cell = (name, ...content) => el('span', { role: 'cell', 'data-label': name }, content);
    const took = run.finished_at ? length(Date.parse(run.finished_at) - Date.parse(run.started_at ?? run.created_at)) : run.status === 'running' ? length(now() - Date.parse(run.started_at ?? run.created_at)) : '';
    return el(`div.tr${box.checked ? '.selected' : ''}`, { role: 'row', 'data-run': run.id }, cell('', el('label.tick', {}, box)), cell('Run', link(`#/run/${run.id}`, `${run.id} ${run.workflow}`)),
      cell('State', el(`span.kind.${state[2]}`, {}, mark(state[0]), state[1])), cell('Why', why(run)), cell('Mission', run.mission ?? '–'), cell('Started', when(run.created_at, 'ago')), cell('Took', took));
  }

  #select(id, on) {
    this.#all = false;
    if (on) this.#selected.add(id);
    else this.#selected.delete(id);
    const row = this.#rows.get(id)?.node;
    row?.classList.toggle('selected', on);
    const box = row?.querySelector('input');
    if (box) box.checked = on;
    this.#drawBar();
  }
  // How many of the selected each action fits, before it is pressed.
  #drawBar() {
    const runs = [...this.#selected].map((id) => this.#rows.get(id)?.run).filter(Boolean);
    this.#bar.hidden = runs.length === 0;
    if (runs.length === 0) return;
    if (this.#all) return;  // drawn; what changes meanwhile takes nothing back
    const fits = Object.entries(kActions).map(([name, [fit, word, effect]]) => ({ name, word, effect, of: runs.filter(fit) })).filter((one) => one.of.length);
    say(this.#bar, el('div.line', {}, el('span', {}, el('strong', {}, `${runs.length} selected. `), this.#next && may('start') ? act('Select all that match', () => this.#selectAll(), '.link') : ''), button('Clear selection', () => { for (const id of [...this.#selected]) this.#select(id, false); })),
      may('start') ? [el('p.hint', {}, fits.map(({ word, of, effect }) => `${word} ${of.length}: ${effect}${of.length < runs.length ? ` (${runs.length - of.length} it does not fit ${runs.length - of.length === 1 ? 'is' : 'are'} left alone)` : ''}. `).join('')),
        el('div.buttons', {}, fits.map(({ name, word, of }) => act(`${word} ${of.length}${name === 'cancel' ? '…' : ''}`, () => this.#do(name, of), name === 'cancel' ? '.no' : name === 'retry' ? '.yes' : '')))]
        : el('p.hint', {}, 'Actions take the scope start.'));
  }
  #ask(action, filter, dry) { return post('/v1/runs/actions', JSON.stringify({ action, filter, dry_run: dry })); }
  // All that the filters match, also those that are not shown: the agent counts, and does it.
  async #selectAll() {
    const filter = Object.fromEntries(this.#filter);
    const counts = await Promise.all(Object.keys(kActions).map(async (action) => [action, (await this.#ask(action, filter, true)).value.matched]));
    const fits = counts.filter(([, count]) => count > 0);
    const words = kFilters.filter((name) => this.#filter.get(name)).map((name) => `${name} ${this.#filter.get(name)}`).join(', ') || 'no filter';
    if (this.#selected.size === 0) return;  // cleared meanwhile
    this.#all = true;
    const clear = () => { for (const id of [...this.#selected]) this.#select(id, false); };
    say(this.#bar, el('div.line', {}, el('strong', {}, `All that match: ${words}.`), button('Clear selection', clear)),
      el('p.hint', {}, fits.map(([name, count]) => `${kActions[name][1]} ${count}: ${kActions[name][2]}. `).join('') || 'No action fits any of them.'),
      el('div.buttons', {}, fits.map(([name, count]) => act(`${kActions[name][1]} ${count}${name === 'cancel' ? '…' : ''}`, async () => {
        const sure = name !== 'cancel' || await confirm({ title: `Cancel ${count} runs?`, text: [`All that match: ${words}.`, 'What their finished steps say is undone. This cannot be taken back.'], safe: 'Keep them', go: `Cancel ${count}` });
        if (!sure) return;
        const { value } = await this.#ask(name, filter, false);
        toast(`${kActions[name][1]}: ${value.done} of ${value.matched} done${value.cut_short ? '; the agent closes, the rest was not looked at' : ''}.`);
        clear();
        await this.refresh(null);
      }, name === 'cancel' ? '.no' : name === 'retry' ? '.yes' : ''))));
  }
  async #do(name, runs) {
    if (name === 'cancel') {
      const yes = await confirm({ title: `Cancel ${runs.length} run${runs.length === 1 ? '' : 's'}?`,
        text: [`They end: ${runs.slice(0, 12).map((run) => `${run.id} ${run.workflow}`).join(', ')}${runs.length > 12 ? ` and ${runs.length - 12} more` : ''}.`, 'What their finished steps say is undone. This cannot be taken back.'],
        safe: 'Keep them', go: `Cancel ${runs.length}` });
      if (!yes) return;
    }
    let done = 0;
    for (const run of runs) done += await command(`/v1/runs/${run.id}/${name}`, '{}', '') ? 1 : 0;
    toast(`${kActions[name][1]}: ${done} of ${runs.length} done.`);
    await this.refresh(null);
  }

  key(key) {
    if (key === '/') {
      this.#head.querySelector('details').open = true;
      this.#head.querySelector('#filter-run').focus();
      return true;
    }
    const rows = [...this.#body.children];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    if (key === 'x' && at >= 0) {
      const id = Number(rows[at].dataset.run);
      this.#select(id, !this.#selected.has(id));
      return true;
    }
    if (key !== 'j' && key !== 'k') return false;
    rows[Math.min(Math.max(at + (key === 'j' ? 1 : -1), 0), rows.length - 1)]?.querySelector('a').focus();
    return true;
  }
}

function why(run) {
  if (run.error) return el('span.bad-text', {}, [run.error.code, run.error.message].filter(Boolean).join(': ').slice(0, 200) || 'failed');
  if (run.cancel_reason && run.status === 'cancelled') return run.cancel_reason;
  return run.reason ? run.reason.replaceAll('_', ' ') : '';
}
