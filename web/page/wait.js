// One wait: what is asked, its data, and the buttons. A decision holds for exactly what is shown here (If-Match), is
// sent once, and what became of it takes the place of the buttons.
import { Offline, Refused, get, getIfThere, may, me, now, post } from './agent.js';
import { button, clock, el, link, say, when } from './dom.js';
import { command, dataBox, exactText } from './data.js';
import { evidence } from './evidence.js';
import { differences, member, tree } from './json.js';
import { mark } from './marks.js';
import { notice, speak, toast } from './ui.js';
import { approving, makeForm } from './wait_forms.js';
import { did, ending, expiry, kKinds, kRefused, whoDid } from './words.js';

const kInertMs = 700;  // a press that was meant for the button that was here before must not hit another one
const kWarnMs = [300_000, 60_000];

export class WaitView {
  #place;
  #drafts = new Map();  // what was typed, by wait and field: kept over a sign-in and a look at another wait
  #wait = null;
  #etag = '';
  #request = null;      // the tree of what is asked, as shown
  #run = null;
  #fields = null;       // of a schema, if the form is one
  #sending = false;
  #over = false;
  #late = [];
  #watcher = null;
  #online = true;
  #turn = 0;            // of the question that was asked for last: an answer about another one comes too late

  constructor(place) { this.#place = place; }
  get id() { return this.#wait?.id ?? 0; }
  get me() { return me.name; }

  async open(id) {
    this.close(false);
    const turn = ++this.#turn;
    this.#place.inert = true;  // what stands here is another question's: nothing typed or pressed now is meant for it
    const waiting = setTimeout(() => { if (turn === this.#turn) say(this.#place, el('p.loading', {}, 'Loading…')); }, 300);
    let found;
    let run;
    try {
      found = await getIfThere(`/v1/waits/${id}`);
      run = found && (await getIfThere(`/v1/runs/${found.value.run}`))?.value;
    } finally {
      clearTimeout(waiting);
      if (turn === this.#turn) this.#place.inert = false;
    }
    if (turn !== this.#turn) return;
    if (!found) {
      say(this.#place, el('h1', { tabindex: '-1' }, 'There is no such question'), el('p', {}, `Nothing has the number ${id}; its run may have been deleted.`), link('#/', 'To the inbox'));
      return;
    }
    this.#run = run;
    this.#show(found);
    this.#place.querySelector('h1').focus();
  }
  #show(found) {
    this.#wait = found.value;
    this.#etag = found.etag;
    this.#request = member(tree(found.text), 'request');
    this.#over = this.#sending = false;
    this.#fields = null;
    this.#late = [];
    this.#draw();
  }
  close(clear = true) {
    this.#wait = null;
    this.#turn += 1;
    this.#place.inert = false;
    this.#watcher?.disconnect();
    if (clear) this.#place.replaceChildren();
  }

  // Something happened: was it decided elsewhere, has somebody else voted, or has its time come?
  async refresh() {
    if (!this.#wait || this.#sending || (this.#over && this.#wait.status !== 'pending')) return;
    const found = await getIfThere(`/v1/waits/${this.#wait.id}`);
    if (!found || found.value.id !== this.#wait?.id || this.#sending) return;
    const { value } = found;
    if (value.status === 'pending') {
      if (JSON.stringify(value.votes) !== JSON.stringify(this.#wait.votes)) {
        this.#wait.votes = value.votes;
        say(this.#place.querySelector('.quorum'), this.#quorum());
        for (const one of this.#place.querySelectorAll('.effects div:first-child dd, .bar .effect')) say(one, approving(this.#wait, me.name));
      }
      return;
    }
    if (!this.#over) this.#elsewhere(value);
  }
  #elsewhere(value) {
    this.#wait = value;
    const mine = value.resolved_by === me.name;
    if (value.status !== 'resolved') return this.#timeOver(value);
    const said = value.resolution?.comment;
    this.#end(notice('info', 'info', '', el('p', {}, el('b', {}, `${whoDid(value, me.name)} ${did(value)} `, when(value.resolved_at, 'ago'), '.'), ` ${mine ? 'Nothing was sent from here.' : 'Nothing of yours was sent.'}`),
      said ? el('p.quote', {}, `“${said}”`) : ''));
    const [shape, word, tone] = value.resolution?.decision === 'denied' ? ['failed', 'Denied', 'bad'] : ['done', value.resolution?.decision === 'approved' ? 'Approved' : 'Answered', 'ok'];
    say(this.#place.querySelector('.kind'), mark(shape), word);
    this.#place.querySelector('.kind').className = `kind ${tone}`;
    if (value.kind === 'approval') say(this.#place.querySelector('.subject'), 'What was asked');
    return undefined;
  }
  #timeOver(value) {
    const text = value.status === 'expired' ? `Nobody decided. ${value.request?.default === undefined || value.request?.default === null ? 'It expired' : `The default, ${expiry(value)}, was applied`} and the run goes on with that.`
      : 'Its run ended, or another wait of its group was first.';
    this.#end(notice('need', 'expired', value.status === 'expired' ? `Time is up since ${clock(Date.parse(value.resolve_by ?? value.resolved_at))} UTC` : 'It is closed', el('p', {}, text)));
  }
  // The agent's clock says that its time is over: the buttons go at once, what was applied is asked for.
  tick() {
    const wait = this.#wait;
    if (!wait?.resolve_by || this.#over || wait.status !== 'pending') return;
    const left = Date.parse(wait.resolve_by) - now();
    for (const ms of kWarnMs) {
      if (left <= ms && left > ms - 5000 && !this.#late.includes(ms)) {
        this.#late.push(ms);
        speak(`${ms / 60_000} minutes left to decide`.replace('1 minutes', '1 minute'));
      }
    }
    if (left > 0 || this.#sending) return;
    this.#end(notice('need', 'expired', `Time is up since ${clock(Date.parse(wait.resolve_by))} UTC`, el('p', {}, 'Asking the agent what was applied…')));
    this.#settled(wait.id).catch(() => {});
  }
  async #settled(id) {
    const found = await getIfThere(`/v1/waits/${id}`);
    if (!found || this.#wait?.id !== id) return;
    if (found.value.status === 'pending') setTimeout(() => this.#settled(id).catch(() => {}), 1000);
    else this.#timeOver(this.#wait = found.value);
  }

  key(letter) {
    if (letter === 'o') location.hash = `#/run/${this.#wait.run}`;
    else if (!'acd'.includes(letter)) return false;
    else this.#place.querySelector(`[data-key="${letter}"]`)?.focus();
    return true;
  }
  setOnline(online) {
    this.#online = online;
    this.#enable();
  }

  // -- For the forms.
  draft(name) { return this.#drafts.get(`${this.#wait.id} ${name}`); }
  keep(name, value) { this.#drafts.set(`${this.#wait.id} ${name}`, value); }
  effect(text) { say(this.#place.querySelector('.effect'), text); }
  complain(text, field) {
    say(this.#place.querySelector('.complaint'), text);
    field?.focus();
  }
  afterDraw(what) { queueMicrotask(what); }

  #draw() {
    const wait = this.#wait;
    const [shape, word] = kKinds[wait.kind] ?? kKinds.question;
    const doubt = wait.kind === 'reconcile';
    const shown = doubt ? member(this.#request, 'request') : member(this.#request, 'data');
    const more = { undo: this.#run?.to_undo };
    say(this.#place,
      el('div.line', {}, el('span.kind.need', {}, mark(shape), word), el('span.meta', {}, `wait ${wait.id}`)),
      el('h1', { tabindex: '-1' }, wait.asks ?? wait.name),
      doubt ? el('p', {}, 'It may change the world only once, so bide does not guess. Look, then say what is true.') : '',
      el('p.meta', {}, link(`#/run/${wait.run}`, `${wait.run} ${wait.workflow ?? ''}`), this.#run ? `, started by ${this.#run.created_by}` : '', ' · asked ', when(wait.created_at, 'ago', true), ' · ',
        wait.resolve_by ? ['ends ', when(wait.resolve_by, 'in', true), `, then ${expiry(wait)}`] : 'no end'),
      el('div.quorum', {}, this.#quorum()), this.#rules(),
      doubt ? [el('h2', {}, 'What is known'), evidence(wait)] : '',
      shown || wait.kind === 'approval' ? [el('h2.subject', {}, { approval: wait.status === 'pending' ? 'What you approve' : 'What was asked', reconcile: 'What it was to do' }[wait.kind] ?? 'What it is about'),
        dataBox(shown, this.#request.raw)] : '',
      this.#digest(wait.etag), this.#form(wait, more));
    if (wait.status !== 'pending') this.#elsewhereAtOpen(wait);
    this.#enable();
    this.#watchUnseen();
  }
  #elsewhereAtOpen(wait) {
    this.#end(notice('info', 'info', '', el('p', {}, ending(wait, me.name)), wait.resolution?.comment ? el('p.quote', {}, `“${wait.resolution.comment}”`) : '',
      wait.resolution && wait.kind !== 'approval' ? exactText(JSON.stringify(wait.resolution.answer)) : ''), false);
  }
  #quorum() {
    const { quorum, policy } = this.#wait.request ?? {};
    if (!(quorum > 1)) return '';
    const yes = (this.#wait.votes ?? []).filter((one) => one.decision === 'approved');
    const left = quorum - yes.length;
    return [el('b', {}, `${yes.length} of ${quorum}`), yes.map((one) => el('span.chip', {}, mark('person'), `${one.by} `, one.at ? clock(Date.parse(one.at), false) : '')),
      el('span.chip.open', {}, this.#wait.status === 'pending' ? `${left} more${policy === 'not_initiator' && this.#run ? `, not ${this.#run.created_by}` : ''}` : 'vote is over')];
  }
  #rules() {
    const { policy } = this.#wait.request ?? {};
    const text = { not_initiator: 'Not by whoever started the run.', initiator: 'Only by whoever started the run.' }[policy];
    return text ? el('p.meta', {}, text) : '';
  }
  #digest(digest) {
    const whole = el('code.digest', {}, `${digest.slice(0, 8)}…${digest.slice(-4)}`);
    return el('p.meta', {}, 'Your decision holds for exactly this text: sha256 ', whole, ' ',
      button('whole digest', (event) => { say(whole, digest); event.currentTarget.remove(); }, '.link'));
  }

  // The form, or the sentence why there is none.
  #form(wait, more) {
    if (wait.status !== 'pending') return '';
    if (!may('approve')) {
      return notice('info', 'info', 'You can read this, not decide it', el('p', {}, `“${me.name}” has the scopes ${me.scopes || 'none'}. It takes approve.`),
        command(`bide token add ${me.name.replace(/[^\w.-]/g, '-')} --scope read,approve`));
    }
    const { policy } = wait.request ?? {};
    const mine = this.#run?.created_by === me.name;
    if (wait.kind === 'approval' && policy === 'not_initiator' && mine) {
      return notice('info', 'info', 'Somebody else must decide', el('p', {}, `You started run ${wait.run}, and this approval may not come from its initiator.`));
    }
    if (wait.kind === 'approval' && policy === 'initiator' && this.#run && !mine) {
      return notice('info', 'info', `Only ${this.#run.created_by} may decide`, el('p', {}, `This approval is for whoever started run ${wait.run}.`));
    }
    return makeForm(this, wait, this.#request, more);
  }

  // How many rows of the data were not on the screen yet.
  #watchUnseen() {
    this.#watcher?.disconnect();
    const below = this.#place.querySelector('.below');
    const rows = new Set(this.#place.querySelectorAll('.data > [role="tabpanel"] > .rows > div'));
    if (!below || rows.size === 0) return;
    const bar = this.#place.querySelector('.bar');
    this.#watcher = new IntersectionObserver((seen) => {
      for (const one of seen) if (one.isIntersecting || !one.target.isConnected) rows.delete(one.target);
      below.hidden = rows.size === 0;
      say(below, `${rows.size} below ↓`);
    }, { rootMargin: `0px 0px -${bar.offsetHeight}px 0px`, threshold: 0.5 });
    for (const row of rows) this.#watcher.observe(row);
    below.onclick = () => [...rows][0]?.scrollIntoView({ block: 'center' });
  }

  #enable() {
    for (const one of this.#place.querySelectorAll('.bar [data-key]')) one.setAttribute('aria-disabled', String(this.#sending || !this.#online));
  }
  // The buttons give way to what became of it; for a moment nothing can be pressed there.
  #end(content, inert = true, ...buttons) {
    this.#over = true;
    const outcome = el('div.outcome', { role: 'status', tabindex: '-1' }, content);
    const bar = this.#place.querySelector('.bar') ?? this.#place.appendChild(el('div.bar'));
    const hadFocus = bar.contains(document.activeElement);
    const row = el('div.buttons', {}, buttons.length ? buttons : el('a.button', { href: '#/' }, 'Back to the inbox'));
    bar.replaceChildren(outcome, row);
    for (const old of this.#place.querySelectorAll('.effects')) { old.previousElementSibling?.remove(); old.remove(); }
    const comment = this.#place.querySelector('[data-field="comment"] label');
    if (comment && inert) say(comment, 'Comment ', el('span.hint', {}, '(yours, not sent)'));
    if (hadFocus) outcome.focus();
    if (!inert) return;
    bar.inert = true;
    setTimeout(() => { bar.inert = false; }, kInertMs);
  }

  async send(body, said, fields = null) {
    if (this.#sending || this.#over || !this.#online) return;
    this.#sending = true;
    this.#fields = fields;
    const wait = this.#wait;
    const pressed = this.#place.querySelector('.bar .buttons :focus') ?? this.#place.querySelector('.bar [data-key]');
    const words = [...pressed.childNodes];
    this.#enable();
    this.complain('');
    say(pressed, 'Sending…');
    let show;
    try {
      const { status, value } = await post(`/v1/waits/${wait.id}/resolve`, body, { 'If-Match': this.#etag });
      for (const key of this.#drafts.keys()) if (key.startsWith(`${wait.id} `)) this.#drafts.delete(key);
      show = () => this.#done(wait, status === 202 && value.votes !== undefined ? value : null, said);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) this.#place.dispatchEvent(new CustomEvent('signed-out', { bubbles: true }));
      show = error instanceof Refused ? await this.#refused(error, wait) : await this.#unanswered(error, wait);
    }
    this.#sending = false;
    if (this.#wait !== wait) return;  // the person looks at another one by now
    pressed.replaceChildren(...words);
    show();
    this.#enable();
  }
  #done(wait, counted, said) {
    const text = counted ? `${said.replace('.', '')}, ${counted.votes} of ${counted.quorum}. It stays open for others.` : `${said} Run ${wait.run} goes on.`;
    const open = ['Open run', () => { location.hash = `#/run/${wait.run}`; }];
    const change = ['Change', () => { if (this.#wait?.id === wait.id) this.open(wait.id); else location.hash = `#/wait/${wait.id}`; }];
    toast(text, counted ? change : open);
    this.#end(notice('ok', 'done', text), false, el('a.button', { href: '#/' }, 'Back to the inbox'), button(...(counted ? change : open)));
    const comment = this.#place.querySelector('[data-field="comment"]');
    comment?.remove();
  }

  // What the agent did not take, in words; the comment stays.
  async #refused(error, wait) {
    const text = kRefused[error.code] ?? error.message;
    if (error.code === 'changed') return this.#changed(wait);
    if (error.code.startsWith('wait_')) {
      const found = await getIfThere(`/v1/waits/${wait.id}`).catch(() => null);
      if (found) this.#wait = Object.assign(wait, found.value);
      const title = found ? `${ending(found.value, me.name)}` : '';
      return () => this.#end(notice('need', 'warning', title, el('p', {}, text)), true, el('a.button', { href: `#/run/${wait.run}` }, 'Open the run'), el('a.button', { href: '#/' }, 'Back to the inbox'));
    }
    const errors = error.problem.errors ?? [];
    return () => {
      this.effect('Nothing was kept. You can send it again.');
      if (error.code === 'answer_invalid' && this.#fields) return this.#fields.refused(errors);
      const details = errors.map((one) => `${one.pointer ?? ''} ${one.detail ?? ''}`.trim()).join('; ');
      return this.complain([text, details || (text === error.message ? '' : error.message)].filter(Boolean).join(' '),
        this.#place.querySelector('form textarea, form input:checked, form input'));
    };
  }
  // 412: what it was, what it is, and the new text before anybody decides again.
  async #changed(wait) {
    const found = await get(`/v1/waits/${wait.id}`);
    const rows = differences(this.#request, member(tree(found.text), 'request')).slice(0, 8);
    return () => this.#end(notice('need', 'warning', 'What is asked has changed', el('p', {}, kRefused.changed),
      rows.map(([path, was, is]) => el('p', {}, el('code', {}, path), ' was ', el('code', {}, was ?? 'not there'), ' and is ', el('code', {}, is ?? 'not there'), '.'))), true,
    button('Show the new text', () => { this.#show(found); this.#place.querySelector('h1').focus(); }));
  }
  // No answer came: it may have counted. The wait says, before the buttons are offered again.
  async #unanswered(error, wait) {
    if (!(error instanceof Offline)) throw error;
    const found = await getIfThere(`/v1/waits/${wait.id}`).catch(() => null);
    if (found && found.value.status !== 'pending') return () => { Object.assign(wait, found.value); this.#elsewhereAtOpen(wait); };
    return () => {
      this.effect('The same decision again changes nothing that was kept.');
      this.complain(found ? 'No answer came, and the agent has kept nothing. Send it again.' : 'The agent does not answer. Whether it was kept is shown when it is back.');
      if (!found) window.dispatchEvent(new Event('no-answer'));
    };
  }
}
