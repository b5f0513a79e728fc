import { joinAddress } from '../mesh/address.js';
import { fromWireError, toWireError } from '../mesh/codec.js';
import type { OpenRequests } from '../mesh/direct-path.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { Exchange } from '../mesh/exchange.js';
import { assertDelivered, isPromise, type MessageSender } from '../mesh/message-sender.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { RegistryEntry } from '../mesh/registry-index.js';
import { type RefusalListener, TOLD_LATER } from '../mesh/remote-delivery.js';
import type { Recipient } from '../mesh/schemas.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { waitingIn } from '../work/waiting-report.js';
import { HeldRequests } from './held-requests.js';
import { PendingRequest, type Requester } from './pending-request.js';
import {
  type ReadingEnd,
  type StreamListener,
  type StreamPort,
  StreamReader,
  StreamTap,
  StreamWriter,
} from './streams.js';

export interface RequestOptions {
  /** How long to wait for the answer; for a stream, how long it may be silent. Default 30 s. */
  timeoutMs?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
}

export interface ConversationsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  threads: ThreadTable;
  deadlines: DeadlineQueue;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** One end of a stream. The peer is known from the start, or once the first answer came. */
interface OpenStream<End> {
  readonly end: End;
  peer: string | undefined;
  /** The reader left before the peer was known: the producer's first message is answered with the end. */
  left: boolean;
  /** Chunks that a reader got. */
  chunks: number;
}

/** An agent's open requests and streams, each identified by its thread. */
export class Conversations implements Requester, OpenRequests {
  readonly agentId: string;
  readonly #components: ConversationsComponents;
  readonly #sender: MessageSender;
  /** The latest of a linked list of requests that wait. */
  #pending: PendingRequest | undefined;
  /** Made with the first stream: most agents never have one, and there may be very many agents. */
  #readers: Map<string, OpenStream<ReadingEnd>> | undefined;
  #writers: Map<string, OpenStream<StreamWriter>> | undefined;
  /** Created with the first request whose time limit stands still while the owner of the asked agent decides. */
  #held: HeldRequests | undefined;
  #ended: EclipticError | undefined;

  constructor(agentId: string, components: ConversationsComponents, sender: MessageSender) {
    this.agentId = agentId;
    this.#components = components;
    this.#sender = sender;
  }

  whySilent(to: Recipient): string | undefined {
    if (typeof to !== 'string') return undefined;
    const status = this.#components.registry.entry(to)?.card.status;
    if (!status || status.state === 'ready') return undefined;
    return `${to} is ${status.state}${status.reason === undefined ? '' : `: ${status.reason}`}`;
  }

