// The agent's API. A refusal is a Refused with the problem document; no answer at all is an Offline.

export class Refused extends Error {
  constructor(status, problem, after) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code || '';
    this.after = after;  // seconds, of Retry-After
  }
}
export class Offline extends Error {}

let csrf = '';
let offset = 0;  // the agent's clock less ours, in ms
export const me = { name: '', scopes: '' };

export const now = () => Date.now() + offset;
export const may = (scope) => me.scopes.split(/[ ,]+/).some((one) => one === scope || one === 'admin');

async function ask(method, path, { body, headers = {}, signal } = {}) {
  const fields = { ...headers };
  if (body !== undefined) fields['Content-Type'] = 'application/json';
  if (method !== 'GET') fields['X-Bide-CSRF'] = csrf;
  try {
    return await fetch(path, { method, body, headers: fields, signal, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Offline(error.message);
  }
}
async function textOf(response) {
  try {
    return await response.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Offline(error.message);
  }
}
function refusal(response, text) {
  let problem = {};
  try { problem = JSON.parse(text) ?? {}; } catch { /* not ours: the status has to do */ }
  return new Refused(response.status, problem, Number(response.headers.get('Retry-After')) || undefined);
}

// {status, text, etag, value}; value is JSON.parse of text. Numbers that must stay as written are read from text.
export async function call(method, path, options) {
  const response = await ask(method, path, options);
  const text = await textOf(response);
  if (!response.ok) throw refusal(response, text);
  try {
    return { status: response.status, text, value: text === '' ? null : JSON.parse(text), etag: response.headers.get('ETag') };
  } catch {
    throw new Offline('the answer is no JSON');
  }
}
export const get = (path, options) => call('GET', path, options);
// undefined: this agent has no such route.
export async function getIfThere(path) {
  return get(path).catch((error) => {
    if (error instanceof Refused && (error.status === 404 || error.status === 403 || error.status === 405)) return undefined;
    throw error;
  });
}
// A command; the same key for the same press, so that a repeat does nothing twice.
export function post(path, body = '{}', headers = {}) {
  return call('POST', path, { body, headers: { 'Idempotency-Key': newKey(), ...headers } });
}
export const del = (path) => call('DELETE', path, { headers: { 'Idempotency-Key': newKey() } });
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

// A text that is no JSON, from a byte on: {text, next}.
export async function textFrom(path, offset) {
  const response = await ask('GET', `${path}?offset=${offset}`);
  const text = await textOf(response);
  if (!response.ok) throw refusal(response, text);
  return { text, next: Number(response.headers.get('Bide-Next-Offset')) || offset };
}

// The session that the browser's cookie stands for, or that a code is turned into.
export async function session(code) {
  const { value } = code === undefined ? await get('/v1/session') : await call('POST', '/v1/session', { body: JSON.stringify({ code }) });
  csrf = value.csrf;
  me.name = value.name;
  me.scopes = value.scopes;
  return value;
}
export async function signOut() {
  await call('DELETE', '/v1/session');
  csrf = me.name = me.scopes = '';
}

export async function info() {
  const { value } = await get('/v1/info');
  offset = Date.parse(value.now) - Date.now();
  return value;
}

// All pages of a list.
export async function all(path, most = Infinity) {
  const items = [];
  let cursor = '';
  do {
    const { value } = await get(`${path}${path.includes('?') ? '&' : '?'}limit=200${cursor}`);
    items.push(...value.items);
    cursor = value.next ? `&cursor=${encodeURIComponent(value.next)}` : '';
  } while (cursor && items.length < most);
  return items;
}
// All that wait for a person, oldest first.
export const pending = () => all('/v1/waits?status=pending&inbox=true');

const kSilentMs = 40_000;  // a stream's heart beats every 15 s; silence longer than this is a dead connection

// What happened since `cursor`, as it happens: {next, items}. By SSE where the agent streams (and `stream` wants it);
// else by a request that waits up to 25 s. `took(page)` is called for each part; returns when the stream ends.
export async function follow(cursor, stream, signal, took) {
  const response = await ask('GET', `/v1/events?limit=200${cursor ? `&cursor=${cursor}` : ''}`, { signal,
    headers: { Accept: stream ? 'text/event-stream, application/json;q=0.5' : 'application/json', Prefer: 'wait=25' } });
  if (!response.ok) throw refusal(response, await textOf(response));
  if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
    const value = JSON.parse(await textOf(response));
    return took({ next: Number(value.next), items: value.items });
  }
  took({ next: cursor, items: [] });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let part;
    const watch = setTimeout(() => reader.cancel().catch(() => {}), kSilentMs);
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Offline(error.message);
    } finally {
      clearTimeout(watch);
    }
    if (part.done) return undefined;
    rest += part.value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    const items = blocks.map(eventOf).filter(Boolean);
    if (items.length) took({ next: Math.max(...items.map((one) => one.id)), items });
  }
}
// One event of a stream; null: a comment, a heartbeat, or what is not about the file.
function eventOf(block) {
  let data = '';
  for (const line of block.split(/\r?\n/)) if (line.startsWith('data:')) data += line.slice(5).trimStart();
  try {
    const event = JSON.parse(data);
    return event && Number.isInteger(event.id) && event.kind ? event : null;
  } catch {
    return null;
  }
}
