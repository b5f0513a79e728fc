import { fromWireError } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { RegistryEntry } from '../mesh/registry-index.js';
import type { A2AMessageType, Recipient } from '../mesh/schemas.js';
import type { Conversation, RequestWaiter } from '../mesh/thread.js';
import { Deadline } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';

/** The owner of a request. */
export interface Requester {
  readonly agentId: string;
  /** Called once, before the request's promise settles. */
  settled(request: PendingRequest): void;
  /** Why the recipient gives no answer, as far as its card says. */
  whySilent(to: Recipient): string | undefined;
}

/** A request that waits for its answer. */
export class PendingRequest extends Deadline implements RequestWaiter {
  readonly requester: Requester;
  readonly thread: string;
  readonly to: Recipient;
  readonly timeoutMs: number;
  /** Neighbours in the agent's list of requests that wait. */
  before: PendingRequest | undefined;
  after: PendingRequest | undefined;
  /** Stops listening to the caller's signal. */
  release: (() => void) | undefined;
  conversation: Conversation | undefined;
  /** The agent of another node that has the request, as part of its load. */
  held: RegistryEntry | undefined;
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
    this.held = undefined;
    this.open = true;
    this.answered = false;
    this.resolve = resolve;
    this.reject = reject;
  }

  get agentId(): string {
    return this.requester.agentId;
  }

  /** The answer can come before the news that the request has arrived. */
  holds(target: RegistryEntry): boolean {
    if (!this.open) return false;
    this.held = target;
    return true;
  }

  takes(type: A2AMessageType): boolean {
    return type === 'response' || type === 'error' || type === 'stream-start';
  }

  answer(envelope: ValidEnvelope): void {
    this.answered = true;
    if (envelope.type === 'response') this.settle(envelope.payload);
    else if (envelope.type === 'error') this.fail(fromWireError(envelope.payload, envelope.sender));
    else this.fail(new EclipticError('STREAM_ANSWER', `${envelope.sender} answers with a stream; use stream()`));
  }

  settle(answer: unknown): void {
    this.answered = true;
    this.#close();
    this.resolve(answer);
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
    if (this.held) this.held.sending--;
    this.held = undefined;
    this.release?.();
    this.requester.settled(this);
  }
}
