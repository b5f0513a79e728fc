import type { Readable } from 'node:stream';
import { wait } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

/** Default limit of a line: room for a picture in a tool's answer. */
const MAX_LINE_BYTES = 16 * 1_048_576;

const NEWLINE = 0x0a;
const RETURN = 0x0d;

/**
 * Gives each line to `take`, in order, until the stream ends; while `take` handles a line, nothing more is read. A line
 * that is too long fails with `INVALID_FRAME`, and closes the stream.
 */
export async function readLines(
  stream: Readable,
  take: (line: string) => void | Promise<void>,
  maxBytes = MAX_LINE_BYTES,
): Promise<void> {
  let parts: Buffer[] = [];
  let length = 0;
  const line = () => {
    const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    parts = [];
    length = 0;
    return bytes.toString('utf8', 0, bytes.at(-1) === RETURN ? bytes.length - 1 : bytes.length);
  };
  for await (const chunk of untilClosed(stream)) {
    for (let from = 0; from < chunk.length; ) {
      const newline = chunk.indexOf(NEWLINE, from);
      const end = newline < 0 ? chunk.length : newline;
      length += end - from;
      if (length > maxBytes) throw tooLong(maxBytes);
      parts.push(chunk.subarray(from, end));
      from = end + 1;
      if (newline < 0) continue;
      const taken = take(line());
      if (taken) await taken;
    }
  }
  if (length > 0) await take(line());
}

/** Closing the stream from this side is not an error. */
async function* untilClosed(stream: Readable): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* stream as AsyncIterable<Buffer>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  }
}

function tooLong(maxBytes: number): EclipticError {
  return new EclipticError('INVALID_FRAME', `a line is longer than ${maxBytes} bytes`, { maxBytes });
}

/** Limits per second. */
interface Rates {
  readonly bytes: number;
  readonly messages: number;
}

const RATES: Rates = { bytes: 16 * 1_048_576, messages: 2_000 };
/** Seconds' worth that may come at once. */
const BURST = 2;

/**
 * Rate limit for the output of one program: above the limit, reading pauses, so the flood waits in the program's pipe and
 * takes no time from others.
 */
export class Allowance {
  readonly #runtime: Runtime;
  readonly #rates: Rates;
  #bytes: number;
  #messages: number;
  #at: number;
  #floods = 0;

  constructor(runtime: Runtime, rates: Rates = RATES) {
    this.#runtime = runtime;
    this.#rates = rates;
    this.#bytes = rates.bytes * BURST;
    this.#messages = rates.messages * BURST;
    this.#at = runtime.stopwatch();
  }

  /** How often reading had to pause. */
  get floods(): number {
    return this.#floods;
  }

  /** Where the limit is exceeded, the returned promise resolves when reading may go on. */
  spend(bytes: number, messages = 1): Promise<void> | undefined {
    this.#bytes -= bytes;
    this.#messages -= messages;
    if (this.#bytes > 0 && this.#messages > 0) return undefined;
    return this.#refill();
  }

  async #refill(): Promise<void> {
    let counted = false;
    for (;;) {
      const now = this.#runtime.stopwatch();
      const seconds = (now - this.#at) / 1_000;
      this.#at = now;
      const { bytes, messages } = this.#rates;
      this.#bytes = Math.min(bytes * BURST, this.#bytes + bytes * seconds);
      this.#messages = Math.min(messages * BURST, this.#messages + messages * seconds);
      const lacking = Math.max(1 - this.#bytes / bytes, 1 - this.#messages / messages);
      if (this.#bytes > 0 && this.#messages > 0) return;
      if (!counted) this.#floods++;
      counted = true;
      // Waits for a tenth of a second's worth, so that it does not pause for every line.
      await wait(this.#runtime, Math.min(1_000, Math.max(20, (lacking - 0.9) * 1_000)));
    }
  }
}
