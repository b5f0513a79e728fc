import type { ValidEnvelope } from '../a2a/envelope.js';
import type { ThreadTable } from '../a2a/thread-table.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { assertDelivered, isPromise, type Outbox, type Recipient } from './outbox.js';
import { PendingRequest } from './pending.js';
import { type StreamPort, StreamReader, StreamWriter } from './streams.js';
import { fromWireError } from './wire-error.js';

export interface RequestOptions {
  /** How long to wait for the answer; for a stream, how long it may be silent. Default 30 s. */
  timeoutMs?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
}

export interface ConversationsComponents {
  runtime: Runtime;
  threads: ThreadTable;
  deadlines: DeadlineQueue;
  outbox: Outbox;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** One end of a stream, and who is at the other: known from the start, or once the first answer came. */
interface OpenStream<End> {
  readonly end: End;
  peer: string | undefined;
}

/** The requests an agent waits on and the streams it reads and writes, each known by its thread. */
export class Conversations {
  readonly #agentId: string;
  readonly #components: ConversationsComponents;
  readonly #pending = new Map<string, PendingRequest>();
  readonly #readers = new Map<string, OpenStream<StreamReader>>();
  readonly #writers = new Map<string, OpenStream<StreamWriter>>();

  constructor(agentId: string, components: ConversationsComponents) {
    this.#agentId = agentId;
    this.#components = components;
  }

  request(to: Recipient, payload: unknown, options: RequestOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { runtime, deadlines } = this.#components;
      const thread = runtime.id();
      const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      const pending = new PendingRequest(thread, to, deadlines, timeoutMs, this.#forget, resolve, reject);
      this.#pending.set(thread, pending);
      if (options.signal) this.#failOn(options.signal, () => this.#pending.has(thread), pending);
      this.#open(to, payload, thread, pending);
    });
  }

  stream(to: Recipient, payload: unknown, options: RequestOptions): StreamReader {
    const thread = this.#components.runtime.id();
    const reader = this.#reader(thread, undefined, options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    if (options.signal) this.#failOn(options.signal, () => this.#readers.has(thread), reader);
    this.#open(to, payload, thread, reader);
    return reader;
  }

  /** A stream that another agent opened towards this one. */
  incoming(thread: string, peer: string): StreamReader {
    return this.#reader(thread, peer, DEFAULT_TIMEOUT_MS);
  }

  /** Sends a stream: a new one, or as the answer in a thread that the other side opened. */
  async write(to: string, source: AsyncIterable<unknown> | Iterable<unknown>, thread = this.#newThread()) {
    if (to === this.#agentId) throw new EclipticError('INVALID_ENVELOPE', 'an agent cannot stream to itself');
    const writer = new StreamWriter(this.#port(thread, this.#writers), DEFAULT_TIMEOUT_MS);
    this.#writers.set(thread, { end: writer, peer: to });
    await writer.pump(source);
  }

  /** Takes an envelope that belongs to one of these conversations; false when it belongs to none. */
  take(envelope: ValidEnvelope): boolean {
    const thread = envelope.correlationId;
    if (thread === undefined) return false;
    const writer = this.#writers.size > 0 ? this.#writers.get(thread) : undefined;
    if (writer?.peer === envelope.sender) return advise(writer.end, envelope);
    const pending = this.#pending.get(thread);
    if (pending) return this.#isAnswer(envelope, pending.to) && this.#settle(pending, envelope);
    const reader = this.#readers.get(thread);
    if (!reader || !this.#isFrom(reader, envelope)) return false;
    return feed(reader.end, envelope);
  }

  /** Ends everything: this agent leaves. */
  end(error: EclipticError): void {
    for (const pending of [...this.#pending.values()]) pending.fail(error);
    for (const { end } of [...this.#readers.values()]) end.fail(error);
    for (const { end } of [...this.#writers.values()]) end.stop(error);
  }

  /** Sends the request that opens a thread; a failure to send it ends the wait for its answer. */
  #open(to: Recipient, payload: unknown, thread: string, waiting: { fail(error: EclipticError): void }): void {
    try {
      const result = this.#components.outbox.ask(to, payload, thread);
      if (isPromise(result)) result.then(assertDelivered).catch((error) => waiting.fail(error));
      else assertDelivered(result);
    } catch (error) {
      waiting.fail(error as EclipticError);
    }
  }

  #settle(pending: PendingRequest, envelope: ValidEnvelope): true {
    pending.answer(envelope);
    if (envelope.type === 'stream-start') this.#components.outbox.reply(envelope, 'stream-end', null);
    return true;
  }

  #failOn(signal: AbortSignal, isOpen: () => boolean, waiting: { fail(error: EclipticError): void }): void {
    const cancel = () => {
      if (isOpen()) waiting.fail(new EclipticError('CANCELLED', 'the caller cancelled'));
    };
    if (signal.aborted) queueMicrotask(cancel);
    else signal.addEventListener('abort', cancel, { once: true });
  }

  /** Did this agent open the thread towards the sender? A stranger who guesses a thread's id answers nothing. */
  #isAnswer(envelope: ValidEnvelope, asked?: Recipient): boolean {
    if (envelope.sender === asked) return true;
    return this.#components.threads.isReply(envelope.type, envelope.correlationId, envelope.sender, this.#agentId);
  }

  #isFrom(stream: OpenStream<unknown>, envelope: ValidEnvelope): boolean {
    if (stream.peer === undefined && this.#isAnswer(envelope)) stream.peer = envelope.sender;
    return stream.peer === envelope.sender;
  }

  readonly #forget = (request: PendingRequest): void => {
    this.#pending.delete(request.thread);
  };

  #reader(thread: string, peer: string | undefined, idleMs: number): StreamReader {
    const reader = new StreamReader(this.#port(thread, this.#readers), idleMs);
    this.#readers.set(thread, { end: reader, peer });
    return reader;
  }

  #port(thread: string, table: Map<string, OpenStream<unknown>>): StreamPort {
    const { deadlines, outbox } = this.#components;
    return {
      deadlines,
      send: async (type, payload) => {
        const peer = table.get(thread)?.peer;
        if (peer !== undefined) await outbox.deliver(peer, type, payload, { thread });
      },
      finished: () => {
        table.delete(thread);
      },
    };
  }

  #newThread(): string {
    return this.#components.runtime.id();
  }
}

/** What a reader says back to the writer: more room, or stop. */
function advise(writer: StreamWriter, envelope: ValidEnvelope): true {
  if (envelope.type === 'stream-data') writer.credit(envelope.payload);
  else writer.stop(new EclipticError('CANCELLED', `${envelope.sender} stopped reading`));
  return true;
}

function feed(reader: StreamReader, envelope: ValidEnvelope): boolean {
  switch (envelope.type) {
    case 'stream-start':
      return true;
    case 'stream-data':
      reader.push(envelope.payload);
      return true;
    case 'stream-end':
      reader.end();
      return true;
    case 'error':
      reader.fail(fromWireError(envelope.payload, envelope.sender));
      return true;
    case 'response':
      reader.push(envelope.payload);
      reader.end();
      return true;
    default:
      return false;
  }
}