  request(to: Recipient, payload: unknown, options: RequestOptions): Promise<unknown> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    if (signal?.aborted) return Promise.reject(cancelled());
    return new Promise((resolve, reject) => {
      const { runtime, deadlines, threads } = this.#components;
      const thread = runtime.id();
      const pending = new PendingRequest(this, thread, to, timeoutMs, resolve, reject);
      deadlines.add(pending, timeoutMs);
      this.#remember(pending);
      if (signal) pending.release = onAbort(signal, () => pending.fail(cancelled()));
      pending.conversation = threads.begin(thread, pending);
      this.#open(to, payload, thread, pending);
    });
  }

  hold(exchange: Exchange, timeoutMs = DEFAULT_TIMEOUT_MS): Promise<unknown> {
    if (this.#ended) {
      // The handler has made this agent leave.
      this.#components.threads.endExchange();
      return Promise.reject(this.#ended);
    }
    return new Promise((resolve, reject) => {
      const { runtime, deadlines, threads } = this.#components;
      const { request } = exchange;
      const to = request.metadata ? { capability: request.recipient } : request.recipient;
      const pending = new PendingRequest(this, request.id, to, timeoutMs, resolve, reject);
      deadlines.add(pending, timeoutMs - (runtime.now() - request.timestamp));
      this.#remember(pending);
      threads.holdExchange(exchange, pending);
    });
  }

  stream(to: Recipient, payload: unknown, options: RequestOptions): StreamReader {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const thread = this.#components.runtime.id();
    let release = () => {};
    const opening = new StreamOpening();
    const reader = this.#reader(thread, undefined, timeoutMs, () => {
      opening.finished();
      release();
      this.#leave(thread);
    });
    opening.reader = reader;
    if (signal?.aborted) {
      this.#readers?.delete(thread);
      reader.producerFailed(cancelled());
      return reader;
    }
    if (signal) release = onAbort(signal, () => reader.fail(cancelled()));
    this.#open(to, payload, thread, opening);
    return reader;
  }

  /** As `stream`, for a caller that takes each item as it arrives and waits without limit. */
  tap(to: Recipient, payload: unknown, listener: StreamListener): StreamTap {
    const thread = this.#components.runtime.id();
    const opening = new StreamOpening();
    const make = (port: StreamPort) => new StreamTap(port, listener);
    const tap = this.#reading(thread, undefined, make, () => {
      opening.finished();
      this.#leave(thread);
    });
    opening.reader = tap;
    this.#open(to, payload, thread, opening);
    return tap;
  }

  /** A stream that another agent opens towards this one; undefined if it has no thread, or one that is taken. */
  incoming({ correlationId: thread, sender }: ValidEnvelope): StreamReader | undefined {
    if (thread === undefined || this.#readers?.has(thread)) return undefined;
    return this.#reader(thread, sender, DEFAULT_TIMEOUT_MS);
  }

  /** Sends a stream: a new one, or as the answer in a thread that the other side opened. */
  async write(to: string, source: AsyncIterable<unknown> | Iterable<unknown>, answering?: string): Promise<void> {
    // The router refuses an unknown agent, with a reason that this agent may see.
    const card = this.#components.registry.getById(to);
    const peer = card ? joinAddress(card.id, card.node) : to;
    if (peer === this.agentId) throw new EclipticError('INVALID_ENVELOPE', 'an agent cannot stream to itself');
    const thread = answering ?? this.#components.runtime.id();
    if (this.#writers?.has(thread)) {
      throw new EclipticError('INVALID_TRANSITION', 'this thread carries a stream already', { thread });
    }
    this.#writers ??= new Map();
    const stream = { peer, left: false, chunks: 0 };
    const port = this.#port(thread, this.#writers, stream, answering === undefined ? to : undefined);
    const writer = new StreamWriter(port, DEFAULT_TIMEOUT_MS);
    this.#writers.set(thread, Object.assign(stream, { end: writer }));
    try {
      await writer.pump(source);
    } catch (error) {
      if (answering === undefined) await port.send('error', toWireError(error)).catch(() => {});
      throw error;
    }
  }

  /** Takes an envelope that belongs to a conversation; false for any other. */
  take(envelope: ValidEnvelope): boolean {
    const thread = envelope.correlationId;
    if (thread === undefined) return false;
    const writer = this.#writers?.get(thread);
    if (writer?.peer === envelope.sender) return advise(writer.end, envelope);
    const waiter = this.#components.threads.find(thread)?.waiter;
    if (waiter instanceof PendingRequest && waiter.requester === this) {
      return envelope.type === 'stream-data' ? this.#hear(waiter, envelope) : this.#answer(waiter, envelope);
    }
    const reader = this.#readers?.get(thread);
    if (!reader || !this.#isFrom(reader, envelope)) return false;
    if (!reader.left) return feed(reader, envelope);
    this.#readers?.delete(thread);
    if (envelope.type === 'stream-start') this.#sender.reply(envelope, 'stream-end', null);
    return true;
  }

  /** Ends all conversations because the agent leaves. The other ends are told. */
  end(error: EclipticError): void {
    this.#ended = error;
    this.#components.threads.abandonExchange(this.agentId);
    while (this.#pending) this.#pending.fail(error);
    for (const { end } of [...(this.#readers?.values() ?? [])]) end.fail(error);
    for (const [thread, { end, peer }] of [...(this.#writers ?? [])]) {
      end.stop(error);
      this.#sender.deliver(peer!, 'error', toWireError(error), { thread }).catch(() => {});
    }
  }

  /** @internal A request of this agent was answered, or failed. */
  settled(request: PendingRequest): void {
    const { before, after } = request;
    this.#components.deadlines.remove(request);
    this.#held?.forget(request);
    // The thread table keeps the thread for a while; the request must not stay in memory as long.
    if (request.conversation) request.conversation.waiter = undefined;
    if (!request.answered) this.#components.threads.abandon(request.thread, this.agentId);
    if (before) before.after = after;
    if (after) after.before = before;
    else this.#pending = before;
    request.before = undefined;
  }

  /** Sends the request that opens a thread; a failure to send it ends the wait for its answer. */
  #open(to: Recipient, payload: unknown, thread: string, waiting: RefusalListener): void {
    try {
      const result = this.#sender.ask(to, payload, thread, waiting);
      if (result === TOLD_LATER) return;
      if (isPromise(result)) result.then(assertDelivered).catch((error) => waiting.fail(error));
      else assertDelivered(result);
    } catch (error) {
      waiting.fail(error as EclipticError);
    }
  }

  #answer(pending: PendingRequest, envelope: ValidEnvelope): boolean {
    if (!pending.open || !pending.takes(envelope.type) || !this.#isAnswer(envelope, pending.to)) return false;
    pending.answer(envelope);
    if (envelope.type === 'stream-start') this.#sender.reply(envelope, 'stream-end', null);
    return true;
  }

  /** A report on a request that has no answer yet: whether it waits for decisions of an owner. */
  #hear(pending: PendingRequest, envelope: ValidEnvelope): boolean {
    const decisions = waitingIn(envelope.payload);
    if (decisions === undefined || !pending.open || !this.#isAnswer(envelope, pending.to)) return false;
    this.#held ??= new HeldRequests(this.#components);
    this.#held.hold(pending, decisions);
    return true;
  }

  /** Did this agent open the thread towards the sender? An agent that guesses a thread's id cannot answer in it. */
  #isAnswer(envelope: ValidEnvelope, asked?: Recipient): boolean {
    if (envelope.sender === asked) return true;
    return this.#components.threads.isReply(envelope.type, envelope.correlationId, envelope.sender, this.agentId);
  }

  #isFrom(stream: OpenStream<unknown>, envelope: ValidEnvelope): boolean {
    if (stream.peer === undefined && this.#isAnswer(envelope)) stream.peer = envelope.sender;
    return stream.peer === envelope.sender;
  }

  /** This agent reads no more of a stream that it asked for. If it gave up, its permit must not wait for the end. */
  #leave(thread: string): void {
    const { threads } = this.#components;
    if (threads.find(thread)?.waiting) threads.abandon(thread, this.agentId);
  }

  #remember(request: PendingRequest): void {
    request.before = this.#pending;
    if (this.#pending) this.#pending.after = request;
    this.#pending = request;
  }

  #reader(thread: string, peer: string | undefined, idleMs: number, onFinished = () => {}): StreamReader {
    return this.#reading(thread, peer, (port) => new StreamReader(port, idleMs), onFinished);
  }

  #reading<End extends ReadingEnd>(
    thread: string,
    peer: string | undefined,
    make: (port: StreamPort) => End,
    onFinished = () => {},
  ): End {
    this.#readers ??= new Map();
    const stream: Omit<OpenStream<End>, 'end'> & { end: End | undefined } = {
      end: undefined,
      peer,
      left: false,
      chunks: 0,
    };
    const end = make(this.#port(thread, this.#readers, stream, undefined, onFinished));
    stream.end = end;
    this.#readers.set(thread, stream as OpenStream<End>);
    return end;
  }

  #port(
    thread: string,
    table: Map<string, unknown>,
    stream: { peer: string | undefined; left: boolean },
    opensTo: string | undefined,
    onFinished = () => {},
  ): StreamPort {
    return new Port(this.#components, this.#sender, thread, table, stream, opensTo, onFinished);
  }
}

/** The request that opens a stream. Its recipient counts it as load until the stream is over. */
class StreamOpening implements RefusalListener {
  reader: ReadingEnd | undefined;
  #held: RegistryEntry | undefined;
  #open = true;

  fail(error: EclipticError): void {
    this.reader!.producerFailed(error);
  }

  holds(target: RegistryEntry): boolean {
    if (this.#open) this.#held = target;
    return this.#open;
  }

  finished(): void {
    if (this.#open && this.#held) this.#held.sending--;
    this.#open = false;
  }
}

/** A stream's way to the other end. */
class Port implements StreamPort {
  readonly runtime: Runtime;
  readonly deadlines: DeadlineQueue;
  readonly #sender: MessageSender;
  readonly #thread: string;
  readonly #table: Map<string, unknown>;
  readonly #stream: { peer: string | undefined; left: boolean };
  readonly #opensTo: string | undefined;
  readonly #onFinished: () => void;

  constructor(
    { runtime, deadlines }: ConversationsComponents,
    sender: MessageSender,
    thread: string,
    table: Map<string, unknown>,
    stream: { peer: string | undefined; left: boolean },
    opensTo: string | undefined,
    onFinished: () => void,
  ) {
    this.runtime = runtime;
    this.deadlines = deadlines;
    this.#sender = sender;
    this.#thread = thread;
    this.#table = table;
    this.#stream = stream;
    this.#opensTo = opensTo;
    this.#onFinished = onFinished;
  }

  async send(type: 'stream-start' | 'stream-data' | 'stream-end' | 'error', payload: unknown): Promise<void> {
    const opening = type === 'stream-start' ? this.#opensTo : undefined;
    const { peer } = this.#stream;
    if (peer === undefined) this.#stream.left = type === 'stream-end';
    else {
      const options = { thread: this.#thread, needsAnswer: opening !== undefined };
      await this.#sender.deliver(opening ?? peer, type, payload, options);
    }
  }

  sendChunk(payload: unknown, index: number, outcome: RefusalListener): number {
    return this.#sender.sendChunk(this.#stream.peer!, payload, this.#thread, index, outcome);
  }

  finished(): void {
    if (!this.#stream.left) this.#table.delete(this.#thread);
    this.#onFinished();
  }
}

function cancelled(): EclipticError {
  return new EclipticError('CANCELLED', 'the caller cancelled');
}

function onAbort(signal: AbortSignal, cancel: () => void): () => void {
  signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}

/** The reader's messages to the writer: more credit, or stop. */
function advise(writer: StreamWriter, envelope: ValidEnvelope): true {
  if (envelope.type === 'stream-data') writer.credit(envelope.payload);
  else writer.stop(new EclipticError('CANCELLED', `${envelope.sender} stopped reading`));
  return true;
}

function feed(stream: OpenStream<ReadingEnd>, envelope: ValidEnvelope): boolean {
  const reader = stream.end;
  switch (envelope.type) {
    case 'stream-start':
      reader.begin();
      return true;
    case 'stream-data': {
      const expected = stream.chunks++;
      const { chunk = expected } = envelope.metadata ?? {};
      if (chunk === expected) reader.push(envelope.payload);
      else reader.fail(new EclipticError('DELIVERY_FAILED', `chunk ${expected} of the stream is missing`));
      return true;
    }
    case 'stream-end':
      reader.end();
      return true;
    case 'error':
      reader.producerFailed(fromWireError(envelope.payload, envelope.sender));
      return true;
    case 'response':
      reader.answer(envelope.payload);
      return true;
    default:
      return false;
  }
}
