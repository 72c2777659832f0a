// One wait: what is asked, its data, and the buttons. A decision holds for exactly what is shown here (If-Match), is
// sent once, and what became of it takes the place of the buttons.
import { Offline, Refused, call, now, resolve } from './agent.js';
import { add, dataBox, el, mark, when } from './dom.js';
import { ending, expiry, kKinds } from './inbox.js';
import { member, tree } from './json.js';

const kRefused = {
  changed: 'What is asked has changed since it was shown. Nothing of yours was sent on.',
  wait_decided: 'Nothing of yours counts.',
  wait_expired: 'The time was over before your answer came.',
  wait_cancelled: 'The run ended before your answer came.',
  answer_invalid: 'The answer does not fit the question.',
  not_understood: 'The answer was not understood.',
  not_initiator: 'This needs somebody else: whoever started the run may not decide, or only they may.',
  forbidden: 'You may look, but not decide.',
  storage_full: 'The disk of the agent is full. Your decision was not kept.',
};
const kReconcile = [
  ['ran', 'It ran', 'Counts as completed, with the result you give. It is not run again.'],
  ['run', 'It did not run: run it now', 'The step is executed once more, under the same key.'],
  ['abort', 'Abort the run', 'The run is cancelled, and its finished steps are undone.'],
];

export class WaitView {
  #place;
  #drafts = new Map();  // what was typed, by wait and field: kept over a sign-in and a look at another wait
  #wait = null;
  #etag = '';
  #sending = false;
  #over = false;
  online = true;
  me = '';

