// JSON as it stands: numbers, the order of keys and the bytes of each value are kept, which JSON.parse does not.

const kBlank = /[ \t\n\r]*/y;
const kString = /"(?:[^"\\]|\\.)*"/y;
const kWord = /[^\s,\]}]+/y;

// A tree of {kind: object|array|string|number|word, raw, text?, members?, items?}. `text` is well-formed JSON: it comes
// from the agent, or from a field that was checked.
export function tree(text) {
  let at = 0;
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) throw new SyntaxError(`no JSON at ${at}`);
    at += found[0].length;
    return found[0];
  };
  const many = (end, one) => {
    at += 1;
    take(kBlank);
    const all = [];
    while (text[at] !== end) {
      all.push(one());
      take(kBlank);
      if (text[at] === ',') at += 1;
      take(kBlank);
      if (at >= text.length) throw new SyntaxError('the JSON ends too early');
    }
    at += 1;
    return all;
  };
  const value = () => {
    take(kBlank);
    const begin = at;
    const node = { kind: 'word' };
    if (text[at] === '{') {
      node.kind = 'object';
      node.members = many('}', () => {
        const name = JSON.parse(take(kString));
        take(kBlank);
        at += 1;  // the colon
        return { name, node: value() };
      });
    } else if (text[at] === '[') {
      node.kind = 'array';
      node.items = many(']', value);
    } else if (text[at] === '"') {
      node.kind = 'string';
      node.text = JSON.parse(take(kString));
    } else if (/[-0-9]/.test(take(kWord)[0])) {
      node.kind = 'number';
    }
    node.raw = text.slice(begin, at);
    return node;
  };
  return value();
}

// The member of an object's node; undefined: not there, or no object.
export function member(node, name) {
  return node?.members?.find((one) => one.name === name)?.node;
}
// A node as a plain value; for what the page itself reads (a schema), never for what it shows or sends.
export const plain = (node) => (node === undefined ? undefined : JSON.parse(node.raw));

const kToken = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?[0-9][0-9.eE+-]*)|(true|false|null)|([^"\-0-9tfn]+|.)/gs;
// [[kind, text], …] with kind key | string | number | word | plain; together they are the text. null: more than `most`.
export function tokens(text, most) {
  const all = [];
  for (const [whole, string, colon, number, word] of text.matchAll(kToken)) {
    if (all.length >= most) return null;
    if (string !== undefined && colon !== undefined) all.push(['key', string], ['plain', colon]);
    else all.push([string !== undefined ? 'string' : number !== undefined ? 'number' : word !== undefined ? 'word' : 'plain', whole]);
  }
  return all;
}

// The paths at which two documents differ: [[path, was, is], …] in raw text; undefined where there was or is nothing.
export function differences(was, is, path = '') {
  if (was?.raw === is?.raw) return [];
  if (was?.kind !== 'object' || is?.kind !== 'object') return [[path, was?.raw, is?.raw]];
  const names = new Set([...was.members, ...is.members].map((one) => one.name));
  return [...names].flatMap((name) => differences(member(was, name), member(is, name), path ? `${path}.${name}` : name));
}

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Control characters and those that turn the direction of text, as escapes: what is shown is what is there.
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
