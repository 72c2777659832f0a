// What is known of a step in doubt, by time: what the agent saw, and what came in later. Nothing is concluded from it.
import { clock, el } from './dom.js';
import { mark } from './marks.js';

const kLongest = 300;
const short = (value) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > kLongest ? `${text.slice(0, kLongest)}…` : text;
};
const words = (error) => (error && typeof error === 'object' && error.code ? `${error.code}${error.message ? `: ${error.message}` : ''}` : short(error));

export function evidence(wait) {
  const known = wait.evidence ?? wait.request?.known ?? {};
  const rows = [];
  const say = (at, shape, ...text) => rows.push([Date.parse(at), shape, text]);
  const tries = known.executions ?? wait.request?.executions ?? 1;
  if (known.first_began_at) say(known.first_began_at, 'running', 'try 1 began');
  for (const one of known.failed_attempts ?? []) say(one.at, 'failed', 'a try failed: ', el('code', {}, words(one.error)));
  if (tries > 1 && known.last_began_at) say(known.last_began_at, 'running', `the last try began, of ${tries}`);
  say(wait.created_at, 'doubt', 'its attempt ended before it could say; nobody knows whether it ran');
  const probe = wait.request?.known?.probe;
  if (probe) say(wait.created_at, 'info', probe === 'none' ? 'it has no probe to ask' : ['its probe ', el('code', {}, probe)]);
  for (const one of known.late_outcomes ?? []) {
    const failed = one.error !== undefined || one.error_cut !== undefined;
    say(one.at, failed ? 'failed' : 'done', `its command told later that it ${failed ? 'failed' : 'ran'}: `, el('code', {}, short(one.result ?? one.error ?? one.result_cut ?? one.error_cut)));
  }
  rows.sort((a, b) => a[0] - b[0]);
  return el('ol.evidence', {}, rows.map(([at, shape, text]) => el('li', {}, mark(shape), el('span', {}, el('b', {}, `${clock(at)} `), text))));
}
