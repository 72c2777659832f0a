// Workflows: what is installed, its versions, and how its runs fare. An agent that does not list them is asked for its
// newest runs instead.
import { all, get, getIfThere, may } from './agent.js';
import { el, link, say, when } from './dom.js';
import { command, dataBox } from './data.js';
import { member, tree } from './json.js';
import { mark } from './marks.js';
import { stateOf } from './run.js';
import { empty } from './ui.js';

const kNewest = 400;

export class Workflows {
  #place;
  get place() { return this.#place; }
  constructor(place) { this.#place = place; }
  close() {
    this.name = undefined;
    this.#place.replaceChildren();
  }
  async refresh(events) {
    if (events === null || events.some((one) => one.kind.startsWith('workflow.'))) await this.open(this.name ?? '');
  }

  async open(name) {
    this.name = name;
    if (name) return this.#one(name, decodeURIComponent(name));
    const listed = await getIfThere('/v1/workflows');
    const names = listed ? listed.value.items : [];
    const runs = await all('/v1/runs', kNewest);
    if (this.name !== name) return undefined;  // another place was asked for meanwhile
    const rows = new Map(names.map((one) => [one.name, { ...one, counts: one.runs, runs: [] }]));
    for (const run of runs) {
      if (!rows.has(run.workflow)) rows.set(run.workflow, { runs: [] });
      rows.get(run.workflow).runs.push(run);
    }
    say(this.#place, el('div.head', {}, el('h1', {}, 'Workflows'), el('p.note', {}, listed ? 'What can be started here, and what was.' : 'Those of the newest runs. bide workflows lists all.')),
      rows.size ? el('ul.cards.wide', {}, [...rows].sort((a, b) => a[0].localeCompare(b[0])).map(([each, row]) => el('li.card', {}, this.#card(each, row))))
        : empty('No workflow yet', el('p', {}, 'Put an executable into the folder of workflows, then:'), command('bide run NAME')));
    return undefined;
  }
  #card(name, row) {
    const counts = {};  // of all its runs, or where the agent does not count, of the newest
    if (row.counts) Object.assign(counts, Object.fromEntries(Object.entries(row.counts).filter(([status, count]) => status !== 'total' && count > 0)));
    else for (const run of row.runs) counts[run.status] = (counts[run.status] ?? 0) + 1;
    const last = row.runs[0];
    const { version } = row;
    return [el('div.line', {}, el('h2', {}, link(`#/workflows/${encodeURIComponent(name)}`, name)), version ? el('code', {}, String(version).slice(0, 12)) : ''),
      el('p.meta', {}, row.counts ? `${row.counts.total} run${row.counts.total === 1 ? '' : 's'} in all · ` : '', row.installed === false ? 'not installed any more · ' : '', last ? ['last run ', link(`#/run/${last.id}`, String(last.id)), ' ', when(last.created_at, 'ago'), ' '] : 'never run'),
      el('div.chips', {}, Object.entries(counts).map(([status, count]) => {
        const state = stateOf({ status }, null);
        return el('a.pill', { href: `#/runs?workflow=${encodeURIComponent(name)}&status=${status}` }, el(`span.kind.${state[2]}`, {}, mark(state[0])), ` ${state[1]} ${count}`);
      }))];
  }
  async #one(asked, name) {
    const found = await getIfThere(`/v1/workflows/${encodeURIComponent(name)}`);
    const { value } = await get(`/v1/runs?workflow=${encodeURIComponent(name)}&limit=20`);
    if (this.name !== asked) return;
    const node = found ? tree(found.text) : null;
    const manifest = member(member(node, 'versions')?.items?.[0], 'manifest');
    say(this.#place, el('p', {}, link('#/workflows', '‹ Workflows')), el('div.head', {}, el('h1', {}, name)), may('start') ? command(`bide run ${/^[\w.-]+$/.test(name) ? name : JSON.stringify(name)}`) : '',
      manifest && manifest.raw !== 'null' ? [el('h2', {}, 'Manifest'), dataBox(manifest, manifest.raw)] : '', node ? [el('h2', {}, 'What the agent knows of it'), dataBox(node, node.raw)] : '',
      el('h2', {}, 'Its newest runs'), value.items.length ? el('ul.plain', {}, value.items.map((run) => {
        const state = stateOf(run, null);
        return el('li', {}, link(`#/run/${run.id}`, `run ${run.id}`), ' ', el(`span.kind.${state[2]}`, {}, mark(state[0]), state[1]), ' ', el('span.meta', {}, when(run.created_at, 'ago')));
      })) : el('p', {}, 'None.'));
  }
}
