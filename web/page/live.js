// Keeps what is shown true while somebody looks: one open request while the page is seen, none while it is not. After a
// gap everything is loaded again, in place.
import { Offline, Refused, follow, info } from './agent.js';

const kAgainMs = 2000;    // without an answer: a person looks, the agent is on the same box
const kOfflineMs = 3000;  // shorter gaps are not told
const kTogetherMs = 250;  // events of a burst are shown together

export class Live {
  #cursor = null;    // the newest event that was seen
  #watching = null;
  #seenAt = Date.now();
  #gapFrom = 0;      // since when nothing answered; 0: it answers
  #told = false;     // the gap is told
  #news = [];
  #timer = 0;
  #busy = false;
  #again = false;
  #stream = true;    // false: the agent has as many streams as it takes, so this one asks again and again

  // on: {changed(events | null), gone(seenAt), back(), refused(error), fault(error)}; null: load everything again.
  constructor(on) {
    this.on = on;
    document.addEventListener('visibilitychange', () => this.watch());
  }

  async start() {
    if (this.#cursor === null) this.#cursor = (await info()).last_event;
    this.watch();
  }
  stop() {
    this.#watching?.abort();
    this.#watching = null;
  }

  async watch() {
    this.stop();
    if (this.#cursor === null || document.visibilityState !== 'visible') return;
    const mine = this.#watching = new AbortController();
    const seen = (page) => {
      if (mine.signal.aborted) return;
      this.#cursor = Math.max(this.#cursor, page.next);
      this.#answered();
      if (page.items.length) this.#tell(page.items);
    };
    this.#tell(null);  // what happened while nobody looked
    while (!mine.signal.aborted) {
      try {
        await follow(this.#cursor, this.#stream, mine.signal, seen);
      } catch (error) {
        if (mine.signal.aborted) return;
        await this.#failed(error);
      }
    }
  }

  // The agent answered something, here or elsewhere.
  #answered() {
    this.#seenAt = Date.now();
    if (!this.#gapFrom) return;
    this.#gapFrom = 0;
    if (this.#told) this.on.back();
    this.#told = false;
    this.#tell(null);
  }
  async #failed(error) {
    if (error instanceof Refused && error.status === 401) {
      this.stop();
      return this.on.refused(error);
    }
    if (error instanceof Refused && error.status === 410) {  // the events in between are gone
      this.#cursor = (await info()).last_event;
      return this.#tell(null);
    }
    if (!(error instanceof Offline) && !(error instanceof Refused)) throw error;
    if (error instanceof Refused && error.status === 503 && this.#stream) {
      this.#stream = false;
      return undefined;
    }
    this.#gapFrom ||= Date.now();
    if (!this.#told && Date.now() - this.#gapFrom >= kOfflineMs - kAgainMs) {
      this.#told = true;
      this.on.gone(this.#seenAt);
    }
    const wait = error instanceof Refused && error.after ? error.after * 1000 : kAgainMs;
    return new Promise((done) => {
      const timer = setTimeout(done, wait);
      this.retryNow = () => { clearTimeout(timer); done(); };
    });
  }
  retryNow = () => {};

  // A call of the page got no answer: look at once whether the agent is there.
  suspect() {
    if (!this.#gapFrom) this.watch();
  }

  #tell(items) {
    if (items === null) this.#news = null;
    else if (this.#news !== null) this.#news.push(...items);
    if (!this.#timer) this.#timer = setTimeout(() => this.#run(), kTogetherMs);
  }
  async #run() {
    this.#timer = 0;
    if (this.#busy) {
      this.#again = true;
      return;
    }
    const news = this.#news;
    this.#news = [];
    this.#busy = true;
    try {
      await this.on.changed(news);
    } catch (error) {
      this.on.fault(error);
    } finally {
      this.#busy = false;
      if (this.#again) {
        this.#again = false;
        this.#tell([]);
      }
    }
  }
}
