// How waits, their ends and refusals are said.

export const kKinds = { approval: ['asks', 'Approval'], question: ['asks', 'Question'], reconcile: ['doubt', 'May have happened'] };

// What will be done at the end of a wait that nobody answered.
export function expiry(wait) {
  const fallback = wait.request?.default;
  if (fallback === undefined || fallback === null) return 'expired';
  return typeof fallback === 'string' ? fallback : JSON.stringify(fallback);
}

export const whoDid = (wait, me) => (wait.resolved_by === me && me ? 'You' : wait.resolved_by || 'Somebody');
const kDid = { approved: 'approved', denied: 'denied', changes_requested: 'asked for changes to' };
// "denied this": what was done, with the object.
export const did = (wait) => `${kDid[wait.resolution?.decision] ?? 'answered'} this`;

// How a wait that is over ended, in words.
export function ending(wait, me) {
  if (wait.status === 'expired') return `Nobody answered in time: ${expiry(wait)}.`;
  if (wait.status === 'cancelled') return 'The run ended before it was answered.';
  const words = { approved: 'approved it', denied: 'denied it', changes_requested: 'asked for changes' };
  return `${whoDid(wait, me)} ${words[wait.resolution?.decision] ?? 'answered it'}.`;
}

export const kRefused = {
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
