import { joinAddress } from '../mesh/address.js';
import { fromWireError, toWireError } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { assertDelivered, isPromise, type MessageSender, type Recipient } from '../mesh/message-sender.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2AMessageType } from '../mesh/schemas.js';
import type { Thread, Waiter } from '../mesh/thread.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import { Deadline, type DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { type StreamPort, StreamReader, StreamWriter } from './streams.js';

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
}

/** An agent's open requests and streams, each identified by its thread. */
export class Conversations implements Requester {
  readonly agentId: string;
  readonly #components: ConversationsComponents;
  readonly #sender: MessageSender;
  /** The latest of a linked list of requests that wait. */
  #pending: PendingRequest | undefined;
  /** Made with the first stream: most agents never have one, and there may be very many agents. */
  #readers: Map<string, OpenStream<StreamReader>> | undefined;
  #writers: Map<string, OpenStream<StreamWriter>> | undefined;

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

  stream(to: Recipient, payload: unknown, options: RequestOptions): StreamReader {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const thread = this.#components.runtime.id();
    let release = () => {};
    const reader = this.#reader(thread, undefined, timeoutMs, () => release());
    if (signal?.aborted) {
      this.#readers?.delete(thread);
      reader.producerFailed(cancelled());
      return reader;
    }
    if (signal) release = onAbort(signal, () => reader.fail(cancelled()));
    this.#open(to, payload, thread, { fail: (error) => reader.producerFailed(error) });
    return reader;
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
    const stream = { peer, left: false };
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
    if (waiter instanceof PendingRequest && waiter.requester === this) return this.#answer(waiter, envelope);
    const reader = this.#readers?.get(thread);
    if (!reader || !this.#isFrom(reader, envelope)) return false;
    if (!reader.left) return feed(reader.end, envelope);
    this.#readers?.delete(thread);
    if (envelope.type === 'stream-start') this.#sender.reply(envelope, 'stream-end', null);
    return true;
  }

  /** Ends all conversations because the agent leaves. The other ends are told. */
  end(error: EclipticError): void {
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
    // The thread table keeps the thread for a while; the request must not stay in memory as long.
    if (request.conversation) request.conversation.waiter = undefined;
    if (!request.answered) this.#components.threads.abandon(request.thread, this.agentId);
    if (before) before.after = after;
    if (after) after.before = before;
    else this.#pending = before;
    request.before = undefined;
  }

  /** Sends the request that opens a thread; a failure to send it ends the wait for its answer. */
  #open(to: Recipient, payload: unknown, thread: string, waiting: { fail(error: EclipticError): void }): void {
    try {
      const result = this.#sender.ask(to, payload, thread);
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

  /** Did this agent open the thread towards the sender? An agent that guesses a thread's id cannot answer in it. */
  #isAnswer(envelope: ValidEnvelope, asked?: Recipient): boolean {
    if (envelope.sender === asked) return true;
    return this.#components.threads.isReply(envelope.type, envelope.correlationId, envelope.sender, this.agentId);
  }

  #isFrom(stream: OpenStream<unknown>, envelope: ValidEnvelope): boolean {
    if (stream.peer === undefined && this.#isAnswer(envelope)) stream.peer = envelope.sender;
    return stream.peer === envelope.sender;
  }

  #remember(request: PendingRequest): void {
    request.before = this.#pending;
    if (this.#pending) this.#pending.after = request;
    this.#pending = request;
  }

  #reader(thread: string, peer: string | undefined, idleMs: number, onFinished = () => {}): StreamReader {
    this.#readers ??= new Map();
    const stream = { peer, left: false };
    const reader = new StreamReader(this.#port(thread, this.#readers, stream, undefined, onFinished), idleMs);
    this.#readers.set(thread, Object.assign(stream, { end: reader }));
    return reader;
  }

  #port(
    thread: string,
    table: Map<string, unknown>,
    stream: { peer: string | undefined; left: boolean },
    opensTo: string | undefined,
    onFinished = () => {},
  ): StreamPort {
    const { runtime, deadlines } = this.#components;
    return {
      runtime,
      deadlines,
      send: async (type, payload) => {
        const opening = type === 'stream-start' ? opensTo : undefined;
        if (stream.peer === undefined) stream.left = type === 'stream-end';
        else
          await this.#sender.deliver(opening ?? stream.peer, type, payload, {
            thread,
            needsAnswer: opening !== undefined,
          });
      },
      finished: () => {
        if (!stream.left) table.delete(thread);
        onFinished();
      },
    };
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

function feed(reader: StreamReader, envelope: ValidEnvelope): boolean {
  switch (envelope.type) {
    case 'stream-start':
      reader.begin();
      return true;
    case 'stream-data':
      reader.push(envelope.payload);
      return true;
    case 'stream-end':
      reader.end();
      return true;
    case 'error':
      reader.producerFailed(fromWireError(envelope.payload, envelope.sender));
      return true;
    case 'response':
      reader.push(envelope.payload);
      reader.end();
      return true;
    default:
      return false;
  }
}

/** The owner of a request. */
interface Requester {
  readonly agentId: string;
  /** Called once, before the request's promise settles. */
  settled(request: PendingRequest): void;
  /** Why the recipient gives no answer, as far as its card says. */
  whySilent(to: Recipient): string | undefined;
}

/** A request that waits for its answer. */
class PendingRequest extends Deadline implements Waiter {
  readonly requester: Requester;
  readonly thread: string;
  readonly to: Recipient;
  readonly timeoutMs: number;
  /** Neighbours in the agent's list of requests that wait. */
  before: PendingRequest | undefined;
  after: PendingRequest | undefined;
  /** Stops listening to the caller's signal. */
  release: (() => void) | undefined;
  conversation: Thread | undefined;
  open: boolean;
  /** Has the agent that was asked answered at all? */
  answered: boolean;
  readonly resolve: (payload: unknown) => void;
  readonly reject: (error: EclipticError) => void;

  constructor(
    requester: Requester,
    thread: string,
    to: Recipient,
    timeoutMs: number,
    resolve: (payload: unknown) => void,
    reject: (error: EclipticError) => void,
  ) {
    super();
    this.requester = requester;
    this.thread = thread;
    this.to = to;
    this.timeoutMs = timeoutMs;
    this.before = undefined;
    this.after = undefined;
    this.release = undefined;
    this.conversation = undefined;
    this.open = true;
    this.answered = false;
    this.resolve = resolve;
    this.reject = reject;
  }

  get agentId(): string {
    return this.requester.agentId;
  }

  takes(type: A2AMessageType): boolean {
    return type === 'response' || type === 'error' || type === 'stream-start';
  }

  answer(envelope: ValidEnvelope): void {
    this.answered = true;
    if (envelope.type === 'response') {
      this.#close();
      this.resolve(envelope.payload);
    } else if (envelope.type === 'error') {
      this.fail(fromWireError(envelope.payload, envelope.sender));
    } else {
      this.fail(new EclipticError('STREAM_ANSWER', `${envelope.sender} answers with a stream; use stream()`));
    }
  }

  fail(error: EclipticError): void {
    if (!this.open) return;
    this.#close();
    this.reject(error);
  }

  override expire(): void {
    const why = this.requester.whySilent(this.to);
    const message = `no answer within ${this.timeoutMs} ms${why === undefined ? '' : `; ${why}`}`;
    this.fail(new EclipticError('REQUEST_TIMEOUT', message, { thread: this.thread }));
  }

  #close(): void {
    this.open = false;
    this.release?.();
    this.requester.settled(this);
  }
}
