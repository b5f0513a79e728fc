import { tooLarge } from './fetch-errors.js';

const FIRST_BYTES = 4_096;

/** Bytes in one piece. They are copied, for a million chunks of one byte would cost a hundred times what they hold. */
export class ByteCollector {
  readonly #what: string;
  readonly #maxBytes: number;
  #held: Buffer = Buffer.alloc(0);
  #length = 0;

  constructor(what: string, maxBytes: number) {
    this.#what = what;
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#length;
  }

  add(bytes: Uint8Array): void {
    const length = this.#length + bytes.length;
    if (length > this.#maxBytes) throw tooLarge(this.#what, this.#maxBytes);
    if (length > this.#held.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(FIRST_BYTES, length, this.#held.length * 2));
      this.#held.copy(grown, 0, 0, this.#length);
      this.#held = grown;
    }
    this.#held.set(bytes, this.#length);
    this.#length = length;
  }

  /** What was added since the last `take`; valid until the next `add`. */
  take(): Buffer {
    const taken = this.#held.subarray(0, this.#length);
    this.#length = 0;
    return taken;
  }
}
