import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from './store.js';

/** Changes of the store, with the callbacks for success and failure. */
export interface Prepared {
  readonly writes: readonly Write[];
  readonly written: () => void;
  readonly failed?: (error: unknown) => void;
}

/** Changes, and characters of their texts, in one call of the store: more would block the event loop and other callers. */
const MAX_WRITES = 1_000;
const MAX_CHARS = 8 * 1_048_576;
const BLOCK = 10_000;

/**
 * Groups the changes of many callers into few calls of the store: one call at a time, and changes that come meanwhile go
 * with the next. Changes are written, and their callbacks called, in the order of the requests. If a group fails, each
 * of its members is written alone, so that one faulty change does not fail the others.
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

  /** Resolves after the changes are on disk and `written` was called; rejects if they cannot be written. */
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

  /** Resolves when every requested change is written or has failed. */
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
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  #takeGroup(): Prepared[] {
    let writes = 0;
    let chars = 0;
    let count = 0;
    while (count < this.#waiting.length && writes < MAX_WRITES && chars < MAX_CHARS) {
      const next = this.#waiting[count++]!;
      writes += next.writes.length;
      chars += charsOf(next.writes);
    }
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
      else this.#call(() => group[0]!.failed?.(error));
      return;
    }
    for (const { written } of group) this.#call(written);
  }

  #call(callback: () => void): void {
    try {
      callback();
    } catch (error) {
      this.#runtime.logger.error({ err: error }, 'store: a callback after a write failed');
    }
  }
}

function charsOf(writes: readonly Write[]): number {
  let chars = 0;
  for (const write of writes) {
    if (!('row' in write)) continue;
    // The text of the envelope: every other column is short.
    const { envelope } = write.row as { envelope?: unknown };
    if (typeof envelope === 'string') chars += envelope.length;
  }
  return chars;
}

/** Combines prepared changes into one, which also makes `writes`. If one cannot be prepared, the earlier ones fail. */
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

/**
 * Gives out numbers that only grow and never repeat, also across restarts: a block of them is reserved in the store
 * before any of it is used, so that a number costs no write of its own.
 */
export class SequenceAllocator {
  readonly #name: string;
  readonly #writer: GroupWriter;
  #last: number;
  #reserved: number;
  #reserving = false;

  /** `reserved` is the stored value of the cursor of that name. */
  constructor(name: string, reserved: number, writer: GroupWriter) {
    this.#name = name;
    this.#writer = writer;
    this.#last = reserved;
    this.#reserved = reserved;
  }

  /** The highest number that may have been given out. */
  get last(): number {
    return this.#last;
  }

  /** The next number. Changes that must be made in the transaction that uses it, if any, are added to `writes`. */
  take(writes: Write[]): number {
    const number = ++this.#last;
    if (number > this.#reserved) writes.push(this.#reservation(number + BLOCK));
    if (number > this.#reserved - BLOCK / 2) this.#reserve(number + BLOCK);
    return number;
  }

  #reserve(upTo: number): void {
    if (this.#reserving) return;
    this.#reserving = true;
    const failed = () => {
      this.#reserving = false;
    };
    const written = () => {
      this.#reserved = upTo;
      this.#reserving = false;
    };
    this.#writer.add({ writes: [this.#reservation(upTo)], written, failed });
  }

  #reservation(value: number): Write {
    return { put: 'cursors', row: { name: this.#name, value } };
  }
}
