// The agent's API. A refusal is a Refused with the problem document; no answer at all is an Offline.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code || '';
  }
}
export class Offline extends Error {}

let csrf = '';
let offset = 0;  // the agent's clock less ours, in ms

export const now = () => Date.now() + offset;

// {status, text, etag, value}; value is JSON.parse of text. Numbers that must stay as written are read from text.
export async function call(method, path, { body, headers = {}, signal } = {}) {
  const fields = { ...headers };
  if (body !== undefined) fields['Content-Type'] = 'application/json';
  if (method !== 'GET') fields['X-Bide-CSRF'] = csrf;
  let response;
  let text;
  try {
    response = await fetch(path, { method, body, headers: fields, signal, credentials: 'same-origin', cache: 'no-store' });
    text = await response.text();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Offline(error.message);
  }
  let value = null;
  try {
    value = text === '' ? null : JSON.parse(text);
  } catch {
    throw new Offline('the answer is no JSON');
  }
  if (!response.ok) throw new Refused(response.status, value ?? {});
  return { status: response.status, text, value, etag: response.headers.get('ETag') };
}

// The session that the browser's cookie stands for, or that a code is turned into.
export async function session(code) {
  const { value } = code === undefined
    ? await call('GET', '/v1/session')
    : await call('POST', '/v1/session', { body: JSON.stringify({ code }) });
  csrf = value.csrf;
  return value;
}

export async function info() {
  const { value } = await call('GET', '/v1/info');
  offset = Date.parse(value.now) - Date.now();
  return value;
}

// All that wait for a person, oldest first.
export async function pending() {
  const waits = [];
  let cursor = '';
  do {
    const { value } = await call('GET', `/v1/waits?status=pending&inbox=true&limit=200${cursor}`);
    waits.push(...value.items);
    cursor = value.next ? `&cursor=${value.next}` : '';
  } while (cursor);
  return waits;
}

// The id to go on from, and the events since `cursor`; waits up to 25 s for one.
export async function events(cursor, signal) {
  const { value } = await call('GET', `/v1/events?limit=200&cursor=${cursor}`, { headers: { Prefer: 'wait=25' }, signal });
  return value;
}

// One decision; the same key for the same press, so that a repeat decides nothing twice.
export function resolve(id, etag, body) {
  const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
  return call('POST', `/v1/waits/${id}/resolve`, { body, headers: { 'If-Match': etag, 'Idempotency-Key': key } });
}
