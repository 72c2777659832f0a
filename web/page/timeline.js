// A run's steps along the clock, drawn to scale but for folded waits. For readers it is a list of sentences; the
// drawing is hidden from them.
import { now } from './agent.js';
import { add, button, clock, day, el, length, say } from './dom.js';
import { kStepStates, mark, svg } from './marks.js';
import { Rows } from './rows.js';
import { barsOf, grouped, marks, scale } from './timeline_layout.js';

const kLetter = 6.6;  // px of a digit on the axis, at most
const kOverview = 200;  // columns
const kWaitMarks = { approval: 'asks', question: 'asks', timer: 'sleeping', signal: 'waiting', child: 'waiting', first_of: 'waiting' };
const percent = (x) => `${x.toFixed(3)}%`;

export class Timeline {
  node = el('section.timeline', { 'aria-label': 'Timeline' });
  #box = el('div.lanes', { tabindex: '0', role: 'region', 'aria-label': 'Steps along the clock' });
  #list = el('ol.tl');
  #axis = el('div.axis', { 'aria-hidden': 'true' });
  #grid = svg('svg', { class: 'grid', 'aria-hidden': 'true', preserveAspectRatio: 'none' });
  #note = el('span.note', {});
  #overview = svg('svg', { class: 'overview', 'aria-hidden': 'true', preserveAspectRatio: 'none', viewBox: `0 0 ${kOverview} 10` });
  #fold;
  #some;
  #rows;
  #data = null;
  #zoom = { from: 0, to: 100 };
  #address = '';

  constructor() {
    this.#fold = button('Fold long waits', () => this.#toggle(this.#fold), '.pill', { 'aria-pressed': 'true' });
    this.#some = button('Only what failed or waits', () => this.#toggle(this.#some), '.pill', { 'aria-pressed': 'false' });
    this.#rows = new Rows(this.#box, this.#list, (row) => this.#row(row));
    add(this.#box, this.#grid, this.#list);
    add(this.node, el('div.line.bar-head', {}, el('h2', {}, 'Timeline'), this.#note, this.#fold, this.#some), this.#axis, this.#overview, this.#box, legend());
    this.#sized.observe(this.#box);
    this.#overview.addEventListener('click', (event) => {
      const place = this.#overview.getBoundingClientRect();
      this.#rows.reveal(Math.floor(((event.clientX - place.left) / place.width) * this.#shown.length));
    });
  }
  #shown = [];
  // A phone that is turned: labels are as far apart as the new width wants.
  #drawnAt = 0;
  #sized = new ResizeObserver(() => { if (this.#data && this.#box.clientWidth !== this.#drawnAt) this.draw(); });
  #toggle(one) {
    one.setAttribute('aria-pressed', String(one.getAttribute('aria-pressed') !== 'true'));
    this.draw();
  }

  // run, steps of the journal in order, tries: step id → [ms], waits: step id → [wait], restarts: [ms].
  show(data, address) {
    this.#data = data;
    this.#address = address;
    this.draw();
  }

