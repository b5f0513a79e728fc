import type { Runtime } from '../runtime/runtime.js';
import { cursors } from '../store/common-tables.js';
import type { Store } from '../store/store.js';
import type { Write } from '../store/table.js';

/** Changes of the store, with the callbacks for success and failure. */
export interface Prepared {
  readonly writes: readonly Write[];
  readonly written: () => void;
  readonly failed?: (error: unknown) => void;
}

const BLOCK = 10_000;

/** Writes prepared changes, each of them all or not at all, and calls their callbacks in the order of the requests. */
export class PreparedWriter {
  readonly #runtime: Runtime;
  readonly #store: Store;

  constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
  }

  add({ writes, written, failed }: Prepared): void {
    this.#store.commit(writes, (error) => this.#tell(error, written, failed));
  }

  /** Resolves after the changes are on disk and `written` was called; rejects if they cannot be written. */
  write({ writes, written, failed }: Prepared): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#store.commit(writes, (error) => {
        this.#tell(error, written, failed);
        if (error === undefined) resolve();
        else reject(error);
      });
    });
  }

  /** Resolves when every requested change is written or has failed. */
  flush(): Promise<void> {
    return this.#store.write([]);
  }

  #tell(error: unknown, written: Prepared['written'], failed: Prepared['failed']): void {
    try {
      if (error === undefined) written();
      else failed?.(error);
    } catch (failure) {
      this.#runtime.logger.error({ err: failure }, 'store: a callback after a write failed');
    }
  }
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
  readonly #writer: PreparedWriter;
  #last: number;
  #reserved: number;
  #reserving = false;

  /** `reserved` is the stored value of the cursor of that name. */
  constructor(name: string, reserved: number, writer: PreparedWriter) {
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
    return cursors.put({ name: this.#name, value });
  }
}
