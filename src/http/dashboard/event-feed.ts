import type { ServerResponse } from 'node:http';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { DashboardSource, MessageLine, Viewer } from './facts.js';

/** A named server-sent event. `data` is JSON, so it has no line breaks. */
function encode(event: string, data: unknown, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A read that is sent whenever its result changes. */
export interface FeedRead {
  /** The name with its query, by which the reader knows it. */
  readonly key: string;
  readonly name: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Undefined for the owner. */
  readonly viewer: Viewer | undefined;
}

export interface FeedInit {
  readonly lastEventId?: string | undefined;
  readonly reads?: readonly FeedRead[];
  /** Which messages the reader gets; undefined for none. */
  readonly messages: MessageFilter | undefined;
  /** The caller; undefined for the owner. */
  readonly viewer?: string | undefined;
}

interface MessageFilter {
  readonly agent?: string | null;
  readonly refused?: boolean;
}

interface Reader {
  readonly response: ServerResponse;
  readonly reads: readonly Followed[];
  readonly filter: MessageFilter | undefined;
  readonly viewer: string | undefined;
  /** Messages that it was too slow for, in this interval. */
  missed: number;
}

/** A read that readers share. */
interface Followed {
  readonly read: FeedRead;
  /** The event with its last result or failure; undefined before the first. */
  text: string | undefined;
  running: Promise<void> | undefined;
  readers: number;
}

interface Kept {
  readonly number: number;
  readonly line: MessageLine;
  readonly text: string;
}

/** Half of them for the owner. */
const MAX_READERS = 64;
const MAX_OF_VIEWER = 4;
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
const NEVER = new AbortController().signal;

/**
 * The stream of events for pages: followed reads whenever their results change, and messages as they are routed. Messages
 * are numbered, and a reader resumes from a ring. Above a rate only some are shown, and readers are told.
 */
export class EventFeed {
  readonly #runtime: Runtime;
  readonly #source: DashboardSource;
  readonly #readers = new Set<Reader>();
  readonly #followed = new Map<string, Followed>();
  #ring: Kept[] = [];
  /** Changes whenever numbers would not be continuous. */
  #epoch = '';
  #last = 0;
  /** Messages of this interval that were passed on. */
  #shown = 0;
  /** Messages of the node at the start of this interval. */
  #routed = 0;
  #idle = 0;
  #timer: Timer | undefined;
  /** Undefined in the rest of an interval with too many messages: then they cost nothing. */
  #following: AbortController | undefined;

  constructor(runtime: Runtime, source: DashboardSource) {
    this.#runtime = runtime;
    this.#source = source;
  }

  async open(response: ServerResponse, { lastEventId, reads = [], messages, viewer }: FeedInit): Promise<void> {
    this.#requireRoom(viewer);
    this.#begin();
    const followed = reads.map((read) => this.#join(read));
    const reader: Reader = { response, reads: followed, filter: messages, viewer, missed: 0 };
    // Before anything is awaited, so that the limit holds.
    this.#readers.add(reader);
    response.on('close', () => this.#leave(reader));
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
    });
    response.write(encode('hello', this.#source.node()));
    for (const { text } of reader.reads) if (text !== undefined) response.write(text);
    const missed = this.#since(lastEventId);
    if (missed) for (const { text, line } of missed) if (wants(reader, line)) response.write(text);
    if (!missed && messages) response.write(encode('reset', {}, `${this.#epoch}-${this.#last}`));
    await Promise.all(reader.reads.map((one) => this.#evaluate(one)));
  }

  /** Evaluates all followed reads, and sends those that changed. */
  async refresh(): Promise<void> {
    await Promise.all([...this.#followed.values()].map((one) => this.#evaluate(one)));
  }

  close(): void {
    this.#end();
    for (const { response } of this.#readers) response.end();
    this.#readers.clear();
    this.#followed.clear();
  }

  /** Other callers share half of the streams, so they cannot keep the owner out. */
  #requireRoom(viewer: string | undefined): void {
    const readers = [...this.#readers];
    const others = readers.filter((reader) => reader.viewer !== undefined);
    const own =
      viewer === undefined ? readers.length - others.length : others.filter((one) => one.viewer === viewer).length;
    const most = viewer === undefined ? MAX_READERS / 2 : MAX_OF_VIEWER;
    if (own < most && (viewer === undefined || others.length < MAX_READERS / 2)) return;
    throw new EclipticError('QUEUE_FULL', `${own < most ? others.length : own} streams are open already; close one`);
  }

  #join(read: FeedRead): Followed {
    const { key, viewer } = read;
    const id = JSON.stringify([key, viewer?.address, viewer?.sandboxId]);
    let followed = this.#followed.get(id);
    if (!followed) {
      followed = { read, text: undefined, running: undefined, readers: 0 };
      this.#followed.set(id, followed);
    }
    followed.readers++;
    return followed;
  }

  #leave(reader: Reader): void {
    if (!this.#readers.delete(reader)) return;
    for (const followed of reader.reads) followed.readers--;
    for (const [id, { readers }] of this.#followed) if (readers === 0) this.#followed.delete(id);
  }

  #begin(): void {
    this.#idle = 0;
    if (this.#timer) return;
    this.#epoch = this.#runtime.id();
    this.#last = 0;
    this.#ring = [];
    this.#follow();
    this.#schedule();
  }

  #follow(): void {
    this.#shown = 0;
    this.#routed = this.#source.routed();
    if (this.#following) return;
    this.#following = new AbortController();
    this.#source.follow((line) => this.#take(line), this.#following.signal);
  }

  #unfollow(): void {
    this.#following?.abort();
    this.#following = undefined;
  }

  #end(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#unfollow();
    this.#ring = [];
  }

  #schedule(): void {
    this.#timer = this.#runtime.setTimer(() => this.#tick(), TICK_MS);
  }

  #take(line: MessageLine): void {
    // Some more come before the source has stopped.
    if (this.#shown >= MAX_PER_TICK) return;
    if (++this.#shown === MAX_PER_TICK) this.#unfollow();
    const number = ++this.#last;
    const text = encode('message', line, `${this.#epoch}-${number}`);
    this.#ring.push({ number, line, text });
    if (this.#ring.length > RING) this.#ring.shift();
    for (const reader of this.#readers) {
      if (!wants(reader, line)) continue;
      if (reader.response.writableLength > BACKLOG_BYTES) reader.missed++;
      else reader.response.write(text);
    }
  }

  #tick(): void {
    this.#idle = this.#readers.size === 0 ? this.#idle + 1 : 0;
    if (this.#idle > IDLE_TICKS) {
      this.#end();
      return;
    }
    const seen = this.#source.routed() - this.#routed;
    const passed = this.#shown;
    this.#follow();
    for (const reader of this.#readers) {
      const { response, missed, filter } = reader;
      const shown = passed - missed;
      reader.missed = 0;
      // A comment keeps a quiet connection open, and tells the page that it is alive.
      response.write(filter && shown < seen ? encode('sampled', { shown, total: seen }) : ': \n\n');
      if (response.writableLength > MAX_BACKLOG_BYTES) response.destroy();
    }
    // A read that takes longer than the interval must not hold up the others.
    void this.refresh();
    this.#schedule();
  }

  /** Readers that ask at the same time share one evaluation. */
  #evaluate(followed: Followed): Promise<void> {
    followed.running ??= this.#read(followed).finally(() => {
      followed.running = undefined;
    });
    return followed.running;
  }

  async #read(followed: Followed): Promise<void> {
    const { key, name, params, viewer } = followed.read;
    try {
      const text = encode('read', { key, value: (await this.#source.run(name, params, NEVER, viewer)) ?? null });
      if (text === followed.text) return;
      followed.text = text;
      this.#send(followed, text);
    } catch (thrown) {
      const { code, message } = toEclipticError(thrown, 'HANDLER_FAILED');
      const text = encode('read', { key, error: { code, message } });
      if (text === followed.text) return;
      followed.text = text;
      this.#send(followed, text);
    }
  }

  #send(followed: Followed, text: string): void {
    for (const { response, reads } of this.#readers) if (reads.includes(followed)) response.write(text);
  }

  /** The messages after an id; undefined if the ring no longer has them all. */
  #since(lastEventId: string | undefined): readonly Kept[] | undefined {
    const [, epoch, number] = /^(\w+)-(\d{1,15})$/.exec(lastEventId ?? '') ?? [];
    const oldest = this.#ring[0]?.number ?? this.#last + 1;
    if (epoch !== this.#epoch || Number(number) < oldest - 1 || Number(number) > this.#last) return undefined;
    return this.#ring.filter((one) => one.number > Number(number));
  }
}

function wants({ filter }: Reader, { from, to, code }: MessageLine): boolean {
  if (!filter || (filter.refused && code === null)) return false;
  return !filter.agent || from === filter.agent || to === filter.agent;
}
