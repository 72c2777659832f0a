// What can be done about a run. Only what applies is offered; for the rest there is a sentence why.
import { Refused, may, post } from './agent.js';
import { el, say } from './dom.js';
import { act, confirm, toast } from './ui.js';

const kOver = new Set(['completed', 'failed', 'cancelled']);
const list = (names) => names.slice(0, 8).join(', ') + (names.length > 8 ? ` and ${names.length - 8} more` : '');

// Says it; what the agent refused is told in its words. True: done.
export async function command(path, body, said, undo) {
  try {
    const { value } = await post(path, body);
    if (said) toast(typeof said === 'function' ? said(value) : said, undo);
    return value ?? true;
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401) throw error;
    toast(`Not done: ${error.message}`);
    return false;
  }
}

export class Actions {
  node = el('section.actions', { 'aria-label': 'Actions' });
  #id;
  #changed;
  #run = null;
  #journal = null;

  constructor(id, changed) {
    this.#id = id;
    this.#changed = changed;
  }
  show(run, journal) {
    this.#run = run;
    this.#journal = journal;
    say(this.node, el('h2', {}, 'Actions'), el('dl.effects.card', {}, this.#all().map(([name, effect]) => el('div', {}, el('dt', {}, name), el('dd', {}, effect)))));
  }
  #over() { return kOver.has(this.#run.status); }
  #undone() { return (this.#run.to_undo ?? []).map((one) => one.step); }

  #all() {
    const over = this.#over();
    const undone = this.#undone();
    const doubt = this.#doubt();
    const undo = undone.length ? ` ${undone.length} finished step${undone.length === 1 ? ' is' : 's are'} undone, last first: ${list(undone)}.` : ' No finished step says how it is undone.';
    const left = doubt.length ? ` In doubt, and only listed: ${list(doubt)}.` : '';
    const paused = Boolean(this.#run.paused_at);
    return [
      paused ? ['Resume', over ? 'Not now: the run is over.' : 'Goes on where it stopped.'] : ['Pause', over ? 'Not now: the run is over.' : 'Stops at the next step boundary. Deadlines go on. You can resume at any time.'],
      ['Fork…', 'Starts a new run with the first steps of this one. This run is left as it is.'],
      ['Cancel run…', over ? 'Not now: the run is over.' : `Ends it.${undo}${left}`],
      ['Retry', this.#run.status === 'failed' ? 'Puts it back in the queue. Completed steps are not run again.' : 'Not now: only a failed run can be retried.'],
    ];
  }
  #doubt() { return (this.#journal?.steps ?? []).filter((one) => one.status === 'needs_reconcile').map((one) => one.name); }

  // The buttons of the head.
  buttons() {
    if (!may('start')) return el('p.hint', {}, 'You may look at it; actions take the scope start.');
    const over = this.#over();
    const paused = Boolean(this.#run.paused_at);
    return el('div.buttons', {},
      over ? '' : act([paused ? 'Resume' : 'Pause', ' ', el('kbd', { 'aria-hidden': 'true' }, 'p')], () => this.#setPaused(!paused), '', { 'data-do': 'pause' }),
      this.#run.status === 'failed' ? act('Retry', () => this.#do('retry', '{}', `Run ${this.#id} is queued again.`), '.yes', { 'data-do': 'retry' }) : '',
      act('Fork…', () => this.#fork(), '', { 'data-do': 'fork' }),
      over || this.#run.cancel_requested_at ? '' : act('Cancel run…', () => this.#cancel(), '.no', { 'data-do': 'cancel' }));
  }
  togglePause() {
    if (this.#over() || !may('start')) return false;
    this.node.ownerDocument.querySelector('[data-do="pause"]')?.focus();
    return true;
  }

  async #do(what, body, said, undo) {
    const done = await command(`/v1/runs/${this.#id}/${what}`, body, said, undo);
    await this.#changed();
    return done;
  }
  #setPaused(on) {
    return this.#do(on ? 'pause' : 'resume', '{}', on ? `Run ${this.#id} is paused.` : `Run ${this.#id} goes on.`, on ? ['Undo', () => this.#setPaused(false)] : undefined);
  }
  async #cancel() {
    const undone = this.#undone();
    const doubt = this.#doubt();
    const reason = el('input', { type: 'text', id: 'cancel-why', autocomplete: 'off' });
    const yes = await confirm({
      title: `Cancel run ${this.#id}?`,
      text: [undone.length ? el('p', {}, `It ends. ${undone.length} finished step${undone.length === 1 ? ' is' : 's are'} undone, last first: `, el('b', {}, list(undone)), '.')
        : 'It ends. Nothing of it is undone: no finished step says how.',
      ...(doubt.length ? [el('p', {}, el('b', {}, list(doubt)), doubt.length === 1 ? ' is in doubt and stays as it is.' : ' are in doubt and stay as they are.')] : []), el('p.hint', {}, 'This cannot be taken back.')],
      fields: [el('div.field', {}, el('label', { for: 'cancel-why' }, 'Why ', el('span.hint', {}, '(may be left out)')), reason)],
      safe: 'Keep it running', go: 'Cancel the run',
    });
    if (!yes) return;
    await this.#do('cancel', JSON.stringify(reason.value.trim() ? { reason: reason.value.trim() } : {}),
      (value) => ({ cancelled: `Run ${this.#id} is cancelled.`, compensating: `Run ${this.#id} is cancelled; it undoes what it did.` }[value.status] ?? `Run ${this.#id} is told to end.`));
  }
  async #fork() {
    const steps = this.#journal?.steps ?? [];
    const open = steps.findIndex((one) => !['completed', 'failed', 'cancelled'].includes(one.status));
    const most = open < 0 ? steps.length : open;
    const from = el('input', { type: 'text', inputmode: 'numeric', id: 'fork-from', autocomplete: 'off', 'aria-describedby': 'fork-hint' });
    from.value = String(most);
    const told = el('p.hint', { id: 'fork-hint' });
    const tell = () => {
      const n = Number(from.value);
      const last = steps[n - 1];
      say(told, !/^\d+$/.test(from.value) || n > most ? `A number from 0 to ${most}.` : n === 0 ? 'Nothing is copied: it begins anew.' : `Copies ${n}, up to “${last.name}”; what comes after is done anew.`);
    };
    from.addEventListener('input', tell);
    tell();
    const latest = el('input', { type: 'checkbox', id: 'fork-latest' });
    const yes = await confirm({
      title: `Fork run ${this.#id}?`, text: ['A new run begins with the first entries of this journal. This run is left as it is.'],
      fields: [el('div.field', {}, el('label', { for: 'fork-from' }, 'Entries to copy'), from, told),
        el('label.tick', { for: 'fork-latest' }, latest, el('span', {}, 'With the latest version of the workflow'))],
      safe: 'Do nothing', go: 'Start the fork', danger: false,
    });
    if (!yes) return;
    if (!/^\d+$/.test(from.value) || Number(from.value) > most) return toast(`Not done: the number of entries is from 0 to ${most}.`);
    const made = await command(`/v1/runs/${this.#id}/fork`, `{"from":${Number(from.value)},"latest":${latest.checked}}`, (value) => `Run ${value.id} is forked from ${this.#id}.`);
    if (made) location.hash = `#/run/${made.id}`;
  }
}
