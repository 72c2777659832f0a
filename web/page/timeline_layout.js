// Where the bars of a timeline stand. Pure: times in ms since 1970, places in % of the width.

const kFoldOver = 0.3;  // an idle span wider than this part of what is not folded …
const kFoldTo = 6;      // … is drawn this wide, with its length
const kMostFolds = 8;
const kCopiedWidth = 6; // copied steps have no time of this run: they stand left of it

const kWaits = { approval: 'person', question: 'person', timer: 'time', signal: 'time', child: 'time', first_of: 'time' };
const ms = (text) => (text ? Date.parse(text) : null);

// {kind: ran | running | failed | backoff | person | time | doubt | stopped, from, to}; to null: still going on.
// tries: [time of each recorded failure]; questions: the reconcile waits of the step.
export function barsOf(step, tries = [], questions = []) {
  const from = ms(step.created_at);
  const to = ms(step.updated_at);
  const waits = kWaits[step.kind];
  if (step.status === 'cancelled') return [{ kind: 'stopped', from, to }];
  if (waits) return [{ kind: waits, from, to: step.status === 'completed' || step.status === 'failed' ? to : null }];
  const bars = [];
  let begin = from;
  for (const at of tries) {
    bars.push({ kind: 'failed', from: begin, to: at });
    begin = at;
  }
  for (const one of questions) {
    const asked = ms(one.created_at);
    bars.push({ kind: 'ran', from: begin, to: asked }, { kind: 'doubt', from: asked, to: asked }, { kind: 'person', from: asked, to: ms(one.resolved_at) });
    begin = ms(one.resolved_at) ?? asked;
  }
  if (step.status === 'pending') bars.push(tries.length ? { kind: 'backoff', from: begin, to: ms(step.not_before) } : { kind: 'time', from, to: null });
  else if (step.status === 'started') bars.push({ kind: 'running', from: begin, to: null });
  else if (step.status === 'completed') bars.push({ kind: 'ran', from: begin, to });
  else if (step.status === 'failed' && (tries.length === 0 || to > begin)) bars.push({ kind: 'failed', from: begin, to });
  else if (step.status === 'needs_reconcile' && questions.length === 0) bars.push({ kind: 'ran', from, to }, { kind: 'doubt', from: to, to });
  return bars;
}

const kBusy = new Set(['ran', 'running', 'failed']);

// The time axis. {at(ms) → %, folds: [{from, to, x0, x1}], copied: % that is kept free at the left}.
export function scale(bars, begin, end, { fold = true, copied = false } = {}) {
  const last = Math.max(end, begin + 1);
  const clip = (t) => Math.min(Math.max(t ?? last, begin), last);
  const points = new Set([begin, last]);
  const busy = [];
  for (const bar of bars) {
    points.add(clip(bar.from)).add(clip(bar.to));
    if (kBusy.has(bar.kind)) busy.push([clip(bar.from), clip(bar.to)]);
  }
  const edges = [...points].sort((a, b) => a - b);
  busy.sort((a, b) => a[0] - b[0]);
  const pieces = [];
  let i = 0;
  let until = -Infinity;  // of what is busy
  for (let k = 0; k + 1 < edges.length; k += 1) {
    const [from, to] = [edges[k], edges[k + 1]];
    while (i < busy.length && busy[i][0] <= from) { until = Math.max(until, busy[i][1]); i += 1; }
    pieces.push({ from, to, idle: until <= from, folded: false });
  }
  if (fold) foldLong(pieces);
  const free = 100 - (copied ? kCopiedWidth : 0);
  const folds = pieces.filter((one) => one.folded);
  const open = pieces.reduce((sum, one) => sum + (one.folded ? 0 : one.to - one.from), 0) || 1;
  const rest = free - kFoldTo * folds.length;
  let x = 100 - free;
  for (const one of pieces) {
    one.x0 = x;
    x += one.folded ? kFoldTo : ((one.to - one.from) / open) * rest;
    one.x1 = x;
  }
  const at = (time) => {
    const t = clip(time);
    let low = 0;
    let high = pieces.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pieces[middle].to < t) low = middle + 1;
      else high = middle;
    }
    const one = pieces[low];
    return one.x0 + ((t - one.from) / (one.to - one.from)) * (one.x1 - one.x0);
  };
  return { at, folds, pieces, copied: 100 - free };
}

// The longest idle span first, for as long as it is too wide and something else is left to draw.
function foldLong(pieces) {
  let open = pieces.reduce((sum, one) => sum + one.to - one.from, 0);
  const idle = pieces.filter((one) => one.idle).sort((a, b) => (b.to - b.from) - (a.to - a.from));
  for (const one of idle.slice(0, kMostFolds)) {
    const span = one.to - one.from;
    if (span <= kFoldOver * open || span >= open) return;
    one.folded = true;
    open -= span;
  }
}

const kSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
  3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000];
// Times to write on the axis, with their places: at least `apart` % between two.
export function marks({ pieces, at }, apart) {
  const open = pieces.filter((one) => !one.folded);
  const total = open.reduce((sum, one) => sum + one.to - one.from, 0);
  const width = open.reduce((sum, one) => sum + one.x1 - one.x0, 0);
  const step = kSteps.find((one) => (one / total) * width >= apart) ?? kSteps.at(-1);
  const all = [];
  let last = -Infinity;
  const runs = [];  // neighbours that are not folded, as one
  for (const one of open) {
    if (runs.length && runs.at(-1).to === one.from) runs.at(-1).to = one.to;
    else runs.push({ from: one.from, to: one.to });
  }
  for (const { from, to } of runs) {
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = at(t);
      if (x - last < apart) continue;
      all.push({ t, x });
      last = x;
    }
  }
  return { step, all };
}

// The branch of a position: what stands before its first slash; the main one is ''.
export function branchOf(position) {
  const end = position.indexOf('/');
  const part = end < 0 ? '' : position.slice(0, end);
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
// Rows in order of first appearance, by branch: [{branch, steps}]. Copied ones by themselves, first.
export function grouped(steps) {
  const copied = steps.filter((one) => one.copied);
  const groups = new Map();
  for (const step of steps) {
    if (step.copied) continue;
    const branch = branchOf(step.position);
    if (!groups.has(branch)) groups.set(branch, []);
    groups.get(branch).push(step);
  }
  return { copied, groups: [...groups].map(([branch, of]) => ({ branch, steps: of })) };
}
