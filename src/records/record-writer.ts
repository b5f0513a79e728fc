import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';

/** How long a record may wait for others to be written with it. */
const DELAY_MS = 20;
const BATCH = 500;
/** Records that may wait; more are dropped, and counted. */
const MAX_WAITING = 20_000;

/** Writes records in the background, in order and many at a time. A store that fails delays them, and then they go. */
export class RecordWriter {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #what: string;
  #waiting: Write[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  /** Records that were dropped because the store could not keep up. */
  dropped = 0;

  constructor(runtime: Runtime, store: Store, what: string) {
    this.#runtime = runtime;
    this.#store = store;
    this.#what = what;
  }

  add(write: Write): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.dropped++;
      return;
    }
    this.#waiting.push(write);
    if (this.#waiting.length >= BATCH) this.#start();
    else this.#timer ??= this.#runtime.setTimer(() => this.#start(), DELAY_MS);
  }

  /** Resolves when everything added so far is on disk. */
  async flush(): Promise<void> {
    this.#start();
    while (this.#writing) await this.#writing;
  }

  #start(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      try {
        await this.#store.write(batch);
      } catch (error) {
        this.dropped += batch.length;
        this.#runtime.logger.error({ err: error, lost: batch.length }, `the ${this.#what} could not be written`);
      }
    }
  }
}
