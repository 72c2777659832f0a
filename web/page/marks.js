// Marks of states and icons of pages, as SVG nodes. A state is a shape and a word; the colour comes third.

const kSvg = 'http://www.w3.org/2000/svg';

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(kSvg, tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const kRing = ['circle', { cx: 8, cy: 8, r: 6.25 }];
const kDisc = ['circle', { cx: 8, cy: 8, r: 7, fill: 'currentColor', stroke: 'none' }];
const line = (d, more = {}) => ['path', { d, ...more }];
const full = (d) => line(d, { fill: 'currentColor', stroke: 'none' });
const cut = (d) => line(d, { class: 'cut' });  // in the colour of what lies below

const kMarks = {
  queued: [['circle', { cx: 8, cy: 8, r: 6.25, 'stroke-dasharray': '2.4 2.5' }]],
  running: [full('M4 2.5 13.5 8 4 13.5z')],
  asks: [kRing, line('M3.5 10 10 3.5M5.2 12.3 12.3 5.2')],
  waiting: [kRing, line('M3.5 10 10 3.5M5.2 12.3 12.3 5.2')],
  sleeping: [kRing, line('M8 4.2V8l2.6 1.7')],
  paused: [line('M5.5 3v10M10.5 3v10', { 'stroke-width': 2.5 })],
  doubt: [line('M8 1.2 14.8 8 8 14.8 1.2 8z'), full('M8 1.2v13.6L1.2 8z')],
  done: [kDisc, cut('M4.7 8.2 7 10.5 11.3 5.8')],
  failed: [full('M5 1h6l4 4v6l-4 4H5l-4-4V5z'), cut('M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2')],
  cancelled: [kRing, line('M3.8 12.2 12.2 3.8')],
  expired: [line('M3.5 1.8h9M3.5 14.2h9M4.5 2c0 4 7 4.5 7 6s0 2.5 0 6M11.5 2c0 4-7 4.5-7 6s0 2.5 0 6')],
  retrying: [line('M13.2 8A5.4 5.4 0 1 1 11 3.7'), line('M11.2 1v3.2H8')],
  parked: [['rect', { x: 1.5, y: 1.5, width: 13, height: 13, rx: 3, fill: 'currentColor', stroke: 'none' }],
    cut('M6.2 12V4.5h2.2a2.2 2.2 0 0 1 0 4.6H6.2')],
  warning: [full('M8 1.2 15.4 14.5H.600z'), cut('M8 6v4M8 11.7v1.1')],
  info: [kRing, line('M8 7.2v4M8 4.3v1.2')],
  offline: [line('M1 8h3.5L7 3l2.5 10L11.5 8H15M2.5 13.5 13.5 2.5')],
  copied: [['rect', { x: 2, y: 4, width: 12, height: 8, rx: 2, 'stroke-dasharray': '2.4 2' }]],
  person: [['circle', { cx: 8, cy: 5, r: 2.8, fill: 'currentColor', stroke: 'none' }], full('M2.5 14c0-3.5 2.5-5 5.5-5s5.5 1.5 5.5 5z')],
};

const kIcons = {
  bide: [line('M3 2.5v11M13 2.5v11M3 13.5 9 2.5M7 13.5 13 2.5', { 'stroke-width': 1.7 })],
  inbox: [line('M2 9 4 3h8l2 6v4H2zM2 9h3.5l1 1.8h3l1-1.8H14')],
  runs: [line('M2 4h7M5 8h8M4 12h6', { 'stroke-width': 2.4 })],
  workflows: [['circle', { cx: 4, cy: 3.5, r: 1.7 }], ['circle', { cx: 4, cy: 12.5, r: 1.7 }], ['circle', { cx: 12, cy: 4.5, r: 1.7 }],
    line('M4 5.2v5.6M12 6.2c0 2.8-8 1.5-8 4.6')],
  deliveries: [line('M1.5 8H11M7.5 4.5 11 8l-3.5 3.5M14 2.5v11')],
  agent: [['rect', { x: 1.8, y: 2.5, width: 12.4, height: 11, rx: 2.5 }], line('M4 8.2h2L7.5 5.5l1.7 5 1.2-2.3H12')],
};

function draw(shapes, what, className) {
  return svg('svg', { viewBox: '0 0 16 16', class: className, 'aria-hidden': 'true', focusable: 'false', fill: 'none', stroke: 'currentColor',
    'stroke-width': 1.5, 'data-mark': what }, ...shapes.map(([tag, attributes]) => svg(tag, attributes)));
}
export const mark = (name) => draw(kMarks[name] ?? kMarks.info, name, 'mark');
export const icon = (name) => draw(kIcons[name], name, 'icon');

// What the states of runs, steps, waits and deliveries look like: [mark, word, tone].
export const kRunStates = {
  queued: ['queued', 'Queued', 'idle'], running: ['running', 'Running', 'accent'], waiting: ['waiting', 'Waiting', 'idle'],
  completed: ['done', 'Completed', 'ok'], failed: ['failed', 'Failed', 'bad'], cancelled: ['cancelled', 'Cancelled', 'idle'],
  paused: ['paused', 'Paused', 'idle'],
};
export const kStepStates = {
  pending: ['retrying', 'To be tried again', 'need'], started: ['running', 'Running', 'accent'], needs_reconcile: ['doubt', 'In doubt', 'need'],
  completed: ['done', 'Completed', 'ok'], failed: ['failed', 'Failed', 'bad'], cancelled: ['cancelled', 'Cancelled', 'idle'],
};
