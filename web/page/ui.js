// What stands above a page: toasts, dialogs; and the boxes that say what is the matter.
import { add, button, el, say } from './dom.js';
import { mark } from './marks.js';

const $ = (id) => document.getElementById(id);
const kToastMs = 8000;   // long enough to read two lines; it stays while it is focused or pointed at
const kMostToasts = 3;

// `action`: [word, what it does]; given only where it is real.
export function toast(text, action) {
  const place = $('toasts');
  const box = el('div.toast', {}, el('span', {}, text));
  let timer = 0;
  const leave = () => box.remove();
  const wait = () => { clearTimeout(timer); timer = setTimeout(leave, kToastMs); };
  const hold = () => clearTimeout(timer);
  if (action) box.append(button(action[0], () => { leave(); action[1](); }));
  box.append(button('×', leave, '.close', { 'aria-label': 'Close this message' }));
  for (const kind of ['focusin', 'pointerenter']) box.addEventListener(kind, hold);
  for (const kind of ['focusout', 'pointerleave']) box.addEventListener(kind, wait);
  place.append(box);
  while (place.children.length > kMostToasts) place.firstChild.remove();
  wait();
}

// Said aloud, not shown: for what a reader of the screen sees by itself.
export function speak(text) { say($('spoken'), text); }

// A box with a mark, a heading, and what else belongs to it. `tone`: need, bad, ok or info.
export function notice(tone, shape, title, ...content) {
  return el(`div.notice.${tone}`, {}, mark(shape), el('div', {}, title ? el('p.strong', {}, title) : '', content));
}
export const empty = (title, ...content) => el('div.empty', {}, title ? el('h2', {}, title) : '', content);

// Asks before what cannot be taken back. The focus is on the safe button; Esc is the safe one too. Resolves to true or
// false. `fields`: nodes that belong to the question.
export function confirm({ title, text, safe, go, fields = [], danger = true }) {
  const id = `dialog-${Date.now()}`;
  return new Promise((done) => {
    const back = document.activeElement;
    const dialog = el('dialog', { 'aria-labelledby': id },
      el('form', { method: 'dialog' }, el('h2', { id }, title), text.map((one) => (one instanceof Node ? one : el('p', {}, one))), fields,
        el('div.buttons', {}, el('button', { value: 'no' }, safe), el(danger ? 'button.no' : 'button.yes', { value: 'yes' }, go))));
    dialog.addEventListener('close', () => {
      dialog.remove();
      // What was pressed may have been drawn anew meanwhile.
      (back?.isConnected ? back : document.querySelector(`[data-do="${back?.dataset?.do}"]`))?.focus();
      done(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector('.buttons button').focus();
  });
}

// A dialog that only tells.
export function tell(title, ...content) {
  const id = `dialog-${Date.now()}`;
  const back = document.activeElement;
  const dialog = add(el('dialog', { 'aria-labelledby': id }), el('form', { method: 'dialog' }, el('h2', { id }, title), content,
    el('div.buttons', {}, el('button', {}, 'Close'))));
  dialog.addEventListener('close', () => { dialog.remove(); back?.focus?.(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// A command that is sent once: off and "Sending…" meanwhile, and it keeps the focus.
export function once(node, what) {
  return async (event) => {
    if (node.getAttribute('aria-disabled') === 'true') return;
    const words = [...node.childNodes];
    node.setAttribute('aria-disabled', 'true');
    say(node, 'Sending…');
    try {
      await what(event);
    } finally {
      node.replaceChildren(...words);
      node.setAttribute('aria-disabled', 'false');
    }
  };
}
export function act(text, what, style = '', more = {}) {
  const node = button(text, null, style, more);
  node.addEventListener('click', once(node, what));
  return node;
}
