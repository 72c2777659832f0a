// A form from a question's JSON Schema. What it does not understand (an unknown keyword, nesting over two levels)
// becomes a field for JSON; the whole answer may be written as JSON too. The agent judges: what it refuses is shown at
// its field. Numbers are sent exactly as they were typed.
import { button, el, say } from './dom.js';
import { mark } from './marks.js';
import { isJson, member, plain, tree } from './json.js';

const kKnown = new Set(['type', 'title', 'description', 'enum', 'const', 'default', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
  'multipleOf', 'minLength', 'maxLength', 'pattern', 'format', 'properties', 'required', 'additionalProperties', 'items', 'uniqueItems', 'minItems',
  'maxItems', 'examples', '$schema', '$id', '$comment']);
const kMostRadios = 5;
const kNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const kDeepest = 2;
const kWithin = /^Failed to validate against schema/;  // says only that a part does not fit, which has an error of its own

const known = (schema) => schema?.kind === 'object' && schema.members.every((one) => kKnown.has(one.name));
const text = (schema, name) => member(schema, name)?.text;
const words = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll('_', ' ');

// What kind of field a schema gets.
function kindOf(schema, depth) {
  if (!known(schema)) return 'json';
  const type = text(schema, 'type');
  if (member(schema, 'enum')) return member(schema, 'enum').items.length <= kMostRadios ? 'radio' : 'select';
  if (type === 'object' && member(schema, 'properties')) return depth < kDeepest ? 'object' : 'json';
  if (type === 'array' && known(member(schema, 'items')) && member(member(schema, 'items'), 'enum') && plain(member(schema, 'uniqueItems')) === true) return 'ticks';
  return { boolean: 'tick', string: 'text', number: 'number', integer: 'number' }[type] ?? 'json';
}

// "A number from 1 to 120.", in the schema's own digits.
function hint(schema, kind) {
  const raw = (name) => member(schema, name)?.raw;
  const own = text(schema, 'description');
  if (own) return own;
  if (kind === 'number') {
    const what = text(schema, 'type') === 'integer' ? 'A whole number' : 'A number';
    const [low, high] = [raw('minimum'), raw('maximum')];
    const range = low && high ? ` from ${low} to ${high}` : low ? ` from ${low} on` : high ? ` up to ${high}` : '';
    return `${what}${range}. Sent exactly as you type it.`;
  }
  if (kind === 'text') {
    if (raw('pattern')) return `Must match ${text(schema, 'pattern')}`;
    if (raw('maxLength')) return `At most ${raw('maxLength')} characters.`;
    return text(schema, 'format') ? `As ${text(schema, 'format')}.` : '';
  }
  return kind === 'json' ? 'JSON, sent exactly as you type it.' : '';
}

let made = 0;

export class SchemaForm {
  #view;
  #schema;
  #fields = [];     // {pointer, path, kind, schema, required, node, inputs, read()}
  #asJson = false;
  #summary = el('div', { role: 'alert' });
  #body = el('div');
  #raw = null;
  node = el('div.schema');

