import type { IncomingMessage } from 'node:http';
import { EclipticError } from '../../runtime/errors.js';
import { causeOf, failed, tooLarge } from './fetch-errors.js';
import type { Lifeline } from './lifeline.js';

interface BodyLimits {
  readonly origin: string;
  readonly maxBytes: number;
  /** Longest silence of the other side while the reader waits. */
  readonly idleMs: number;
}

/**
 * The body in chunks, with back-pressure. Leaving the iteration closes the connection; so does the lifeline, whether the
 * body is read or not.
 */
export function bodyOf(response: IncomingMessage, init: BodyLimits, lifeline: Lifeline): AsyncGenerator<Buffer, void> {
  const what = `the answer of ${init.origin}`;
  // The connection may break while nothing reads; the next read gets the error.
  response.on('error', () => {});
  lifeline.onEnd(() => response.destroy());
  response.once('close', () => lifeline.release());
  if (Number(response.headers['content-length'] ?? 0) > init.maxBytes) lifeline.end(tooLarge(what, init.maxBytes));
  return chunks();

  async function* chunks(): AsyncGenerator<Buffer, void, undefined> {
    let length = 0;
    try {
      if (lifeline.reason) throw lifeline.reason;
      lifeline.listen(init.idleMs);
      for await (const chunk of response as AsyncIterable<Buffer>) {
        lifeline.heard();
        length += chunk.length;
        if (length > init.maxBytes) throw tooLarge(what, init.maxBytes);
        yield chunk;
        lifeline.listen(init.idleMs);
      }
    } catch (error) {
      if (error instanceof EclipticError) throw error;
      throw lifeline.reason ?? failed({ origin: init.origin, cause: causeOf(error), sent: true });
    } finally {
      lifeline.heard();
    }
    if (lifeline.reason) throw lifeline.reason;
  }
}

const FIRST_BYTES = 4_096;

/** Collects bytes in one buffer. Keeping chunks instead would cost a hundred times as much for chunks of one byte. */
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

  /** The bytes added since the last `take`; valid until the next `add`. */
  take(): Buffer {
    const taken = this.#held.subarray(0, this.#length);
    this.#length = 0;
    return taken;
  }
}
