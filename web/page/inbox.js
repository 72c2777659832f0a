// The inbox: what waits for a person. Cards lead to what is asked; nothing is decided here.
import { call, now, pending } from './agent.js';
import { el, mark, when } from './dom.js';

export const kKinds = { approval: ['asks', 'Approval'], question: ['asks', 'Question'], reconcile: ['doubt', 'May have happened'] };
const kHour = 3_600_000;

// What will be done at the end of a wait that nobody answered.
export function expiry(wait) {
  const fallback = wait.request?.default;
  if (fallback === undefined || fallback === null) return 'expired';
  return typeof fallback === 'string' ? fallback : JSON.stringify(fallback);
}

// How a wait that is over ended, in words.
export function ending(wait, me) {
  const who = wait.resolved_by === me && me ? 'You' : wait.resolved_by || 'Somebody';
  if (wait.status === 'expired') return `Nobody answered in time: ${expiry(wait)}.`;
  if (wait.status === 'cancelled') return 'The run ended before it was answered.';
  const words = { approved: 'approved it', denied: 'denied it', changes_requested: 'asked for changes' };
  return `${who} ${words[wait.resolution?.decision] ?? 'answered it'}.`;
}

function order(a, b) {
  const soon = (wait) => (wait.resolve_by && Date.parse(wait.resolve_by) - now() < kHour ? Date.parse(wait.resolve_by) : Infinity);
  return soon(a) === soon(b) ? a.id - b.id : soon(a) - soon(b);
}

export class Inbox {
  #place;
  #shown = [];  // as they stand on the page: changed in place, never reordered by themselves
  #fresh = [];
  #current = 0;
  me = '';

  constructor(place) { this.#place = place; }

  // Loads anew, in order.
  async open() {
    this.#shown = (await pending()).sort(order);
    this.#fresh = [];
    this.#draw();
  }
  // Looks what changed: what is new is announced, what is over stays in its place until the next visit.
  async refresh() {
    const waits = await pending();
    const there = new Map(waits.map((wait) => [wait.id, wait]));
    for (const [i, old] of this.#shown.entries()) {
      const same = there.get(old.id);
      if (same) this.#shown[i] = same;
      else if (old.status === 'pending') this.#shown[i] = (await call('GET', `/v1/waits/${old.id}`)).value;
      there.delete(old.id);
    }
    this.#fresh = [...there.values()];
    if (this.#shown.length === 0) return this.open();
    this.#draw();
  }
  set current(id) {
    this.#current = id;
    for (const card of this.#place.querySelectorAll('.card')) card.setAttribute('aria-current', Number(card.dataset.wait) === id);
  }
  // The next card's number, or the one before.
  beside(id, step) {
    const i = this.#shown.findIndex((wait) => wait.id === id);
    return this.#shown[i < 0 ? 0 : Math.min(Math.max(i + step, 0), this.#shown.length - 1)]?.id;
  }

  #draw() {
    const focused = this.#place.contains(document.activeElement) ? document.activeElement.dataset.wait : undefined;
    const count = this.#shown.filter((wait) => wait.status === 'pending').length + this.#fresh.length;
    document.title = count ? `${count} need${count === 1 ? 's' : ''} you · bide` : 'bide';
    const title = count === 0 ? 'Nothing needs you' : `${count} need${count === 1 ? 's' : ''} you`;
    const news = this.#fresh.length
      ? el('button.news', { type: 'button', onclick: () => this.open() }, `${this.#fresh.length} new: show ${this.#fresh.length === 1 ? 'it' : 'them'}`) : '';
    this.#place.replaceChildren(
      el('h1', {}, title), el('p.note', {}, count ? 'Ends within an hour first, then oldest.' : 'A run that asks a person stands here at once.'),
      el('div', { role: 'status' }, news), el('ul.cards', {}, this.#shown.map((wait) => el('li', {}, this.#card(wait)))));
    if (focused) this.#place.querySelector(`[data-wait="${focused}"]`)?.focus();
  }

  #card(wait) {
    const [shape, word] = kKinds[wait.kind] ?? kKinds.question;
    const over = wait.status !== 'pending';
    const ends = wait.resolve_by ? Date.parse(wait.resolve_by) - now() : Infinity;
    const quorum = wait.request?.quorum > 1 ? `needs ${wait.request.quorum}` : '';
    return el(over ? 'a.card.gone' : 'a.card', { href: `#/wait/${wait.id}`, 'data-wait': wait.id, 'aria-current': String(wait.id === this.#current) },
      el('div.line', {},
        el(over ? 'span.kind.over' : 'span.kind', {}, mark(over ? 'done' : shape), word),
        el('span.meta', {}, 'asked ', when(wait.created_at, 'ago'))),
      el('h3', {}, wait.asks ?? wait.name),
      over ? el('p.meta', {}, `${ending(wait, this.me)} Nothing to do for you.`)
        : el('div.line.meta', {},
          el('span', {}, `${wait.workflow ?? 'run'}, run ${wait.run}`), quorum ? el('span', {}, quorum) : '',
          wait.resolve_by ? el(ends < kHour ? 'span.soon' : 'span', {}, 'ends ', when(wait.resolve_by, 'in'), `, then: ${expiry(wait)}`)
            : el('span', {}, 'no end')));
  }
}
