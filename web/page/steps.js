// The journal as a table; a row opens to what the step asked and what came of it, in its exact text.
import { button, clock, el, link, say } from './dom.js';
import { dataBox } from './data.js';
import { member, visible } from './json.js';
import { mark } from './marks.js';
import { Rows } from './rows.js';
import { stateOf, titleOf, tookOf } from './timeline.js';

const kShort = 60;
const kColumns = ['Position', 'Step', 'State', 'Tries', 'Took', 'Result'];
const kNone = { needs_reconcile: 'not known', cancelled: 'none' };

export class Steps {
  node = el('section.steps', { 'aria-label': 'Steps' });
  #box = el('div.table-box', { tabindex: '0', role: 'region', 'aria-label': 'Table of steps' });
  #body = el('div.tbody', { role: 'rowgroup' });
  #table = el('div.table', { role: 'table', 'aria-label': 'Steps of the journal' });
  #open = new Set();       // seq of rows that are open
  #panel = el('div.panel');  // for an opened row of a long table
  #note = el('span.note');
  #rows;
  #journal = null;
  #waits = new Map();
  #until = 0;
  #run = 0;

  constructor() {
    this.#rows = new Rows(this.#box, this.#body, (row, i) => this.#row(row, i));
    this.#table.append(el('div', { role: 'rowgroup' }, el('div.tr.th', { role: 'row' }, kColumns.map((name) => el('span', { role: 'columnheader' }, name)))), this.#body);
    this.#box.append(this.#table);
    this.node.append(el('div.line.bar-head', {}, el('h2', {}, 'Steps'), this.#note), this.#box, this.#panel);
  }

  // journal: {steps, exact(i) → node of that step's document}, waits: step id → [wait].
  show(run, journal, waits, until, complete) {
    this.#run = run;
    this.#journal = journal;
    this.#waits = waits;
    this.#until = until;
    this.node.hidden = journal.steps.length === 0;
    say(this.#note, complete ? `${journal.steps.length} in order of first appearance · ` : `${journal.steps.length} loaded, more come · `,
      link(`/v1/runs/${run}/journal?limit=200`, 'Journal as JSON'));
    this.#table.setAttribute('aria-rowcount', complete ? journal.steps.length + 1 : -1);
    this.#rows.show(journal.steps.map((step) => ({ step, key: `${step.id} ${step.updated_at} ${step.status} ${step.executions} ${waits.get(step.id)?.length ?? 0}` })));
    for (const seq of this.#open) this.#expand(seq, true);
  }

  #row({ step }, i) {
    const waiting = this.#waits.get(step.id)?.find((one) => one.status === 'pending' && ['approval', 'question', 'reconcile'].includes(one.kind));
    const [shape, word, tone] = this.#state(step);
    const open = this.#open.has(step.seq);
    const cell = (name, ...content) => el('span', { role: 'cell', 'data-label': name }, content);
    const tries = step.kind === 'step' || step.kind === 'task' ? String(step.executions) : '';
    return el('div.tr', { role: 'row', id: `step-${step.seq}`, 'aria-rowindex': i + 2, 'data-seq': step.seq },
      cell('Position', el('code', {}, position(step))),
      cell('Step', button(titleOf(step), () => this.#expand(step.seq), '.name', { 'aria-expanded': String(open) }), el('span.hint.under', {}, step.kind, ['step', 'task'].includes(step.kind) ? `, ${step.effect}` : '', step.copied ? ', copied' : '')),
      cell('State', el(`span.kind.${tone}`, {}, mark(shape), waiting ? link(`#/wait/${waiting.id}`, word) : word)),
      cell('Tries', tries), cell('Took', tookOf(step, this.#until)), cell('Result', this.#result(step, i)));
  }
  #state(step) {
    const by = this.#waits.get(step.id)?.filter((one) => one.resolved_by).at(-1);
    const state = stateOf(step);
    if (step.kind === 'approval' && step.status === 'completed' && by) {
      const words = { approved: ['done', 'Approved', 'ok'], denied: ['failed', 'Denied', 'bad'], changes_requested: ['warning', 'Changes requested', 'need'] }[by.resolution?.decision];
      if (words) return [words[0], `${words[1]} by ${by.resolved_by}`, words[2]];
    }
    if (step.kind === 'timer' && step.status !== 'completed') {
      const until = this.#waits.get(step.id)?.find((one) => one.resolve_by)?.resolve_by;
      if (until) return ['sleeping', `Until ${clock(Date.parse(until))} UTC`, 'idle'];
    }
    return state;
  }
  #result(step, i) {
    if (step.result === null && step.error === null) return el('span.hint', {}, kNone[step.status] ?? 'not yet');
    const node = this.#journal.exact(i);
    const raw = member(node, step.result !== null ? 'result' : 'error')?.raw ?? '';
    return el(step.result !== null ? 'code' : 'code.bad-text', {}, raw.length > kShort ? `${visible(raw.slice(0, kShort))}…` : raw);
  }

  // Opens or closes a row.
  #expand(seq, keep = false) {
    const i = this.#journal.steps.findIndex((step) => step.seq === seq);
    if (i < 0) return;
    const node = this.#rows.node(i);
    const open = keep || !this.#open.has(seq);
    if (this.#rows.virtual && open) this.#open.clear();
    if (open) this.#open.add(seq);
    else this.#open.delete(seq);
    node?.querySelector('.name')?.setAttribute('aria-expanded', String(open));
    const there = this.#rows.virtual ? this.#panel : node?.nextElementSibling?.classList.contains('opened') ? node.nextElementSibling : null;
    if (keep && there?.dataset.key === this.#key(i)) return;
    if (this.#rows.virtual) {
      this.#panel.replaceChildren(...(open ? [this.#opened(i)] : []));
      this.#panel.dataset.key = this.#key(i);
      if (!keep && open) this.#panel.scrollIntoView({ block: 'nearest' });
      return;
    }
    there?.remove();
    if (!open) return;
    const row = el('div.tr.opened', { role: 'row', 'data-key': this.#key(i) }, el('span', { role: 'cell', 'aria-colspan': kColumns.length }, this.#opened(i)));
    node?.after(row);
  }
  #key(i) { return `${this.#journal.steps[i].id} ${this.#journal.steps[i].updated_at}`; }

  #opened(i) {
    const step = this.#journal.steps[i];
    const node = this.#journal.exact(i);
    const part = (name, title) => {
      const value = member(node, name);
      return value && value.raw !== 'null' ? [el('h3', {}, title), dataBox(value, value.raw)] : '';
    };
    return el('div', {}, el('p.meta', {}, `${titleOf(step)}, opened. Position `, el('code', {}, step.position), ` · entry ${step.seq} · began ${clock(Date.parse(step.created_at))} UTC`,
      step.retries ? ` · up to ${step.retries + 1} tries` : '', step.not_before && step.status === 'pending' ? ` · next try at ${clock(Date.parse(step.not_before))} UTC` : ''),
    part('result', 'Result'), part('error', step.status === 'failed' ? 'Error' : 'Error of the last try'), part('request', 'Request'));
  }
  reveal(seq) {
    const i = this.#journal?.steps.findIndex((step) => step.seq === seq) ?? -1;
    if (i < 0) return;
    this.#rows.reveal(i);
    if (!this.#open.has(seq)) this.#expand(seq);
    this.#rows.node(i)?.querySelector('.name')?.focus();
  }
  end() { this.#rows.end(); }
}

// "us/1" for native code; a program's position is long: its branch and the number of the entry.
function position(step) {
  const parts = step.position.split('/');
  if (parts.length <= 2) return step.position.replace(/^\//, '');
  return parts[0] ? `${parts[0]}/${step.seq}` : String(step.seq);
}
