import { ByteCollector } from './body.js';
import { tooLarge } from './fetch-errors.js';

export interface ServerSentEvent {
  /** The `event:` field, or `message`. */
  readonly type: string;
  readonly data: string;
  /** The last `id:` so far, its own or an earlier event's; empty if there was none. */
  readonly id: string;
}

export interface SseInit {
  /** Size of one event with its field names. Default 1 MiB. */
  maxEventBytes?: number;
}

const MAX_EVENT_BYTES = 1_048_576;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const COLON = 0x3a;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Reads `text/event-stream` as the HTML standard says, from chunks cut anywhere. */
export class SseReader {
  readonly #maxBytes: number;
  readonly #line: ByteCollector;
  #data: string[] = [];
  #type = '';
  #id = '';
  #eventBytes = 0;
  #lastEventId = '';
  #retryMs: number | undefined;
  #isFirstLine = true;
  #afterReturn = false;

  constructor(init: SseInit = {}) {
    this.#maxBytes = init.maxEventBytes ?? MAX_EVENT_BYTES;
    this.#line = new ByteCollector('an event', this.#maxBytes);
  }

  /** The `Last-Event-ID` for resuming the stream. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** Delay before resuming that the server asked for. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /**
   * The events of a whole stream; an event that is too large is `PAYLOAD_TOO_LARGE`. An incomplete event at the end is
   * dropped.
   */
  async *read(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent, void, undefined> {
    for await (const chunk of chunks) yield* this.#push(chunk);
  }

  *#push(chunk: Uint8Array): Generator<ServerSentEvent, void, undefined> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    let from = 0;
    // Both positions are remembered: a chunk without one of them must not be searched again for every line.
    let newline = bytes.indexOf(NEWLINE);
    let carriageReturn = bytes.indexOf(RETURN);
    while (from < bytes.length) {
      if (this.#afterReturn) {
        this.#afterReturn = false;
        if (bytes[from] === NEWLINE) {
          from++;
          continue;
        }
      }
      if (newline >= 0 && newline < from) newline = bytes.indexOf(NEWLINE, from);
      if (carriageReturn >= 0 && carriageReturn < from) carriageReturn = bytes.indexOf(RETURN, from);
      const end = earlier(newline, carriageReturn);
      if (end < 0) {
        this.#line.add(bytes.subarray(from));
        return;
      }
      const rest = bytes.subarray(from, end);
      this.#afterReturn = bytes[end] === RETURN;
      from = end + 1;
      const event = this.#endLine(rest);
      if (event) yield event;
    }
  }

  #endLine(rest: Buffer): ServerSentEvent | undefined {
    let line = rest;
    if (this.#line.length > 0) {
      this.#line.add(rest);
      line = this.#line.take();
    } else if (line.length > this.#maxBytes) throw tooLarge('an event', this.#maxBytes);
    if (this.#isFirstLine) {
      this.#isFirstLine = false;
      if (line.subarray(0, 3).equals(BYTE_ORDER_MARK)) line = line.subarray(3);
    }
    if (line.length === 0) return this.#dispatch();
    this.#field(line);
    return undefined;
  }

  #field(line: Buffer): void {
    const colon = line.indexOf(COLON);
    if (colon === 0) return;
    this.#eventBytes += line.length + 1;
    if (this.#eventBytes > this.#maxBytes) throw tooLarge('an event', this.#maxBytes);
    const name = line.toString('utf8', 0, colon < 0 ? line.length : colon);
    const start = colon < 0 ? line.length : colon + (line[colon + 1] === 0x20 ? 2 : 1);
    const value = line.toString('utf8', start);
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#type = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'retry' && /^\d{1,15}$/.test(value)) this.#retryMs = Number(value);
  }

  #dispatch(): ServerSentEvent | undefined {
    this.#lastEventId = this.#id;
    const [data, type] = [this.#data, this.#type];
    this.#data = [];
    this.#type = '';
    this.#eventBytes = 0;
    // An event without data only sets the id.
    if (data.length === 0) return undefined;
    return { type: type || 'message', data: data.join('\n'), id: this.#id };
  }
}

function earlier(one: number, other: number): number {
  if (one < 0) return other;
  return other < 0 ? one : Math.min(one, other);
}
