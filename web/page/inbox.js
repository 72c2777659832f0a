// The inbox: what waits for a person. Cards lead to what is asked; nothing is decided here.
import { get, getIfThere, me, now, pending } from './agent.js';
import { button, el, say, when } from './dom.js';
import { mark } from './marks.js';
import { command } from './data.js';
import { empty } from './ui.js';
import { kKinds, ending, expiry } from './words.js';

const kHour = 3_600_000;

function order(a, b) {
  const soon = (wait) => (wait.resolve_by && Date.parse(wait.resolve_by) - now() < kHour ? Date.parse(wait.resolve_by) : Infinity);
  return soon(a) === soon(b) ? a.id - b.id : soon(a) - soon(b);
}

export class Inbox {
  #place;
  #shown = [];    // as they stand on the page: changed in place, never reordered by themselves
  #fresh = [];
  #drawn = new Map();  // id → [what it was drawn from, node]
  #current = 0;
  #selecting = false;
  #selected = new Set();
  #head = el('div.head');
  #cards = el('ul.cards');
  #foot = el('div.bar.many', { hidden: true });
  onCount = () => {};

  constructor(place) {
    this.#place = place;
    place.append(this.#head, this.#cards, this.#foot);
  }

  async load() {
    this.#take((await pending()).sort(order));
  }
  // Loads anew, in order.
  async open() {
    await this.load();
    await this.#idle();
  }
  #take(waits) {
    this.#shown = waits;
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
      else if (old.status === 'pending') this.#shown[i] = (await getIfThere(`/v1/waits/${old.id}`))?.value ?? { ...old, status: 'cancelled' };
      there.delete(old.id);
    }
    this.#fresh = [...there.values()];
    if (this.#shown.length === 0) return this.open();
    return this.#draw();
  }
  set current(id) {
    this.#current = id;
    for (const card of this.#cards.querySelectorAll('.card')) card.setAttribute('aria-current', String(Number(card.dataset.wait) === id));
  }
  // The next card's number, or the one before.
  beside(id, step) {
    const i = this.#shown.findIndex((wait) => wait.id === id);
    return this.#shown[i < 0 ? 0 : Math.min(Math.max(i + step, 0), this.#shown.length - 1)]?.id;
  }
  key(key) {
    if (key !== 'x') return false;
    const card = document.activeElement?.closest('li')?.querySelector('[data-wait]');
    if (!this.#selecting) this.#select(true);
    if (card) this.#tick(Number(card.dataset.wait), !this.#selected.has(Number(card.dataset.wait)));
    return true;
  }

  #draw() {
    const open = this.#shown.filter((wait) => wait.status === 'pending');
    const count = open.length + this.#fresh.length;
    this.onCount(count);
    const many = open.filter((wait) => wait.kind === 'approval').length > 1;
    say(this.#head,
      el('div.line', {}, el('h1', {}, count === 0 ? 'Nothing needs you' : `${count} need${count === 1 ? 's' : ''} you`),
        many || this.#selecting ? button(this.#selecting ? 'Done' : 'Select several', () => this.#select(!this.#selecting), '.several') : ''),
      // News take the place of the note, which is kept free for them: no card moves.
      el('div.slot', { role: 'status' }, this.#fresh.length ? button(`${this.#fresh.length} new: show ${this.#fresh.length === 1 ? 'it' : 'them'}`, () => this.open(), '.news')
        : count ? el('p.note', {}, this.#selecting ? 'Tick approvals to read and decide together.' : 'Ends within an hour first, then oldest.') : ''));
    this.#cards.hidden = this.#shown.length === 0;
    // Nodes of cards that did not change stay: so do focus, position and selection.
    this.#shown.forEach((wait, i) => {
      const key = JSON.stringify([wait, this.#selecting && wait.kind, this.#soon(wait)]);
      let [was, node] = this.#drawn.get(wait.id) ?? [];
      if (was !== key) {
        const made = el('li', {}, this.#card(wait));
        if (node?.contains(document.activeElement)) queueMicrotask(() => made.querySelector('a, input')?.focus());
        node?.replaceWith(made);
        node = made;
        this.#drawn.set(wait.id, [key, node]);
      }
      if (this.#cards.children[i] !== node) this.#cards.insertBefore(node, this.#cards.children[i] ?? null);
    });
    while (this.#cards.children.length > this.#shown.length) this.#cards.lastChild.remove();
    const ids = new Set(this.#shown.map((wait) => wait.id));
    for (const id of this.#drawn.keys()) if (!ids.has(id)) this.#drawn.delete(id);
    this.#place.querySelector('.empty')?.remove();
    this.#bar();
  }

  // Nothing to do: what the agent does meanwhile, or how to begin.
  async #idle() {
    if (this.#shown.length) return;
    const { value } = await get('/v1/runs?limit=1');
    if (this.#shown.length || this.#place.querySelector('.empty')) return;
    this.#cards.after(value.items.length
      ? empty('', el('p', {}, 'New questions appear here by themselves.'))
      : empty('No runs yet', el('p', {}, 'Put an executable into the folder of workflows, then:'), command('bide run hello')));
  }

  #select(on) {
    this.#selecting = on;
    this.#selected.clear();
    this.#draw();
    this.#head.querySelector('.several')?.focus();
  }
  #tick(id, on) {
    if (on) this.#selected.add(id);
    else this.#selected.delete(id);
    const box = this.#cards.querySelector(`input[value="${id}"]`);
    if (box) box.checked = on;
    this.#bar();
  }
  #bar() {
    const ids = this.#shown.filter((wait) => wait.status === 'pending' && this.#selected.has(wait.id)).map((wait) => wait.id);
    this.#foot.hidden = !this.#selecting;
    if (this.#selecting) {
      say(this.#foot, ids.length ? el('a.button.yes', { href: `#/?select=${ids.join(',')}` }, `Read ${ids.length === 1 ? 'it' : `these ${ids.length}`}, then decide`)
        : el('p.hint', {}, 'Nothing is ticked yet.'));
    }
  }

  #soon(wait) { return Boolean(wait.resolve_by) && Date.parse(wait.resolve_by) - now() < kHour; }

  #card(wait) {
    const [shape, word] = kKinds[wait.kind] ?? kKinds.question;
    const over = wait.status !== 'pending';
    const card = el(over ? 'a.card.gone' : 'a.card', { href: `#/wait/${wait.id}`, 'data-wait': wait.id, 'aria-current': String(wait.id === this.#current) },
      el('span.line', {}, over ? this.#outcome(wait) : el('span.kind.need', {}, mark(shape), word),
        el('span.meta', {}, over ? when(wait.resolved_at ?? wait.created_at, 'ago') : ['asked ', when(wait.created_at, 'ago')])),
      el('strong.asks', {}, wait.asks ?? wait.name),
      over ? el('span.meta', {}, `${ending(wait, me.name)} Nothing to do for you.`) : this.#facts(wait));
    if (!this.#selecting || over || wait.kind !== 'approval') return card;
    const box = el('input', { type: 'checkbox', value: wait.id, 'aria-label': `Select: ${wait.asks ?? wait.name}`,
      onchange: () => this.#tick(wait.id, box.checked) });
    box.checked = this.#selected.has(wait.id);
    return el('div.selectable', {}, el('label.tick', {}, box), card);
  }
  #outcome(wait) {
    const good = wait.resolution?.decision === 'approved';
    const [shape, word, tone] = wait.status === 'expired' ? ['expired', 'Expired', 'idle'] : wait.status === 'cancelled' ? ['cancelled', 'Closed', 'idle']
      : wait.resolution?.decision === 'denied' ? ['failed', 'Denied', 'bad'] : [good ? 'done' : 'done', good ? 'Approved' : 'Answered', 'ok'];
    return el(`span.kind.${tone}`, {}, mark(shape), word);
  }
  #facts(wait) {
    const { quorum, schema, data } = wait.request ?? {};
    const yes = (wait.votes ?? []).filter((one) => one.decision === 'approved').map((one) => one.by);
    const fields = Object.keys(schema?.properties ?? {}).length;
    const rows = data && typeof data === 'object' ? Object.keys(data).length : 0;
    const ends = !wait.resolve_by ? 'no end'
      : this.#soon(wait) ? [el('span.soon', {}, mark('expired'), 'Ends ', when(wait.resolve_by, 'in')), ' then: ', el('b', {}, expiry(wait))]
        : ['ends ', when(wait.resolve_by, 'in'), ', then: ', el('b', {}, expiry(wait))];
    return el('span.facts.meta', {}, el('span', {}, `${wait.workflow ?? 'run'}, run ${wait.run}`), el('span', {}, ends),
      quorum > 1 ? el('span', {}, el('b', {}, `${yes.length} of ${quorum}`), ' said yes', yes.length ? `: ${yes.join(', ')}` : '') : '',
      fields ? el('span', {}, `form with ${fields} field${fields === 1 ? '' : 's'}`) : '',
      rows ? el('span', {}, `${rows} field${rows === 1 ? '' : 's'} to review`) : '');
  }
}