  draw() {
    const { run, steps, tries, waits, restarts } = this.#data;
    this.node.hidden = steps.length === 0;
    if (steps.length === 0) return;
    const end = run.finished_at ? Date.parse(run.finished_at) : now();
    const { copied, groups } = grouped(steps);
    const drawn = new Map();
    const all = [];
    for (const step of steps) {
      if (step.copied) continue;
      const bars = barsOf(step, tries.get(step.id), waits.get(step.id)?.filter((one) => one.kind === 'reconcile'));
      drawn.set(step.id, bars);
      all.push(...bars);
    }
    const begin = all.reduce((least, bar) => Math.min(least, bar.from), Date.parse(run.started_at ?? run.created_at));
    const axis = scale(all, begin, end, { fold: this.#fold.getAttribute('aria-pressed') === 'true', copied: copied.length > 0 });
    this.at = (t) => this.#zoomed(axis.at(t));
    this.until = end;
    const folded = axis.folds.reduce((sum, one) => sum + one.to - one.from, 0);
    say(this.#note, folded ? `to scale, except ${length(folded)} of waiting, folded` : 'to scale');
    this.#drawAxis(axis, begin, end, run, restarts, copied);
    this.#shown = this.#order(copied, groups, drawn);
    this.#rows.show(this.#shown);
    this.#grid.style.height = this.#rows.virtual ? `${this.#list.offsetHeight + 16}px` : '';
    this.#drawOverview();
  }
  #zoomed(x) { return ((x - this.#zoom.from) / (this.#zoom.to - this.#zoom.from)) * 100; }

  #order(copied, groups, drawn) {
    const only = this.#some.getAttribute('aria-pressed') === 'true';
    const wanted = (step) => !only || !['completed', 'cancelled'].includes(step.status) || step.failures > 0;
    const rows = [];
    // The drawing of a row depends on the whole axis: its key has all that moves it.
    const axis = `${this.#zoom.from} ${this.#zoom.to} ${this.at(this.until - 1).toFixed(4)} ${this.until} ${this.#fold.getAttribute('aria-pressed')}`;
    if (copied.length && !only) rows.push({ key: `copied ${copied.length} ${axis}`, copied });
    const several = groups.length > 1;
    for (const { branch, steps } of groups) {
      const of = steps.filter(wanted);
      if (several && of.length) rows.push({ key: `branch ${branch}`, branch: branch === '' ? 'main' : branch === '~undo' ? 'undoing' : `branch ${branch}` });
      for (const step of of) {
        rows.push({ key: `${step.id} ${step.updated_at} ${step.status} ${axis}`, step, bars: drawn.get(step.id) });
      }
    }
    return rows;
  }

  #row({ step, bars, branch, copied }) {
    if (branch !== undefined) return el('li.branch', {}, branch);
    if (copied) {
      return el('li', {}, el('div.label', {}, mark('copied'), el('span.name', {}, `${copied.length} step${copied.length === 1 ? '' : 's'}`), el('span.took', {}, 'copied')),
        svg('svg', { class: 'lane', 'aria-hidden': 'true' }, ...copied.slice(0, 4).map((_, i) => svg('rect', { class: 'b-copied', x: percent(this.#zoomed(0.2 + i * 1.4)), width: '1.1%', y: 6, height: 10 }))));
    }
    const state = stateOf(step);
    const took = tookOf(step, this.until);
    const words = sentence(step, state, took);
    return el('li', {}, el('a.label', { href: `${this.#address}?step=${step.seq}`, title: words }, el('span.unseen', {}, words), el(`span.kind.${state[2]}`, {}, mark(state[0])),
      el('span.name', { 'aria-hidden': 'true' }, titleOf(step), step.executions > 1 ? ` × ${step.executions}` : ''), el('span.took', { 'aria-hidden': 'true' }, took)), this.#lane(bars));
  }
  #lane(bars) {
    const lane = svg('svg', { class: 'lane', 'aria-hidden': 'true' });
    for (const bar of bars) {
      const x0 = this.at(bar.from);
      const x1 = this.at(bar.to ?? this.until);
      if (x1 < 0 || x0 > 100) continue;
      if (bar.kind === 'doubt') {
        lane.append(svg('svg', { x: percent(x0), y: 4, overflow: 'visible' }, svg('path', { class: 'b-doubt', d: 'M0 0 7 7 0 14-7 7z' })));
        continue;
      }
      if (bar.kind === 'backoff') {
        lane.append(svg('line', { class: 'b-backoff', x1: percent(x0), x2: percent(x1), y1: 11, y2: 11 }));
        continue;
      }
      lane.append(svg('rect', { class: `b-${bar.kind}`, x: percent(x0), width: percent(Math.max(x1 - x0, 0.25)), y: 6, height: 10, rx: 2 }));
      if (bar.kind === 'failed') lane.append(svg('line', { class: 'b-cap', x1: percent(x1), x2: percent(x1), y1: 2, y2: 20 }));
    }
    return lane;
  }

  #drawAxis(axis, begin, end, run, restarts, copied) {
    this.#drawnAt = this.#box.clientWidth;
    const wide = this.#drawnAt > 600;
    const scaleSvg = svg('svg', { class: 'ticks' });
    let labelled = -Infinity;  // the place of the last label of the upper row: one that would stand in it is left out
    const write = (x, words, row, anchor) => {
      if (row === 0 && Math.abs(x - labelled) < (wide ? 9 : 24)) return;
      if (row === 0) labelled = x;
      scaleSvg.append(svg('text', { x: percent(x), y: row === 0 ? 12 : 26, 'text-anchor': anchor, class: row === 0 ? 'strong' : '' }, words));
    };
    this.#grid.replaceChildren();
    const rule = (x, className) => { if (x >= 0 && x <= 100) this.#grid.append(svg('line', { class: className, x1: percent(x), x2: percent(x), y1: 0, y2: '100%' })); };
    for (const one of axis.folds) {
      const [x0, x1] = [this.#zoomed(one.x0), this.#zoomed(one.x1)];
      if (x1 < 0 || x0 > 100) continue;
      this.#grid.append(svg('rect', { class: 'fold', x: percent(x0), width: percent(x1 - x0), y: 0, height: '100%' }));
      write((x0 + x1) / 2, length(one.to - one.from), 0, 'middle');
    }
    const width = this.#grid.getBoundingClientRect().width || 1;
    const letters = (count) => (count * kLetter * (this.#zoom.to - this.#zoom.from)) / width;
    let { step, all } = marks(axis, letters(9));
    if (step < 1000) ({ step, all } = marks(axis, letters(13)));  // their labels have milliseconds, and want the room
    for (const { t, x } of all) {
      const at = this.#zoomed(x);
      rule(at, 'tick');
      const words = step >= 86_400_000 ? day(t) : step < 1000 ? `${clock(t)}.${String(t % 1000).padStart(3, '0')}` : clock(t, step < 60_000);
      const room = 100 - ((words.length + 5) * kLetter * 100) / width;  // five letters for "now"
      if (at >= 0 && at < room) write(at, words, 1, 'start');
    }
    if (copied.length) { rule(this.#zoomed(axis.copied), 'restart'); write(this.#zoomed(axis.copied), 'fork', 0, 'start'); }
    for (const at of restarts) rule(this.at(at), 'restart');
    const last = restarts.at(-1);
    if (last !== undefined) write(this.at(last), wide ? 'agent restarted' : 'restart', 0, this.at(last) > 70 ? 'end' : 'start');
    if (!run.finished_at) { rule(Math.min(this.at(end), 99.85), 'now'); write(100, 'now', 1, 'end'); }
    say(this.#axis, el('span.day', {}, `${day(begin)}, UTC`), scaleSvg);
  }
  #drawOverview() {
    this.#overview.replaceChildren();
    this.#overview.toggleAttribute('hidden', !this.#rows.virtual);
    if (!this.#rows.virtual) return;
    const worst = new Array(kOverview).fill('');
    const rank = { '': 0, completed: 1, cancelled: 1, started: 2, pending: 3, failed: 4, needs_reconcile: 5 };
    this.#shown.forEach(({ step }, i) => {
      const at = Math.floor((i / this.#shown.length) * kOverview);
      if (step && rank[step.status] > rank[worst[at]]) worst[at] = step.status;
    });
    worst.forEach((status, i) => { if (status) this.#overview.append(svg('rect', { x: i, width: 1, y: 0, height: 10, class: `o-${status}` })); });
  }

  reveal(seq) {
    const i = this.#shown.findIndex((row) => row.step?.seq === seq);
    if (i >= 0) this.#rows.reveal(i)?.classList.add('revealed');
  }
  // ← → pan, + − zoom. True: it was ours.
  key(key) {
    const { from, to } = this.#zoom;
    const span = to - from;
    if (key === '+' || key === '=') this.#zoom = { from: from + span / 4, to: to - span / 4 };
    else if (key === '-' || key === '−') this.#zoom = { from: Math.max(0, from - span / 2), to: Math.min(100, to + span / 2) };
    else if (key === 'ArrowLeft') this.#zoom = { from: Math.max(0, from - span / 4), to: Math.max(0, from - span / 4) + span };
    else if (key === 'ArrowRight') this.#zoom = { from: Math.min(100, to + span / 4) - span, to: Math.min(100, to + span / 4) };
    else return false;
    if (this.#data) this.draw();
    return true;
  }
  end() { this.#sized.disconnect(); this.#rows.end(); }
}

export const titleOf = (step) => (step.kind === 'timer' && (step.name === '' || step.name === 'timer') ? 'sleep' : step.name || step.kind);
export function stateOf(step) {
  const waits = kWaitMarks[step.kind];
  if (step.status === 'cancelled') return kStepStates.cancelled;
  if (waits && (step.status === 'pending' || step.status === 'started')) {
    return step.kind === 'approval' || step.kind === 'question' ? ['asks', 'Waits for a person', 'need'] : [waits, step.kind === 'timer' ? 'Sleeps' : 'Waits', 'idle'];
  }
  if (step.status === 'pending' && step.failures === 0) return ['queued', 'To begin', 'idle'];
  return kStepStates[step.status] ?? ['info', step.status, 'idle'];
}
export function tookOf(step, end) {
  if (step.status === 'needs_reconcile') return 'in doubt';
  const settled = step.status === 'completed' || step.status === 'failed' || step.status === 'cancelled';
  return length((settled ? Date.parse(step.updated_at) : end) - Date.parse(step.created_at));
}
function sentence(step, [, word], took) {
  const tries = step.failures ? `, ${step.failures} failed tr${step.failures === 1 ? 'y' : 'ies'}` : '';
  return `${titleOf(step)}, ${step.kind}: ${word.toLowerCase()}, ${took} from ${clock(Date.parse(step.created_at))} UTC${tries}`;
}

function legend() {
  const sample = (what, ...shapes) => el('span', {}, svg('svg', { class: 'sample', viewBox: '0 0 22 14', 'aria-hidden': 'true' }, ...shapes), what);
  const box = (name) => svg('rect', { class: `b-${name}`, x: 1, y: 2, width: 19, height: 10, rx: 2 });
  return el('div.legend', { 'aria-hidden': 'true' },
    svg('svg', { class: 'defs', width: 0, height: 0 }, ...['need', 'idle'].map((name) => svg('pattern', { id: `hatch-${name}`, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
      svg('rect', { class: `hatch-${name}-soft`, width: 6, height: 6 }), svg('rect', { class: `hatch-${name}`, width: 2.5, height: 6 })))),
    sample('ran', box('ran')), sample('failed try', box('failed'), svg('line', { class: 'b-cap', x1: 20, x2: 20, y1: 0, y2: 14 })),
    sample('waits for a person', box('person')), sample('waits for time or a message', box('time')), sample('copied by fork', box('copied')),
    sample('in doubt', svg('path', { class: 'b-doubt', d: 'M11 1 17 7 11 13 5 7z' })), sample('agent restarted', svg('line', { class: 'restart', x1: 11, x2: 11, y1: 0, y2: 14 })));
}
