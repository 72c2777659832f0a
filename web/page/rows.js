// A long list of rows of one height: beyond kAll only those near the window of its box are in the document.

const kAll = 300;
const kMargin = 12;  // rows beyond each edge
const kProbed = 4;

export class Rows {
  #box;     // scrolls
  #list;    // holds the rows
  #make;    // (item, index) → node
  #items = [];
  #nodes = new Map();  // index → [key, node]
  #height = 0;
  #asked = false;

  constructor(box, list, make) {
    this.#box = box;
    this.#list = list;
    this.#make = make;
    box.addEventListener('scroll', () => this.#soon(), { passive: true });
    this.watcher = new ResizeObserver(() => { this.#height = 0; this.#soon(); });
    this.watcher.observe(box);
  }
  get virtual() { return this.#items.length > kAll; }

  // items: [{key, …}]: a row is made anew when its key changes.
  show(items) {
    const was = this.virtual;
    this.#items = items;
    if (was !== this.virtual) {
      this.#nodes.clear();
      this.#list.replaceChildren();
      this.#box.scrollTop = 0;
    }
    this.#box.classList.toggle('virtual', this.virtual);
    if (!this.virtual) this.#list.style.height = '';
    this.#draw();
  }
  // Brings a row into sight; returns its node.
  reveal(index) {
    if (this.virtual) {
      this.#box.scrollTop = Math.max(0, index * this.#height - this.#box.clientHeight / 3);
      this.#draw();
    }
    const node = this.#nodes.get(index)?.[1];
    node?.scrollIntoView({ block: 'nearest' });
    return node;
  }
  node(index) { return this.#nodes.get(index)?.[1]; }

  #soon() {
    if (!this.virtual || this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => { this.#asked = false; this.#draw(); });
  }
  #draw() {
    let [first, last] = [0, this.#items.length];
    if (this.virtual) {
      if (!this.#height) this.#measure();
      first = Math.max(0, Math.floor(this.#box.scrollTop / this.#height) - kMargin);
      last = Math.min(last, Math.ceil((this.#box.scrollTop + this.#box.clientHeight) / this.#height) + kMargin);
      this.#list.style.height = `${this.#items.length * this.#height}px`;
    }
    for (const [i, [, node]] of this.#nodes) {
      if (i >= first && i < last) continue;
      if (node.contains(document.activeElement) && i < this.#items.length) continue;  // the focus stays where it is
      node.remove();
      this.#nodes.delete(i);
    }
    let before = null;
    for (let i = first; i < last; i += 1) {
      const item = this.#items[i];
      let [key, node] = this.#nodes.get(i) ?? [];
      if (key !== item.key) {
        const made = this.#make(item, i);
        if (node) node.replaceWith(made);
        else if (before) before.after(made);
        else this.#list.prepend(made);
        node = made;
        this.#nodes.set(i, [item.key, node]);
      }
      if (this.virtual) node.style.top = `${i * this.#height}px`;
      before = node;
    }
  }
  #measure() {
    this.#list.style.height = 'auto';
    this.#height = 24;
    for (let i = 0; i < Math.min(kProbed, this.#items.length); i += 1) {  // the highest of a few: all stand that far apart
      const probe = this.#make(this.#items[i], i);
      this.#list.append(probe);
      this.#height = Math.max(this.#height, Math.ceil(probe.getBoundingClientRect().height));
      probe.remove();
    }
  }
  end() { this.watcher.disconnect(); }
}
