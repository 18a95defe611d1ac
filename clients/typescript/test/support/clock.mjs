// A clock that stands while something runs, and goes on to the next timer when everything waits.

/** Stands in for the clock and the timers of this process. */
export class Clock {
  #timers = new Map();
  #next = 1;
  /** The world's time. */
  ms = 1_900_000_000_000;
  /** How far this machine's clock is ahead of it. */
  skew = 0;

  constructor() {
    const clock = this;
    const Real = Date;
    globalThis.Date = class extends Real {
      constructor(...parts) {
        super(...(parts.length > 0 ? parts : [clock.ms + clock.skew]));
      }
      static now() {
        return clock.ms + clock.skew;
      }
    };
    const set = (every) => (run, ms = 0, ...given) => {
      const id = this.#next++;
      this.#timers.set(id, { at: this.ms + ms, id, every: every && ms, run: () => run(...given) });
      return Object.assign(Object(id), { unref() {}, ref() {}, [Symbol.toPrimitive]: () => id });
    };
    const clear = (id) => void this.#timers.delete(Number(id));
    Object.assign(globalThis, {
      setTimeout: set(false),
      clearTimeout: clear,
      setInterval: set(true),
      clearInterval: clear,
    });
  }

  /** Lets time pass. */
  sleep(ms) {
    return new Promise((done) => setTimeout(done, ms));
  }

  /** Lets time pass in which nothing runs, as on a machine that is suspended. */
  suspend(ms) {
    this.ms += ms;
    for (const timer of this.#timers.values()) timer.at += ms;
  }

  /** Waits for something, and lets time pass whenever nothing else happens. */
  async during(promise) {
    let done = false;
    const end = () => (done = true);
    promise.then(end, end);
    while (!done) {
      // What is ready runs between two of these; bodies of answers take several.
      for (let i = 0; i < 4 && !done; i++) await new Promise((next) => setImmediate(next));
      if (!done) this.#step();
    }
    return promise;
  }

  #step() {
    const [next] = [...this.#timers.values()].sort((a, b) => a.at - b.at || a.id - b.id);
    if (!next) return;
    this.ms = Math.max(this.ms, next.at);
    if (next.every) next.at += Math.max(1, next.every);
    else this.#timers.delete(next.id);
    next.run();
  }
}