  constructor(view, schema) {
    this.#view = view;
    this.#schema = schema;
    this.#asJson = view.draft('as-json') === 'yes';
    this.node.append(this.#summary, this.#body);
    this.#build();
  }

  #build(prefill) {
    this.#fields = [];
    this.#summary.replaceChildren();
    this.#body.replaceChildren();
    if (this.#asJson) {
      this.#raw = this.#jsonField('answer-json', 'The answer as JSON', prefill);
      this.#body.append(this.#raw.node);
    } else {
      this.#raw = null;
      const root = kindOf(this.#schema, 0);
      if (root === 'object') this.#object(this.#schema, '', this.#body, 0);
      else this.#one(this.#schema, '', 'Your answer', true, this.#body, 0);
      if (root === 'json') return;
    }
    this.#body.append(button(this.#asJson ? 'Back to the form' : 'Write the answer as JSON instead', () => {
      const now = this.#asJson ? undefined : this.read(true);
      this.#asJson = !this.#asJson;
      this.#view.keep('as-json', this.#asJson ? 'yes' : 'no');
      this.#build(now);
      this.#body.querySelector('input, textarea, select')?.focus();
    }, '.link'));
  }

  #object(schema, pointer, place, depth) {
    const required = new Set(plain(member(schema, 'required')) ?? []);
    for (const { name, node } of member(schema, 'properties').members) {
      this.#one(node, `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, text(node, 'title') ?? words(name), required.has(name), place, depth, name);
    }
  }

  // One field. A field is {pointer, name, read(): raw | undefined (left out) | null (wrong, told)}.
  #one(schema, pointer, label, required, place, depth, name) {
    const kind = kindOf(schema, depth);
    const one = { pointer, label, name, required, kind, schema, id: `f${made += 1}`, depth, wrong: el('p.wrong', { hidden: true }) };
    one.wrong.id = `${one.id}-wrong`;
    const told = required ? '' : el('span.hint', {}, ' (may be left out)');
    const help = el('p.hint', { id: `${one.id}-hint` }, hint(schema, kind));
    const described = { 'aria-describedby': `${one.id}-hint ${one.id}-wrong` };
    if (kind === 'object') {
      const inner = el('fieldset.nested', {}, el('legend', {}, label));
      place.append(inner);
      const from = this.#fields.length;
      this.#object(schema, pointer, inner, depth + 1);
      one.inner = this.#fields.splice(from);
      one.node = inner;
    } else if (kind === 'radio' || kind === 'ticks') {
      this.#list(one, schema, label, told, help, described);
      place.append(one.node);
    } else if (kind === 'tick') {
      const box = el('input', { type: 'checkbox', id: one.id, ...described, onchange: () => this.#keep(one, String(box.checked)) });
      box.checked = (this.#view.draft(`schema${pointer}`) ?? member(schema, 'default')?.raw) === 'true';
      one.read = () => String(box.checked);
      one.node = el('div.field', {}, el('label.tick', { for: one.id }, box, el('span', {}, label)), help, one.wrong);
      place.append(one.node);
    } else {
      this.#typed(one, schema, kind, label, told, help, described);
      place.append(one.node);
    }
    this.#fields.push(one);
  }

  #list(one, schema, label, told, help, described) {
    const ticks = one.kind === 'ticks';
    const values = member(ticks ? member(schema, 'items') : schema, 'enum').items;
    const draft = this.#view.draft(`schema${one.pointer}`);
    const preset = member(schema, 'default');
    const on = draft !== undefined ? draft.split(' ') : values.flatMap((value, i) => (
      (ticks ? preset?.items?.some((given) => given.raw === value.raw) : preset?.raw === value.raw) ? [String(i)] : []));
    const boxes = values.map((value, i) => {
      const box = el('input', { type: ticks ? 'checkbox' : 'radio', name: one.id, id: `${one.id}-${i}`, value: i,
        onchange: () => this.#keep(one, boxes.filter((each) => each.checked).map((each) => each.value).join(' ')) });
      box.checked = on.includes(String(i));
      return box;
    });
    one.read = () => {
      const chosen = boxes.filter((box) => box.checked).map((box) => values[Number(box.value)].raw);
      if (ticks) return `[${chosen.join(',')}]`;
      if (chosen.length) return chosen[0];
      return one.required ? this.#wrong(one, 'choose one') : undefined;
    };
    one.node = el('fieldset.field', described, el('legend', {}, label, told), boxes.map((box, i) => (
      el('label.tick', { for: box.id }, box, el('span', {}, values[i].text ?? values[i].raw)))), help, one.wrong);
  }

  #typed(one, schema, kind, label, told, help, described) {
    const draft = this.#view.draft(`schema${one.pointer}`);
    const preset = member(schema, 'default');
    let input;
    if (kind === 'select') {
      const values = member(schema, 'enum').items;
      input = el('select', { id: one.id, ...described }, el('option', { value: '' }, 'Choose…'), values.map((value, i) => el('option', { value: i }, value.text ?? value.raw)));
      const at = values.findIndex((value) => value.raw === preset?.raw);
      input.value = draft ?? (at >= 0 ? String(at) : '');
      one.read = () => (input.value !== '' ? values[Number(input.value)].raw : one.required ? this.#wrong(one, 'choose one') : undefined);
    } else {
      const area = kind === 'json';
      input = el(area ? 'textarea' : 'input', { id: one.id, ...(area ? { rows: 4, spellcheck: 'false' } : { type: 'text' }), autocomplete: 'off',
        inputmode: kind === 'number' ? 'decimal' : null, 'aria-required': one.required ? 'true' : null, ...described });
      input.value = draft ?? (preset ? (kind === 'text' ? preset.text ?? preset.raw : preset.raw) : '');
      one.read = () => this.#typedValue(one, kind, input.value);
    }
    for (const event of ['input', 'change']) input.addEventListener(event, () => this.#keep(one, input.value));
    one.node = el('div.field', {}, el('label', { for: one.id }, label, told), input, help, one.wrong);
  }
  #typedValue(one, kind, typed) {
    if (kind === 'text' && typed !== '') return JSON.stringify(typed);
    const value = typed.trim();
    if (value === '') return one.required ? this.#wrong(one, 'is needed') : undefined;
    if (kind === 'number') return kNumber.test(value) ? value : this.#wrong(one, 'is no number as JSON writes it, like 12.50');
    return isJson(value) ? value : this.#wrong(one, 'is no JSON; a text needs quotes');
  }
  #jsonField(pointer, label, prefill) {
    const one = { pointer, label, required: true, kind: 'json', id: `f${made += 1}`, wrong: el('p.wrong', { hidden: true }) };
    one.wrong.id = `${one.id}-wrong`;
    this.#typed(one, tree('{}'), 'json', label, '', el('p.hint', { id: `${one.id}-hint` }, 'Sent exactly as you type it.'),
      { 'aria-describedby': `${one.id}-hint ${one.id}-wrong` });
    if (prefill) one.node.querySelector('textarea').value = prefill;
    this.#fields.push(one);
    return one;
  }

  #keep(one, value) {
    this.#view.keep(`schema${one.pointer}`, value);
    this.#mend(one);
  }
  #mend(one) {
    one.wrong.hidden = true;
    one.node.classList.remove('bad');
    one.node.querySelector('input, textarea, select')?.removeAttribute('aria-invalid');
  }
  #wrong(one, why) {
    say(one.wrong, mark('failed'), ' ', el('span', {}, `${one.pointer || 'The answer'}: ${why}`));
    one.wrong.hidden = false;
    one.node.classList.add('bad');
    one.node.querySelector('input, textarea, select')?.setAttribute('aria-invalid', 'true');
    return null;
  }
  #each(fields = this.#fields) { return fields.flatMap((one) => (one.inner ? [one, ...this.#each(one.inner)] : [one])); }

  // The answer as JSON text; null: something is wrong, and told. `quiet`: wrong fields are left out.
  read(quiet = false) {
    for (const one of this.#each()) this.#mend(one);
    this.#summary.replaceChildren();
    if (this.#raw) return this.#raw.read();
    let bad = 0;
    const build = (fields) => {
      const parts = [];
      for (const one of fields) {
        const raw = one.inner ? build(one.inner) : one.read();
        if (raw === null) bad += 1;
        else if (raw !== undefined && !(one.inner && raw === '{}' && !one.required)) parts.push(`${JSON.stringify(one.name)}:${raw}`);
      }
      return `{${parts.join(',')}}`;
    };
    const root = kindOf(this.#schema, 0);
    const raw = root === 'object' ? build(this.#fields) : this.#fields[0].read();
    if (quiet) {
      for (const one of this.#each()) this.#mend(one);
      return raw ?? undefined;
    }
    if (bad || raw === null) {
      this.#summarise(this.#each().filter((one) => !one.wrong.hidden).map((one) => [one, '']), []);
      return null;
    }
    return raw;
  }
  firstWrong() {
    const one = this.#each().find((each) => !each.wrong.hidden);
    return one?.node.querySelector('input, textarea, select') ?? this.#summary;
  }

  // errors[] of a 422: each at its field; the focus goes to the first.
  refused(errors) {
    const at = (pointer) => (this.#raw ? undefined : this.#each().find((one) => one.pointer === pointer) ?? this.#each().find((one) => pointer.startsWith(`${one.pointer}/`)));
    const rest = [];
    const told = [];
    for (const { pointer = '', detail: words = 'does not fit' } of errors) {
      if (kWithin.test(words) && errors.length > 1) continue;
      const one = pointer ? at(pointer) : undefined;
      const pattern = one && /'pattern'/.test(words) ? text(one.schema, 'pattern') : undefined;
      const detail = pattern ? `must match ${pattern}` : words.replace(/\.$/, '');
      if (one) {
        this.#wrong(one, detail);
        told.push([one, detail]);
      } else {
        rest.push(`${pointer} ${detail}`.trim());
      }
    }
    this.#summarise(told, rest);
    (told.length ? this.firstWrong() : this.#raw?.node.querySelector('textarea') ?? this.#body.querySelector('input, textarea, select'))?.focus();
  }
  #summarise(told, rest) {
    const count = told.length + rest.length;
    this.#summary.replaceChildren(el('div.notice.bad', {}, mark('failed'), el('div', {},
      el('p.strong', {}, `Not sent: ${count === 1 ? '1 field does' : `${count} fields do`} not fit.`),
      told.map(([one, why]) => el('p', {}, button(one.label, () => one.node.querySelector('input, textarea, select').focus(), '.link'), ` ${why || 'has to be mended'}`)),
      rest.map((why) => el('p', {}, why)), el('p', {}, 'Nothing else was lost.'))));
  }
}
