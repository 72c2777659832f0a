// A run: what it is, why it does not move and what would, its steps along the clock, its journal, its log, and what can
// be done about it.
import { getIfThere, now, textFrom } from './agent.js';
import { el, length, link, say, when } from './dom.js';
import { command, dataBox } from './data.js';
import { Journal } from './journal.js';
import { member, tree } from './json.js';
import { kRunStates, mark } from './marks.js';
import { Actions } from './run_actions.js';
import { Steps } from './steps.js';
import { Timeline } from './timeline.js';

const kTail = 64 * 1024;   // of the log that is shown
const kLines = 500;

export class RunView {
  #place;
  #id = 0;
  #run = null;
  #journal = null;
  #head = el('div');
  #why = el('div.why');
  #data = el('div');
  #log = el('section.log', { 'aria-label': 'Log' });
  #timeline = null;
  #steps = null;
  #actions = null;
  #logAt = 0;
  #lines = [];
  #follow = true;

  get place() { return this.#place; }
  constructor(place) { this.#place = place; }

  async open(text, args) {
    const id = Number(text);
    const seq = Number(args.get('step'));
    if (id === this.#id && this.#timeline && this.#place.contains(this.#head)) return this.#reveal(seq);
    this.close();
    this.#id = id;
    const found = await this.#load();
    if (this.#id !== id) return undefined;
    if (!found) {
      this.#id = 0;
      return say(this.#place, el('h1', { tabindex: '-1' }, 'There is no such run'), el('p', {}, `Nothing has the number ${text}; it may have been deleted.`), link('#/runs', 'To the runs'));
    }
    this.#timeline = new Timeline();
    this.#steps = new Steps();
    this.#journal = new Journal(id);
    this.#actions = new Actions(id, () => this.refresh(null));
    this.#lines = [];
    this.#logAt = 0;
    say(this.#place, el('div.run', {}, this.#head, this.#why, this.#timeline.node, this.#steps.node, this.#data, this.#log, this.#actions.node));
    this.#show(found);
    this.#head.querySelector('h1').focus();
    await this.#journal.load((complete) => this.#draw(complete));
    this.#draw(true);
    await this.#readLog();
    if (seq) this.#reveal(seq);
    return undefined;
  }
  close() {
    this.#id = 0;
    this.#timeline?.end();
    this.#steps?.end();
    this.#timeline = this.#steps = null;
    this.#place.replaceChildren();
  }
  #reveal(seq) {
    if (!seq) return;
    this.#timeline.reveal(seq);
    this.#steps.reveal(seq);
  }

  async #load() {
    const [run, why] = await Promise.all([getIfThere(`/v1/runs/${this.#id}`), getIfThere(`/v1/runs/${this.#id}/explain`)]);
    return run && why ? { run: run.value, exact: tree(run.text), why: why.value } : null;
  }
  // null: everything anew.
  async refresh(events) {
    const id = this.#id;
    if (!id || !this.#timeline || (events !== null && !events.some((one) => one.run === id))) return;
    const found = await this.#load();
    if (!found || this.#id !== id) return;
    this.#show(found);
    await this.#journal.refresh(events === null);
    if (this.#id !== id) return;
    this.#draw(true);
    await this.#readLog();
  }
  #draw(complete) {
    if (!this.#timeline) return;
    const { steps, tries, waits, restarts } = this.#journal;
    this.#timeline.show({ run: this.#run, steps, tries, waits, restarts }, `#/run/${this.#id}`);
    this.#actions.show(this.#run, this.#journal);
    this.#steps.show(this.#id, this.#journal, waits, this.#run.finished_at ? Date.parse(this.#run.finished_at) : now(), complete);
  }

  #show({ run, exact, why }) {
    this.#run = run;
    const focused = this.#head.contains(document.activeElement) ? document.activeElement.dataset.do ?? 'title' : '';
    const state = stateOf(run, why);
    const facts = [['started ', when(run.created_at, 'ago', true), ` by ${run.created_by}`], run.version ? ['version ', el('code', {}, run.version.slice(0, 12))] : null,
      run.forked_from ? ['forked from ', link(`#/run/${run.forked_from}`, `run ${run.forked_from}`)] : null,
      run.parent ? ['part of ', link(`#/run/${run.parent}`, `run ${run.parent}`)] : null,
      run.continued_as ? ['goes on as ', link(`#/run/${run.continued_as}`, `run ${run.continued_as}`)] : null,
      run.mission ? ['mission ', link(`#/runs?mission=${encodeURIComponent(run.mission)}`, run.mission)] : null, run.key ? ['key ', el('code', {}, run.key)] : null,
      run.finished_at ? [`took ${length(Date.parse(run.finished_at) - Date.parse(run.started_at ?? run.created_at))}`] : null].filter(Boolean);
    this.#actions.show(run, this.#journal);
    say(this.#head, el('div.line', {}, el('div.title', {}, el('h1', { tabindex: '-1' }, `Run ${run.id}, ${run.workflow}`), el(`span.kind.${state[2]}`, {}, mark(state[0]), state[1])), this.#actions.buttons()),
      el('p.meta', {}, facts.map((one, i) => [i ? ' · ' : '', one])));
    if (focused) (this.#head.querySelector(`[data-do="${focused}"]`) ?? this.#head.querySelector('h1')).focus();
    this.#explain(run, why);
    const part = (name, title) => {
      const node = member(exact, name);
      return node && node.raw !== 'null' && node.raw !== '{}' ? [el('h2', {}, title), dataBox(node, node.raw)] : '';
    };
    const key = ['input', 'result', 'error', 'state', 'labels'].map((name) => member(exact, name)?.raw).join();
    if (this.#data.dataset.key === key) return;
    this.#data.dataset.key = key;
    say(this.#data, part('error', 'Error'), part('result', 'Result'), part('state', 'What it says of itself'), part('input', 'Input'), part('labels', 'Labels'));
  }

  // Why it does not move, what will wake it, and the command; nothing while it works.
  #explain(run, why) {
    if (run.status === 'completed' || why.reason === 'executing' || why.reason === 'replaying') return say(this.#why, '');
    const waits = why.waiting_on.filter((one) => ['approval', 'question', 'reconcile'].includes(one.kind));
    const tone = waits.length ? 'need' : run.status === 'failed' ? 'bad' : 'info';
    const shape = waits.some((one) => one.kind === 'reconcile') ? 'doubt' : waits.length ? 'asks' : run.status === 'failed' ? 'failed' : why.reason === 'sleeping' ? 'sleeping' : 'info';
    const others = why.waiting_on.length - waits.length;
    return say(this.#why, el(`div.notice.${tone}`, {}, mark(shape), el('div', {},
      el('p', {}, waits.length ? el('b', {}, waits.length === 1 ? 'It does not move because one question is open. ' : `It does not move because ${waits.length} questions are open. `) : '', why.text,
        waits.length && others ? ` ${others} more wait${others === 1 ? 's' : ''} for time or a message.` : ''),
      why.wakes_at ? el('p.meta', {}, 'By itself it goes on ', when(why.wakes_at, 'in', true), '.') : '',
      el('div.line.start', {}, waits.map((one) => el('a.button.yes', { href: `#/wait/${one.id}` }, waits.length === 1 ? 'Answer it' : `Answer “${one.asks ?? one.name}”`)), why.command ? command(why.command) : ''))));
  }

  // -- The log: its tail, which follows.
  async #readLog() {
    const id = this.#id;
    if (!id) return;
    for (;;) {
      const { text, next } = await textFrom(`/v1/runs/${id}/log`, this.#logAt);
      if (this.#id !== id || next === this.#logAt) break;
      this.#logAt = next;
      this.#lines = (this.#lines.join('\n') + text).slice(-kTail).split('\n').slice(-kLines);
    }
    this.#drawLog();
  }
  #drawLog() {
    this.#log.hidden = this.#lines.length === 0 || (this.#lines.length === 1 && this.#lines[0] === '');
    if (this.#log.hidden) return;
    let pre = this.#log.querySelector('pre');
    if (!pre) {
      const box = el('input', { type: 'checkbox', id: 'follow', onchange: () => { this.#follow = box.checked; this.#drawLog(); } });
      box.checked = this.#follow;
      pre = el('pre', { tabindex: '0', role: 'region', 'aria-label': 'The end of the log' });
      say(this.#log, el('div.line.bar-head', {}, el('h2', {}, 'Log'), el('span.note', {}, link(`/v1/runs/${this.#id}/log`, 'Whole log')), el('label.tick', { for: 'follow' }, box, el('span', {}, 'Follow'))), pre);
    }
    const at = pre.scrollTop;
    say(pre, this.#lines.join('\n'));
    pre.scrollTop = this.#follow ? pre.scrollHeight : at;
  }

  key(key) {
    if (key === 'p') return this.#actions.togglePause();
    return this.#timeline?.key(key) ?? false;
  }
}

// What a run is, at a glance.
export function stateOf(run, why) {
  if (run.paused_at && run.status !== 'completed' && run.status !== 'failed' && run.status !== 'cancelled') return kRunStates.paused;
  if (why?.reason === 'in_doubt') return ['doubt', 'Needs an answer', 'need'];
  if (why?.reason === 'needs_answer') return ['asks', 'Waits for you', 'need'];
  if (why?.reason === 'sleeping') return ['sleeping', 'Sleeping', 'idle'];
  if (why?.reason === 'retry_later') return ['retrying', 'Retrying', 'need'];
  if (why?.reason === 'version_missing' || why?.reason === 'workflow_missing') return ['warning', 'Version missing', 'need'];
  return kRunStates[run.status] ?? ['info', run.status, 'idle'];
}
