// Several approvals at once: each with its data and digest, one request each, and a line each for what came of it.
import { Offline, Refused, getIfThere, may, me, post } from './agent.js';
import { button, el, link, say, when } from './dom.js';
import { dataBox } from './data.js';
import { member, tree } from './json.js';
import { mark } from './marks.js';
import { notice } from './ui.js';
import { ending, kRefused } from './words.js';

const kMost = 50;

export class Several {
  #place;
  #rows = [];   // {wait, etag, box, line}
  #busy = false;
  #comment = null;
  #key = '';
  #said = null;  // what came of the last press: stays until something is ticked

  get place() { return this.#place; }
  constructor(place) { this.#place = place; }

  async open(ids) {
    if (this.#key === ids && this.#place.querySelector('.several-list')) return;
    this.#key = ids;
    const numbers = [...new Set(ids.split(',').map(Number).filter((one) => one > 0))].slice(0, kMost);
    const found = (await Promise.all(numbers.map((id) => getIfThere(`/v1/waits/${id}`)))).filter((one) => one && one.value.kind === 'approval');
    if (this.#key !== ids) return;  // another place was asked for meanwhile
    this.#rows = found.map((one) => this.#row(one));
    this.#busy = false;
    this.#said = null;
    this.#draw();
  }
  close() {
    this.#key = '';
    this.#place.replaceChildren();
  }
  // Decided by somebody else meanwhile: skipped, and told.
  async refresh() {
    if (this.#busy) return;
    for (const row of this.#rows) {
      if (row.wait.status !== 'pending') continue;
      const now = await getIfThere(`/v1/waits/${row.wait.id}`);
      if (now && now.value.status !== 'pending' && row.wait.status === 'pending' && !this.#busy) this.#over(row, now.value);
    }
    this.#count();
  }

  #row(found) {
    const { value: wait, etag } = found;
    const request = member(tree(found.text), 'request');
    const id = `tick-${wait.id}`;
    const box = el('input', { type: 'checkbox', id, onchange: () => { this.#said = null; this.#count(); } });
    box.checked = wait.status === 'pending';
    const line = el('p.result', { role: 'status' });
    const node = el('li.card', {}, el('label.tick', { for: id }, box, el('strong.asks', {}, wait.asks ?? wait.name)),
      el('p.meta', {}, link(`#/run/${wait.run}`, `run ${wait.run}`), `, ${wait.workflow ?? ''}, asked `, when(wait.created_at, 'ago')),
      dataBox(member(request, 'data'), request.raw, `sha256 …${wait.etag.slice(-4)}`), line);
    const row = { wait, etag, box, line, node };
    if (wait.status !== 'pending') this.#over(row, wait);
    return row;
  }
  #over(row, wait) {
    row.wait = wait;
    row.box.checked = false;
    row.box.disabled = true;
    say(row.line, mark('info'), ` ${ending(wait, me.name)} Nothing of yours was sent.`);
  }
  #chosen() { return this.#rows.filter((row) => row.box.checked); }

  #draw() {
    this.#comment = el('textarea', { id: 'comment-all', rows: 3, name: 'comment' });
    const names = [...new Set(this.#rows.map((row) => row.wait.workflow))];
    say(this.#place, el('h1', { tabindex: '-1' }, 'Decide together'),
      el('p.note', {}, `Read each. Untick what you are not sure of.${names.length === 1 ? ` All are asked by ${names[0]}.` : ''}`),
      this.#rows.length ? el('ul.cards.several-list', {}, this.#rows.map((row) => row.node)) : el('p', {}, 'None of these is an approval that waits.'),
      may('approve') ? [el('div.field', {}, el('label', { for: 'comment-all' }, 'One comment for all ', el('span.hint', {}, '(needed to request changes)')), this.#comment),
        el('div.bar', {}, el('p.hint.effect', {}, ''), el('p.complaint', { role: 'alert' }), el('div.buttons', {},
          button('', () => this.#decide('approved'), '.yes', { 'data-key': 'a' }), button('', () => this.#decide('changes_requested'), '.other', { 'data-key': 'c' }),
          button('', () => this.#decide('denied'), '.no', { 'data-key': 'd' })))]
        : notice('info', 'info', 'You can read these, not decide them', el('p', {}, 'It takes the scope approve.')));
    this.#count();
    this.#place.querySelector('h1').focus();
  }
  #count() {
    const n = this.#chosen().length;
    const bar = this.#place.querySelector('.bar');
    if (!bar) return;
    say(this.#place.querySelector('h1'), n ? `Decide ${n} together` : 'Decide together');
    const words = { a: ['Approve', n], c: ['Changes', ''], d: ['Deny', n] };
    for (const one of bar.querySelectorAll('[data-key]')) {
      const [word, count] = words[one.dataset.key];
      say(one, count ? `${word} ${count}` : word);
      one.setAttribute('aria-disabled', String(n === 0 || this.#busy));
    }
    say(bar.querySelector('.effect'), this.#said ? [this.#said, ' ', link('#/', 'Back to the inbox')] : n ? `${n} decision${n === 1 ? '' : 's'}, each recorded by itself. What somebody else has decided meanwhile is skipped and told.` : 'Tick at least one.');
  }
  key(letter) {
    this.#place.querySelector(`[data-key="${letter}"]`)?.focus();
    return 'acd'.includes(letter);
  }

  async #decide(decision) {
    const rows = this.#chosen();
    if (this.#busy || rows.length === 0) return;
    const comment = this.#comment.value.trim();
    const complaint = this.#place.querySelector('.complaint');
    say(complaint, '');
    if (decision === 'changes_requested' && comment === '') {
      say(complaint, 'Say in the comment what should change.');
      this.#comment.focus();
      return;
    }
    this.#busy = true;
    this.#said = null;
    this.#count();
    const body = JSON.stringify({ decision, ...(comment ? { comment } : {}) });
    let done = 0;
    for (const row of rows) {
      say(row.line, 'Sending…');
      done += await this.#send(row, body) ? 1 : 0;
    }
    this.#busy = false;
    this.#said = `${done} of ${rows.length} recorded.`;
    this.#count();
  }
  async #send(row, body) {
    try {
      const { status, value } = await post(`/v1/waits/${row.wait.id}/resolve`, body, { 'If-Match': row.etag });
      row.wait = { ...row.wait, status: 'resolved' };
      row.box.checked = false;
      row.box.disabled = true;
      say(row.line, mark('done'), status === 202 && value.votes !== undefined ? ` Counted, ${value.votes} of ${value.quorum}.` : ' Recorded. The run goes on.');
      row.line.className = 'result ok';
      return true;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) this.#place.dispatchEvent(new CustomEvent('signed-out', { bubbles: true }));
      if (!(error instanceof Refused) && !(error instanceof Offline)) throw error;
      row.line.className = 'result bad';
      const known = error instanceof Refused && error.code.startsWith('wait_') ? await getIfThere(`/v1/waits/${row.wait.id}`).catch(() => null) : null;
      if (known) this.#over(row, known.value);
      else say(row.line, mark('failed'), ` ${error instanceof Offline ? 'No answer came. Look at it before you send again.' : kRefused[error.code] ?? error.message}`);
      return false;
    }
  }
}
