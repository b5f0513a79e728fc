import type { Readable } from 'node:stream';
import { EclipticError } from '../../runtime/errors.js';

/** The longest line that is read unless told otherwise: room for a picture in a tool's answer. */
const MAX_LINE_BYTES = 16 * 1_048_576;

const NEWLINE = 0x0a;
const RETURN = 0x0d;

/**
 * Gives each line to `take`, in order, until the stream ends; while `take` is at work on one, nothing more is read. A
 * line that is too long ends it with `INVALID_FRAME`, and closes the stream.
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

/** A stream that was closed from this side has simply ended. */
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
