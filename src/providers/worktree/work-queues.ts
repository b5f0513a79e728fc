/** Work that goes one after the other, in the order of its arrival, for each key. */
export class WorkQueues {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const { turn, release } = this.enter(key);
    await turn;
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** `turn` resolves when everything before has been released. */
  enter(key: string): { turn: Promise<unknown>; release: () => void } {
    const turn = this.#last.get(key) ?? Promise.resolve();
    let release = () => {};
    const over = new Promise<void>((resolve) => {
      release = resolve;
    });
    const last = turn.then(() => over);
    this.#last.set(key, last);
    void last.then(() => {
      if (this.#last.get(key) === last) this.#last.delete(key);
    });
    return { turn, release };
  }
}
