import type { Write } from '../store/store.js';
import type { GroupWriter } from './group-writer.js';

const BLOCK = 10_000;

/**
 * Numbers that only grow and are never given twice, also across restarts: the store is told of a block of them before
 * any of it is used, so that a number costs no write of its own.
 */
export class Numbers {
  readonly #name: string;
  readonly #writer: GroupWriter;
  #last: number;
  /** Numbers up to this one will not be given again after a restart. */
  #reserved: number;
  #reserving = false;

  /** `reserved` is what the store has under that name. */
  constructor(name: string, reserved: number, writer: GroupWriter) {
    this.#name = name;
    this.#writer = writer;
    this.#last = reserved;
    this.#reserved = reserved;
  }

  /** The highest number that may have been given. */
  get last(): number {
    return this.#last;
  }

  /** The next number. What must be written together with its use, if anything, is added to `writes`. */
  take(writes: Write[]): number {
    const number = ++this.#last;
    if (number > this.#reserved) writes.push(this.#reservation(number + BLOCK));
    if (number > this.#reserved - BLOCK / 2) this.#reserve(number + BLOCK);
    return number;
  }

  #reserve(upTo: number): void {
    if (this.#reserving) return;
    this.#reserving = true;
    const over = () => {
      this.#reserving = false;
    };
    const written = () => {
      this.#reserved = upTo;
      over();
    };
    this.#writer.add({ writes: [this.#reservation(upTo)], written, failed: over });
  }

  #reservation(value: number): Write {
    return { put: 'cursors', row: { name: this.#name, value } };
  }
}
