// The journal of a run as the page holds it: pages of 200 entries with their exact text, and what belongs to its steps
// (failed tries, waits, restarts of the agent).
import { all, get, getIfThere } from './agent.js';
import { member, tree } from './json.js';

const kPage = 200;
const kAtOnce = 4;        // pages asked for at the same time
const kMostEvents = 2000; // failed tries are drawn as far as these go
const kMostWaits = 2000;

export class Journal {
  #run;
  // {items, parts: [{from, text, nodes?}]}; page k has the entries 200·k + 1 to 200·k + 200, which are numbered without
  // gaps. An answer that got too large ends early: then the page is several of them.
  #pages = [];
  steps = [];
  tries = new Map();    // step id → [ms]
  waits = new Map();    // step id → [wait]
  restarts = [];        // ms
  #cursor = 0;          // of the events

  constructor(run) { this.#run = run; }

  async #page(k) {
    const page = { items: [], parts: [] };
    for (let more = true; more && page.items.length < kPage;) {
      const from = page.items.length;
      const after = k * kPage + from;
      const { text, value } = await get(`/v1/runs/${this.#run}/journal?limit=${kPage - from}${after ? `&cursor=${after}` : ''}`);
      page.items.push(...value.items);
      page.parts.push({ from, text });
      more = Boolean(value.next) && value.items.length > 0;
    }
    this.#pages[k] = page;
    return page.items.length;
  }
  // grew(complete): what is there can be drawn.
  async load(grew) {
    let count = await this.#page(0);
    await Promise.all([this.#readWaits(), this.#readEvents()]);
    this.#join();
    if (count === kPage) grew(false);
    for (let k = 1; count === kPage; k += kAtOnce) {
      const counts = await Promise.all(Array.from({ length: kAtOnce }, (_, i) => this.#page(k + i)));
      count = counts.at(-1);
    }
    this.#join();
  }
  // Only pages with something open can have changed, and the last one can have grown; an operator's retry reopens others.
  async refresh(everything) {
    const open = (page) => page.items.length < kPage || page.items.some((one) => !['completed', 'failed', 'cancelled'].includes(one.status));
    const wanted = this.#pages.flatMap((page, k) => (everything || k === this.#pages.length - 1 || open(page) ? [k] : []));
    for (let i = 0; i < wanted.length; i += kAtOnce) await Promise.all(wanted.slice(i, i + kAtOnce).map((k) => this.#page(k)));
    while (this.#pages.at(-1).items.length === kPage) await this.#page(this.#pages.length);
    await Promise.all([this.#readWaits(), this.#readEvents()]);
    this.#join();
  }
  #join() {
    this.#pages = this.#pages.filter((page, k) => k === 0 || page.items.length > 0);
    this.steps = this.#pages.flatMap((page) => page.items);
  }

  // The document of the i-th step with its bytes kept; a page is taken apart when one of its rows is looked at.
  exact(i) {
    const page = this.#pages[Math.floor(i / kPage)];
    const part = page.parts.findLast((one) => one.from <= i % kPage);
    part.nodes ??= member(tree(part.text), 'items').items;
    return part.nodes[(i % kPage) - part.from];
  }

  async #readWaits() {
    const found = await all(`/v1/waits?run=${this.#run}`, kMostWaits);
    this.waits = new Map();
    for (const one of found) this.waits.set(one.step, [...(this.waits.get(one.step) ?? []), one]);
  }
  async #readEvents() {
    for (let read = 0; read < kMostEvents;) {
      const found = await getIfThere(`/v1/runs/${this.#run}/events?limit=200&cursor=${this.#cursor}`);
      const items = found?.value.items ?? [];
      for (const one of items) {
        const at = Date.parse(one.at);
        if (one.kind === 'step.attempt_failed') this.tries.set(one.step, [...(this.tries.get(one.step) ?? []), at]);
        if (one.kind === 'run.recovered') this.restarts.push(at);
      }
      read += items.length;
      if (items.length) this.#cursor = items.at(-1).id;
      if (items.length < 200) return;
    }
  }
}
