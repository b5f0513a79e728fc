import { Duplex } from 'node:stream';
import { EclipticError } from '../runtime/errors.js';

/** What a message on a link's subject is. */
export const MESSAGE = { open: 0, data: 1, credit: 2, end: 3, gone: 4 } as const;
type MessageType = (typeof MESSAGE)[keyof typeof MESSAGE];

/** Type, id of the pipe, and a count: of chunks (data, end) or of bytes (credit). */
export const ID_BYTES = 8;
const COUNT_AT = 1 + ID_BYTES;
const COUNT_BYTES = 6;
export const HEADER_BYTES = COUNT_AT + COUNT_BYTES;

/** Bytes that may be under way and unread. A broker drops a reader's connection at 64 MiB, so this bounds what one link adds. */
const WINDOW_BYTES = 1_048_576;
/** A chunk has to fit the broker's `max_payload`, which is 1 MiB unless configured lower. */
const CHUNK_BYTES = 131_072;
const GRANT_BYTES = WINDOW_BYTES / 4;
/** Written bytes that wait for a publish before the writer has to wait. */
const OUT_BYTES = 262_144;
const MAX_REASON = 200;

/** A message as its parts. Undefined: it is shorter than a header. */
export function readMessage(
  data: Uint8Array,
): { type: number; id: string; count: number; bytes: Uint8Array } | undefined {
  if (data.byteLength < HEADER_BYTES) return undefined;
  const header = Buffer.from(data.buffer, data.byteOffset, HEADER_BYTES);
  return {
    type: header[0]!,
    id: header.toString('hex', 1, COUNT_AT),
    count: header.readUIntBE(COUNT_AT, COUNT_BYTES),
    bytes: data.subarray(HEADER_BYTES),
  };
}

export function writeMessage(
  type: MessageType,
  id: Uint8Array,
  count: number,
  parts: readonly Uint8Array[] = [],
): Buffer {
  const length = parts.reduce((sum, part) => sum + part.byteLength, HEADER_BYTES);
  const message = Buffer.allocUnsafe(length);
  message[0] = type;
  message.set(id, 1);
  message.writeUIntBE(count, COUNT_AT, COUNT_BYTES);
  let at = HEADER_BYTES;
  for (const part of parts) {
    message.set(part, at);
    at += part.byteLength;
  }
  return message;
}

export interface PipeInit {
  readonly id: Uint8Array;
  /** The broker's largest message. */
  readonly maxPayload: number;
  /** Publishes to the other end. */
  readonly post: (message: Uint8Array) => void;
}

/**
 * A stream of bytes to one other node, in numbered chunks over a broker that delivers each at most once. A chunk that is
 * missing ends it. The reader grants what the writer may send, because a broker drops messages for a reader that is slow.
 */
export class Pipe extends Duplex {
  readonly #init: PipeInit;
  readonly #chunkBytes: number;
  #out: Uint8Array[] = [];
  #outBytes = 0;
  /** The writer's callback, while it waits for room. */
  #resume: ((error?: Error | null) => void) | undefined;
  #final: ((error?: Error | null) => void) | undefined;
  #flushing = false;
  #sentChunks = 0;
  #sentBytes = 0;
  #granted = WINDOW_BYTES;
  #in: Uint8Array[] = [];
  #receivedChunks = 0;
  #receivedBytes = 0;
  #readBytes = 0;
  #announcedBytes = 0;
  #ended = false;
  #finished = false;
  #otherGone = false;
  /** Bytes that may arrive in all. */
  maxBytes = Number.POSITIVE_INFINITY;

  constructor(init: PipeInit) {
    super({ allowHalfOpen: true, writableHighWaterMark: OUT_BYTES });
    this.#init = init;
    this.#chunkBytes = Math.max(1, Math.min(CHUNK_BYTES, init.maxPayload - HEADER_BYTES));
  }

