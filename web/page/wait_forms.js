// The form of a wait, by kind: its fields, what each button does, and the body that a press sends. `view` is the
// WaitView: it keeps drafts, complains, and sends.
import { add, button, el, say } from './dom.js';
import { isJson, member, plain } from './json.js';
import { SchemaForm } from './schema_form.js';

const key = (letter) => el('kbd', { 'aria-hidden': 'true' }, letter);

export function makeForm(view, wait, request, more) {
  const form = el('form', { novalidate: true, onsubmit: (event) => event.preventDefault() });
  if (wait.kind === 'approval') approval(view, form, wait, more);
  else if (wait.kind === 'reconcile') reconcile(view, form, more);
  else question(view, form, request);
  return form;
}

// The bar at the foot: the effect in a line, what was not seen yet, the complaint, the buttons.
function bar(form, effect, ...buttons) {
  form.append(el('div.bar', {}, el('div.line', {}, el('p.hint.effect', {}, effect), button('', null, '.link.below', { hidden: true })),
    el('p.complaint', { role: 'alert' }), el('div.buttons', {}, buttons)));
}
const press = (what, letter, text, act) => button([text, ' ', letter ? key(letter) : ''], act, `.${what}`, { 'data-key': letter || 'a' });

// A field whose text is kept while the person is elsewhere.
export function field(view, name, label, hint, { area = false } = {}) {
  const id = `field-${name.replace(/[^\w-]/g, '_')}`;
  const input = el(area ? 'textarea' : 'input', { name, id, rows: area ? 3 : null, type: area ? null : 'text', autocomplete: 'off',
    'aria-describedby': `${id}-hint`, oninput: () => view.keep(name, input.value) });
  input.value = view.draft(name) ?? '';
  return el('div.field', { 'data-field': name }, el('label', { for: id }, label), input, el('p.hint', { id: `${id}-hint` }, hint));
}

// What an approval does, by the votes so far.
export function approving(wait, me) {
  const quorum = wait.request?.quorum ?? 1;
  if (quorum < 2) return 'The run goes on at once.';
  const yes = (wait.votes ?? []).filter((one) => one.decision === 'approved' && one.by !== me).length;  // a second vote of one person is still one
  const counted = `Yours is number ${yes + 1} of ${quorum}.`;
  return yes + 1 >= quorum ? `${counted} The run goes on at once.` : `${counted} It stays open for ${quorum - yes - 1} more.`;
}

function approval(view, form, wait, { undo }) {
  const text = () => form.elements.comment.value.trim();
  const decide = (decision, said) => () => {
    if (decision === 'changes_requested' && text() === '') return view.complain('Say in the comment what should change.', form.elements.comment);
    return view.send(JSON.stringify({ decision, ...(text() ? { comment: text() } : {}) }), said);
  };
  const approves = approving(wait, view.me);
  const undone = undo?.length ? `${undo.length} finished step${undo.length === 1 ? ' is' : 's are'} undone: ${undo.map((one) => one.step).join(', ')}`
    : 'what it finished is undone, if it says how';
  form.append(el('h2', {}, 'What happens'),
    el('dl.effects', {}, [['Approve', approves], ['Request changes', 'Ends the vote. The run gets your comment.'],
      ['Deny', `Ends the vote. Unless its program says otherwise the run fails and ${undone}.`]].map(([what, effect]) => (
      el('div', {}, el('dt', {}, what), el('dd', {}, effect))))),
    field(view, 'comment', ['Comment ', el('span.hint', {}, '(needed to request changes)')], '', { area: true }));
  bar(form, approves,
    press('yes', 'a', 'Approve', decide('approved', 'Approved.')),
    press('other', 'c', [el('span.long', {}, 'Request '), el('span.cap', {}, 'changes')], decide('changes_requested', 'Changes requested.')),
    press('no', 'd', 'Deny', decide('denied', 'Denied.')));
}