  constructor(place) { this.#place = place; }
  get id() { return this.#wait?.id ?? 0; }

  async open(id) {
    let found;
    try {
      found = await call('GET', `/v1/waits/${id}`);
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 401) throw error;
      this.#wait = null;
      this.#place.replaceChildren(el('h1', {}, 'There is no such question'), el('p', {}, error.message));
      return;
    }
    const { value: run } = await call('GET', `/v1/runs/${found.value.run}`);
    this.#wait = found.value;
    this.#etag = found.etag;
    this.#over = false;
    this.#sending = false;
    this.#draw(member(tree(found.text), 'request'), run);
    this.#place.querySelector('h1').focus();
  }
  close() { this.#wait = null; this.#place.replaceChildren(); }

  // Something happened: was it decided elsewhere, or has its time come?
  async refresh() {
    if (!this.#wait || this.#over || this.#sending) return;
    const { value } = await call('GET', `/v1/waits/${this.#wait.id}`);
    if (value.id !== this.#wait?.id || this.#sending || value.status === 'pending') return;
    const sent = value.resolved_by === this.me ? 'Nothing was sent from here.' : 'Nothing of yours was sent.';
    this.#end(`${ending(value, this.me)} ${sent}`);
  }
  // The agent's clock says that its time is over: the buttons go, what was applied is asked for.
  tick() {
    if (this.#wait?.resolve_by && !this.#over && Date.parse(this.#wait.resolve_by) <= now()) this.refresh().catch(() => {});
  }
  focus(key) { this.#place.querySelector(`[data-key="${key}"]`)?.focus(); }
  setOnline(online) {
    this.online = online;
    this.#enable();
  }

  #draw(request, run) {
    const wait = this.#wait;
    const [shape, word] = kKinds[wait.kind] ?? kKinds.question;
    const shown = wait.kind === 'reconcile' ? member(request, 'known') : member(request, 'data');
    const digest = wait.etag;
    const content = [
      el('div.line', {}, el('span.kind', {}, mark(shape), word), el('span.meta', {}, `wait ${wait.id}`)),
      el('h1', { tabindex: '-1' }, wait.asks ?? wait.name),
      el('p.meta', {}, `${wait.workflow ?? run.workflow}, run ${wait.run}, started by ${run.created_by} · asked `, when(wait.created_at, 'ago'), ' · ',
        ...(wait.resolve_by ? ['ends ', when(wait.resolve_by, 'in'), `, then: ${expiry(wait)}`] : ['no end'])),
      this.#rules(),
      wait.kind === 'reconcile' ? el('p', {}, 'It may change the world only once, so bide does not guess. Look, then say what is true.') : '',
      el('h2', {}, { approval: 'What you approve', reconcile: 'What is known' }[wait.kind] ?? 'What is asked'),
      dataBox(shown, request.raw),
      el('p.meta', {}, 'Your decision holds for exactly this: sha256 ', el('code', {}, digest)),
    ];
    this.#place.replaceChildren();
    add(this.#place, ...content, wait.status === 'pending' ? this.#form(request) : '');
    if (wait.status !== 'pending') this.#end(ending(wait, this.me));
    this.#enable();
  }

  #rules() {
    const { quorum, policy } = this.#wait.request ?? {};
    const text = [quorum > 1 ? `Needs ${quorum} who say yes.` : '', policy === 'not_initiator' ? 'Not by whoever started the run.' : '',
      policy === 'initiator' ? 'Only by whoever started the run.' : ''].filter(Boolean).join(' ');
    return text ? el('p', {}, text) : '';
  }

  #form(request) {
    const form = el('form', { novalidate: true, onsubmit: (event) => event.preventDefault() });
    if (this.#wait.kind === 'approval') this.#approval(form);
    else if (this.#wait.kind === 'reconcile') this.#reconcile(form);
    else this.#question(form, request);
    return form;
  }

  #field(name, label, hint, tag = 'textarea') {
    const key = `${this.#wait.id} ${name}`;
    const input = el(tag, { name, id: `field-${name}`, rows: tag === 'textarea' ? 3 : null, type: tag === 'input' ? 'text' : null, autocomplete: 'off',
      oninput: () => this.#drafts.set(key, input.value) });
    input.value = this.#drafts.get(key) ?? '';
    return el('label.field', { for: `field-${name}` }, label, ' ', el('span.hint', {}, hint), input);
  }

  #bar(form, effect, ...buttons) {
    form.append(el('div.bar', {}, el('p.hint.effect', {}, effect), el('p.complaint', { role: 'alert' }), el('div.buttons', {}, buttons)));
  }
  #button(what, key, text, press) { return el(`button.${what}`, { type: 'button', 'data-key': key, onclick: press }, text); }

  #approval(form) {
    const text = () => form.elements.comment.value.trim();
    const decide = (decision, said) => () => {
      if (decision === 'changes_requested' && text() === '') return this.#complain('Say in the comment what should change.', form.elements.comment);
      return this.#send(JSON.stringify({ decision, ...(text() ? { comment: text() } : {}) }), said);
    };
    const votes = this.#wait.request?.quorum > 1;
    form.append(
      el('h2', {}, 'What happens'),
      el('dl.effects', {},
        el('dt', {}, 'Approve'), el('dd', {}, votes ? 'Counts as one yes. With enough of them the run goes on at once.' : 'The run goes on at once.'),
        el('dt', {}, 'Request changes'), el('dd', {}, 'Ends the vote. The run gets your comment.'),
        el('dt', {}, 'Deny'), el('dd', {}, 'Ends the vote. Unless its program says otherwise the run fails, and what it finished is undone.')),
      this.#field('comment', 'Comment', '(needed to request changes)'));
    this.#bar(form, votes ? 'Approve: one yes more.' : 'Approve: the run goes on at once.',
      this.#button('yes', 'a', 'Approve', decide('approved', 'You approved it.')),
      this.#button('other', 'c', 'Request changes', decide('changes_requested', 'You asked for changes.')),
      this.#button('no', 'd', 'Deny', decide('denied', 'You denied it.')));
  }

  #choices(form, title, rows, choose) {
    form.append(el('fieldset', {}, el('legend', {}, title), rows.map(([value, name, hint]) => el('label.choice', {},
      el('input', { type: 'radio', name: 'choice', value, onchange: () => choose(value, name) }),
      el('span', {}, el('strong', {}, name), hint ? el('span.hint', {}, hint) : '')))));
  }

  #reconcile(form) {
    const result = this.#field('result', 'Result', '(JSON; leave it empty for none)', 'input');
    const press = this.#button('yes', 'a', 'Record answer', () => {
      const answer = chosen(form);
      if (answer === undefined) return this.#complain('Choose an answer first.', form.querySelector('input'));
      const given = answer === 'ran' ? form.elements.result.value.trim() : '';
      if (given && !isJson(given)) return this.#complain('The result is no JSON. A text needs quotes.', form.elements.result);
      return this.#send(`{"answer":"${answer}"${given ? `,"result":${given}` : ''}}`, 'Your answer is recorded.');
    });
    this.#choices(form, 'What is true?', kReconcile, (value, name) => {
      result.hidden = value !== 'ran';
      press.textContent = `Record: ${name}`;
      this.#effect(kReconcile.find(([one]) => one === value)[2]);
    });
    result.hidden = true;
    form.append(result);
    this.#bar(form, 'Choose an answer first.', press);
  }

