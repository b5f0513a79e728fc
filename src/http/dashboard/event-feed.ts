import type { ServerResponse } from 'node:http';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { DashboardSource, MessageLine } from './facts.js';

/** A named server-sent event. `data` is JSON, so it has no line breaks. */
function encode(event: string, data: unknown, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

interface Reader {
  readonly response: ServerResponse;
  /** Messages that it was too slow for, in this interval. */
  missed: number;
}

const MAX_READERS = 32;
const RING = 1_000;
const TICK_MS = 1_000;
/** Messages in one interval that are passed on. */
const MAX_PER_TICK = 50;
/** Unread output after which a reader gets no messages. */
const BACKLOG_BYTES = 1_048_576;
/** Unread output after which a reader is disconnected. */
const MAX_BACKLOG_BYTES = 8 * 1_048_576;
/** Intervals without readers for which the ring is still filled, so that a page that reloads can resume. */
const IDLE_TICKS = 30;

/**
 * The stream of events for pages: snapshots of what waits and of the agents whenever they change, and messages as they are
 * routed. Messages are numbered, and a reader resumes from a ring. Above a rate only some are shown, and readers are told.
 */
export class EventFeed {
  readonly #runtime: Runtime;
  readonly #source: DashboardSource;
  readonly #readers = new Set<Reader>();
  readonly #snapshots = new Map<'waiting' | 'agents', string>();
  #ring: { readonly number: number; readonly text: string }[] = [];
  /** Changes whenever numbers would not be continuous. */
  #epoch = '';
  #last = 0;
  #seen = 0;
  #idle = 0;
  #timer: Timer | undefined;
  #following: AbortController | undefined;
  #reading: Promise<void> | undefined;

  constructor(runtime: Runtime, source: DashboardSource) {
    this.#runtime = runtime;
    this.#source = source;
  }

  async open(response: ServerResponse, lastEventId: string | undefined): Promise<void> {
    if (this.#readers.size >= MAX_READERS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_READERS} pages are open already; close one`);
    }
    this.#begin();
    const reader: Reader = { response, missed: 0 };
    // Before anything is awaited, so that the limit holds.
    this.#readers.add(reader);
    response.on('close', () => this.#readers.delete(reader));
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
    });
    response.write(encode('hello', this.#source.node()));
    for (const [name, text] of this.#snapshots) response.write(encoded(name, text));
    const missed = this.#since(lastEventId);
    if (missed) for (const { text } of missed) response.write(text);
    else response.write(encode('reset', {}, `${this.#epoch}-${this.#last}`));
    await this.refresh();
  }

  /** Reads what waits and the agents, and sends them if they changed. Calls at the same time share one read. */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  close(): void {
    this.#end();
    for (const { response } of this.#readers) response.end();
    this.#readers.clear();
  }

  #begin(): void {
    this.#idle = 0;
    if (this.#following) return;
    this.#epoch = this.#runtime.id();
    this.#last = 0;
    this.#ring = [];
    this.#following = new AbortController();
    this.#source.follow((message) => this.#take(message), this.#following.signal);
    this.#schedule();
  }

  #end(): void {
    this.#timer?.cancel();
    this.#following?.abort();
    this.#following = undefined;
    this.#snapshots.clear();
    this.#ring = [];
  }

  #schedule(): void {
    this.#timer = this.#runtime.setTimer(() => void this.#tick(), TICK_MS);
  }

  /** A message is a function, so that one that is not shown is not described. */
  #take(message: () => MessageLine): void {
    this.#seen++;
    if (this.#seen > MAX_PER_TICK) return;
    const number = ++this.#last;
    const text = encode('message', message(), `${this.#epoch}-${number}`);
    this.#ring.push({ number, text });
    if (this.#ring.length > RING) this.#ring.shift();
    for (const reader of this.#readers) {
      if (reader.response.writableLength > BACKLOG_BYTES) reader.missed++;
      else reader.response.write(text);
    }
  }

  async #tick(): Promise<void> {
    this.#idle = this.#readers.size === 0 ? this.#idle + 1 : 0;
    if (this.#idle > IDLE_TICKS) return this.#end();
    const seen = this.#seen;
    this.#seen = 0;
    for (const reader of this.#readers) {
      const { response, missed } = reader;
      const shown = Math.min(seen, MAX_PER_TICK) - missed;
      reader.missed = 0;
      // A comment keeps a quiet connection open, and tells the page that it is alive.
      response.write(shown < seen ? encode('sampled', { shown, total: seen }) : ': \n\n');
      if (response.writableLength > MAX_BACKLOG_BYTES) response.destroy();
    }
    if (this.#readers.size > 0) await this.refresh();
    if (this.#following) this.#schedule();
  }

  async #read(): Promise<void> {
    await this.#compare('waiting', async () => (await this.#source.waiting()).items);
    await this.#compare('agents', () => this.#source.agents());
  }

  async #compare(name: 'waiting' | 'agents', read: () => Promise<unknown>): Promise<void> {
    try {
      const text = JSON.stringify(await read());
      if (text === this.#snapshots.get(name)) return;
      this.#snapshots.set(name, text);
      this.#send(encoded(name, text));
    } catch (error) {
      // The next success is sent, whether or not it differs from the last.
      this.#snapshots.delete(name);
      this.#send(encode('stale', { what: name, reason: describeError(error) }));
    }
  }

  #send(text: string): void {
    for (const { response } of this.#readers) response.write(text);
  }

  /** The events after an id; undefined if the ring no longer has them all. */
  #since(lastEventId: string | undefined): readonly { readonly text: string }[] | undefined {
    const [, epoch, number] = /^(\w+)-(\d{1,15})$/.exec(lastEventId ?? '') ?? [];
    const oldest = this.#ring[0]?.number ?? this.#last + 1;
    if (epoch !== this.#epoch || Number(number) < oldest - 1 || Number(number) > this.#last) return undefined;
    return this.#ring.filter((one) => one.number > Number(number));
  }
}

function encoded(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}