function choices(view, form, title, rows, choose) {
  const hold = el('fieldset.choices', {}, el('legend', {}, title), rows.map(([value, name, hint], i) => {
    const radio = el('input', { type: 'radio', name: 'choice', id: `choice-${i}`, value,
      onchange: () => { view.keep('choice', value); choose(value, name); } });
    return el('label.choice', { for: `choice-${i}` }, radio, el('span', {}, el('strong', {}, name), hint ? el('span.hint', {}, hint) : ''));
  }));
  form.append(hold);
  const kept = view.draft('choice');
  const again = kept === undefined ? null : [...hold.querySelectorAll('input')].find((one) => one.value === kept);
  return () => { if (again) { again.checked = true; again.dispatchEvent(new Event('change')); } };
}

function reconcile(view, form, { undo }) {
  const undone = undo?.length ? ` ${undo.length} finished step${undo.length === 1 ? ' is' : 's are'} undone: ${undo.map((one) => one.step).join(', ')}.`
    : ' What it finished is undone, if it says how.';
  const rows = [
    ['ran', 'It ran', 'Counts as completed, with the result you give. It is not run again.'],
    ['run', 'It did not run: run it now', 'The step is executed once more, under the same key.'],
    ['abort', 'Abort the run', `The step fails and the run is cancelled.${undone}`],
  ];
  const result = field(view, 'result', 'Result of the step', 'JSON; leave it empty for none.');
  const send = press('yes', '', 'Record answer', () => {
    const answer = chosen(form);
    if (answer === undefined) return view.complain('Choose an answer first.', form.querySelector('input'));
    const given = answer === 'ran' ? form.elements.result.value.trim() : '';
    if (given && !isJson(given)) return view.complain('The result is no JSON. A text needs quotes.', form.elements.result);
    return view.send(`{"answer":"${answer}"${given ? `,"result":${given}` : ''}}`, 'Your answer is recorded.');
  });
  const restore = choices(view, form, 'What is true?', rows, (value, name) => {
    result.hidden = value !== 'ran';
    say(send, `Record: ${name[0].toLowerCase()}${name.slice(1).replace(/:.*/, '')}`);
    send.dataset.idle = 'no';
    view.effect(rows.find(([one]) => one === value)[2]);
  });
  result.hidden = true;
  form.append(result);
  send.dataset.idle = 'yes';
  bar(form, 'Choose an answer first.', send);
  view.afterDraw(restore);
}

function question(view, form, request) {
  const options = member(request, 'options')?.items ?? [];
  const send = (raw, fields) => view.send(`{"answer":${raw}}`, 'Answer sent.', fields);
  if (options.length) {
    const go = press('yes', '', 'Send answer', () => {
      const i = chosen(form);
      return i === undefined ? view.complain('Choose an answer first.', form.querySelector('input')) : send(options[Number(i)].raw);
    });
    go.dataset.idle = 'yes';
    const restore = choices(view, form, 'Your answer', options.map((one, i) => [String(i), one.text ?? one.raw]), (_, name) => {
      go.dataset.idle = 'no';
      view.effect(`Sends: ${name}. The run goes on at once.`);
    });
    bar(form, 'Choose an answer first.', go);
    return view.afterDraw(restore);
  }
  const schema = member(request, 'schema');
  if (schema && plain(schema) !== null) {
    const fields = new SchemaForm(view, schema);
    add(form, fields.node);
    bar(form, 'The run goes on at once with this answer.', press('yes', '', 'Send answer', () => {
      const raw = fields.read();
      if (raw !== null) return send(raw, fields);
      return fields.firstWrong().focus();
    }));
    return undefined;
  }
  const box = field(view, 'answer', 'Your answer', 'A number or JSON is sent as typed, anything else as text.', { area: true });
  const input = box.querySelector('textarea');
  const raw = () => (isJson(input.value.trim()) ? input.value.trim() : JSON.stringify(input.value));
  form.append(box);
  input.addEventListener('input', () => view.effect(`Sends: ${raw()}`));
  bar(form, 'The run goes on at once with your answer.', press('yes', '', 'Send answer', () => (
    input.value.trim() === '' ? view.complain('The answer is empty.', input) : send(raw()))));
  return undefined;
}

// The value of the radio that is on; undefined: none is.
const chosen = (form) => form.querySelector('input[name="choice"]:checked')?.value;