  /** Takes a message of the other end. */
  receive(type: number, count: number, bytes: Uint8Array): void {
    if (this.destroyed) return;
    if (type === MESSAGE.credit) this.#grant(count);
    else if (type === MESSAGE.gone) this.#gone(Buffer.from(bytes.subarray(0, MAX_REASON)).toString());
    else if (type !== MESSAGE.data && type !== MESSAGE.end) return;
    else if (count !== this.#receivedChunks || this.#ended) {
      this.#fail(`the broker lost a message: chunk ${this.#receivedChunks} was due, ${count} came`);
    } else if (type === MESSAGE.end) {
      this.#ended = true;
      this.#deliver();
    } else this.#append(bytes);
  }

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#out.push(chunk);
    this.#outBytes += chunk.byteLength;
    this.#schedule();
    if (this.#outBytes < OUT_BYTES) done();
    else this.#resume = done;
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#final = done;
    this.#flush();
  }

  override _read(): void {
    this.#deliver();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // A reader that has seen the end of both directions needs no more news.
    if (!this.#otherGone && !(this.#ended && this.#finished)) this.#post(MESSAGE.gone, 0, []);
    this.#out = [];
    this.#in = [];
    done(error);
  }

  /** Everything that is written in one turn goes out together. */
  #schedule(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.destroyed) return;
    while (this.#outBytes > 0 && this.#sentBytes < this.#granted) this.#sendChunk();
    if (this.#outBytes < OUT_BYTES && this.#resume) {
      const resume = this.#resume;
      this.#resume = undefined;
      resume();
    }
    if (this.#outBytes > 0 || !this.#final) return;
    const final = this.#final;
    this.#final = undefined;
    this.#post(MESSAGE.end, this.#sentChunks, []);
    this.#finished = true;
    final();
  }

  #sendChunk(): void {
    let room = Math.min(this.#chunkBytes, this.#granted - this.#sentBytes);
    const parts: Uint8Array[] = [];
    let at = 0;
    while (room > 0 && at < this.#out.length) {
      const next = this.#out[at]!;
      if (next.byteLength > room) {
        parts.push(next.subarray(0, room));
        this.#out[at] = next.subarray(room);
        room = 0;
      } else {
        parts.push(next);
        room -= next.byteLength;
        at++;
      }
    }
    this.#out.splice(0, at);
    const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0);
    this.#outBytes -= bytes;
    this.#sentBytes += bytes;
    this.#post(MESSAGE.data, this.#sentChunks++, parts);
  }

  #grant(readBytes: number): void {
    this.#granted = Math.max(this.#granted, readBytes + WINDOW_BYTES);
    if (readBytes > this.#sentBytes) this.#fail('the other end acknowledged bytes that were not sent');
    else this.#flush();
  }

  #append(bytes: Uint8Array): void {
    this.#receivedChunks++;
    this.#receivedBytes += bytes.byteLength;
    if (this.#receivedBytes - this.#readBytes > WINDOW_BYTES) this.#fail('the other end sent more than it was granted');
    else if (this.#receivedBytes > this.maxBytes) this.#fail('it sends no handshake');
    else {
      this.#in.push(bytes);
      this.#deliver();
    }
  }

  #deliver(): void {
    while (this.#in.length > 0) {
      const bytes = this.#in.shift()!;
      this.#readBytes += bytes.byteLength;
      if (!this.push(bytes)) break;
    }
    if (this.#readBytes - this.#announcedBytes >= GRANT_BYTES) {
      this.#announcedBytes = this.#readBytes;
      this.#post(MESSAGE.credit, this.#readBytes, []);
    }
    if (this.#ended && this.#in.length === 0 && !this.readableEnded) this.push(null);
  }

  #gone(reason: string): void {
    this.#otherGone = true;
    this.#fail(reason === '' ? 'the other end is gone' : `the other end is gone: ${reason}`);
  }

  #fail(reason: string): void {
    this.destroy(new EclipticError('PEER_UNREACHABLE', reason));
  }

  #post(type: MessageType, count: number, parts: readonly Uint8Array[]): void {
    this.#init.post(writeMessage(type, this.#init.id, count, parts));
  }
}