  #question(form, request) {
    const options = member(request, 'options')?.items ?? [];
    const send = (raw) => this.#send(`{"answer":${raw}}`, 'You answered it.');
    if (options.length) {
      const press = this.#button('yes', 'a', 'Send answer', () => {
        const i = chosen(form);
        return i === undefined ? this.#complain('Choose an answer first.', form.querySelector('input')) : send(options[Number(i)].raw);
      });
      this.#choices(form, 'Your answer', options.map((one, i) => [String(i), one.text ?? one.raw]), (_, name) => this.#effect(`Sends: ${name}. The run goes on at once.`));
      return this.#bar(form, 'Choose an answer first.', press);
    }
    const label = this.#field('answer', 'Your answer', '(a number or JSON is sent as typed, anything else as text)');
    const raw = () => (isJson(label.control.value.trim()) ? label.control.value.trim() : JSON.stringify(label.control.value));
    form.append(label);
    label.addEventListener('input', () => this.#effect(`Sends: ${raw()}`));
    return this.#bar(form, 'The run goes on at once with your answer.', this.#button('yes', 'a', 'Send answer', () => (
      label.control.value.trim() === '' ? this.#complain('The answer is empty.', label.control) : send(raw()))));
  }

  #effect(text) {
    this.#place.querySelector('.effect').replaceChildren();
    add(this.#place.querySelector('.effect'), text);
  }
  #complain(text, field) {
    const place = this.#place.querySelector('.complaint');
    place.replaceChildren();
    add(place, text);
    field?.focus();
  }
  #enable() {
    for (const button of this.#place.querySelectorAll('.bar button.yes, .bar button.other, .bar button.no')) {
      button.setAttribute('aria-disabled', this.#sending || !this.online);
    }
  }
  // The buttons give way to what became of it.
  #end(text, good = false, again = null) {
    this.#over = true;
    const outcome = el(good ? 'p.outcome.good' : 'p.outcome', { role: 'status', tabindex: '-1' }, text);
    const bar = this.#place.querySelector('.bar') ?? this.#place.appendChild(el('div.bar'));
    const hadFocus = bar.contains(document.activeElement);
    bar.replaceChildren(outcome);
    if (again) bar.append(el('div.buttons', {}, el('button', { type: 'button', onclick: again }, 'Show what is asked')));
    if (hadFocus) outcome.focus();
  }

  async #send(body, said) {
    if (this.#sending || this.#over || !this.online) return;
    this.#sending = true;
    this.#enable();
    this.#complain('');
    this.#effect('Sending…');
    const wait = this.#wait;
    let show;
    try {
      const { status, value } = await resolve(wait.id, this.#etag, body);
      const counted = status === 202 && value.votes !== undefined;
      show = () => this.#end(counted ? `${said} ${value.votes} of ${value.quorum} so far; it stays open for others.` : `${said} The agent has kept it.`, true);
      for (const key of this.#drafts.keys()) if (key.startsWith(`${wait.id} `)) this.#drafts.delete(key);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) this.#place.dispatchEvent(new CustomEvent('signed-out', { bubbles: true }));
      show = error instanceof Refused ? await this.#refused(error, wait) : await this.#unanswered(error, wait);
    }
    if (this.#wait !== wait) return;  // the person looks at another one by now
    this.#sending = false;
    show();
    this.#enable();
  }

  // What the agent did not take, in words; the comment stays.
  async #refused(error, wait) {
    const text = kRefused[error.code] ?? error.message;
    if (error.code === 'changed') return () => this.#end(text, false, () => this.open(wait.id));
    if (error.code.startsWith('wait_')) {
      const found = await call('GET', `/v1/waits/${wait.id}`).catch(() => null);
      return () => this.#end(found ? `${ending(found.value, this.me)} ${text}` : text);
    }
    const details = (error.problem.errors ?? []).map((one) => `${one.pointer ?? ''} ${one.detail ?? ''}`.trim()).join('; ');
    return () => {
      this.#effect('Nothing was kept. You can send it again.');
      const field = this.#place.querySelector('textarea, input:checked, input');
      this.#complain([text, details || (text === error.message ? '' : error.message)].filter(Boolean).join(' '), field);
    };
  }
  // No answer came: it may have counted. The wait says, before the buttons are offered again.
  async #unanswered(error, wait) {
    if (!(error instanceof Offline)) throw error;
    const found = await call('GET', `/v1/waits/${wait.id}`).catch(() => null);
    if (found && found.value.status !== 'pending') return () => this.#end(ending(found.value, this.me));
    return () => {
      this.#effect('The same decision again changes nothing that was kept.');
      this.#complain(found ? 'No answer came, and the agent has kept nothing. Send it again.' : 'The agent does not answer. Whether it was kept is shown when it is back.');
    };
  }
}

// The value of the radio that is on; undefined: none is.
const chosen = (form) => form.querySelector('input[name="choice"]:checked')?.value;

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
