import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';

/** What to write, and what to call when it is written, or cannot be. */
export interface Prepared {
  readonly writes: readonly Write[];
  readonly written: () => void;
  readonly failed?: (error: unknown) => void;
}

/** Changes in one call of the store: more would keep the event loop and other callers waiting. */
const MAX_WRITES = 1_000;

/**
 * Writes what many ask for in one go: one call of the store at a time, and whatever comes meanwhile goes with the next.
 * Everything is written, and told, in the order it was asked for. Where one of a group cannot be written, each is tried
 * alone, so that nobody suffers for another.
 */
export class GroupWriter {
  readonly #runtime: Runtime;
  readonly #store: Store;
  #waiting: Prepared[] = [];
  #writing = false;
  #due = false;
  #onIdle: (() => void)[] = [];

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
  }

  add(prepared: Prepared): void {
    this.#waiting.push(prepared);
    if (this.#writing || this.#due) return;
    this.#due = true;
    this.#runtime.defer(() => this.#start());
  }

  /** Resolves when it is on disk, and `written` was called; rejects when it is not. */
  write({ writes, written, failed }: Prepared): Promise<void> {
    return new Promise((resolve, reject) => {
      this.add({
        writes,
        written: () => {
          written();
          resolve();
        },
        failed: (error) => {
          failed?.(error);
          reject(error);
        },
      });
    });
  }

  /** Resolves when everything that was asked for is written, or could not be. */
  flush(): Promise<void> {
    this.#start();
    if (!this.#writing) return Promise.resolve();
    return new Promise((resolve) => void this.#onIdle.push(resolve));
  }

  #start(): void {
    this.#due = false;
    if (this.#writing || this.#waiting.length === 0) return;
    this.#writing = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#writeGroup(this.#takeGroup());
    this.#writing = false;
    for (const tell of this.#onIdle.splice(0)) tell();
  }

  #takeGroup(): Prepared[] {
    let writes = 0;
    let count = 0;
    while (count < this.#waiting.length && writes < MAX_WRITES) writes += this.#waiting[count++]!.writes.length;
    if (count < this.#waiting.length) return this.#waiting.splice(0, count);
    const group = this.#waiting;
    this.#waiting = [];
    return group;
  }

  async #writeGroup(group: readonly Prepared[]): Promise<void> {
    try {
      await this.#store.write(group.flatMap(({ writes }) => writes));
    } catch (error) {
      if (group.length > 1) for (const prepared of group) await this.#writeGroup([prepared]);
      else this.#tell(() => group[0]!.failed?.(error));
      return;
    }
    for (const { written } of group) this.#tell(written);
  }

  /** What somebody does with the outcome is no reason not to tell the others. */
  #tell(task: () => void): void {
    try {
      task();
    } catch (error) {
      this.#runtime.logger.error({ err: error }, 'what follows a write failed');
    }
  }
}

/** Several things that happen together, after some writes of their own. */
export function together(writes: readonly Write[], prepare: readonly (() => Prepared)[]): Prepared {
  const parts: Prepared[] = [];
  try {
    for (const one of prepare) parts.push(one());
  } catch (error) {
    for (const part of parts) part.failed?.(error);
    throw error;
  }
  return {
    writes: [...writes, ...parts.flatMap((part) => part.writes)],
    written: () => {
      for (const part of parts) part.written();
    },
    failed: (error) => {
      for (const part of parts) part.failed?.(error);
    },
  };
}
