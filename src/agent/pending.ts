import type { ValidEnvelope } from '../a2a/envelope.js';
import type { A2AMessageType } from '../a2a/schemas.js';
import type { Waiter } from '../a2a/thread.js';
import { Deadline, type DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Recipient } from './outbox.js';
import { fromWireError } from './wire-error.js';

export interface Settle {
  readonly resolve: (payload: unknown) => void;
  readonly reject: (error: EclipticError) => void;
  readonly onSettled: (request: PendingRequest) => void;
}

/** A request that waits for its answer. */
export class PendingRequest extends Deadline implements Waiter {
  readonly agentId: string;
  readonly thread: string;
  /** Whom the request was addressed to. */
  readonly to: Recipient;
  /** @internal The agent's requests that wait are a list through these. */
  before: PendingRequest | undefined;
  /** @internal */
  after: PendingRequest | undefined;
  /** @internal Lets go of what the wait held on to. */
  release: (() => void) | undefined;
  /** Is an answer still wanted? */
  open = true;
  /** Did the agent that was asked say anything? */
  answered = false;
  readonly #deadlines: DeadlineQueue;
  readonly #timeoutMs: number;
  readonly #settle: Settle;

  constructor(
    agentId: string,
    thread: string,
    to: Recipient,
    deadlines: DeadlineQueue,
    timeoutMs: number,
    settle: Settle,
  ) {
    super();
    this.agentId = agentId;
    this.thread = thread;
    this.to = to;
    this.before = undefined;
    this.after = undefined;
    this.release = undefined;
    this.#deadlines = deadlines;
    this.#timeoutMs = timeoutMs;
    this.#settle = settle;
    deadlines.add(this, timeoutMs);
  }

  /** Is a message of this type an answer to a request? */
  takes(type: A2AMessageType): boolean {
    return type === 'response' || type === 'error' || type === 'stream-start';
  }

  answer(envelope: ValidEnvelope): void {
    this.answered = true;
    if (envelope.type === 'response') {
      this.#close();
      this.#settle.resolve(envelope.payload);
    } else if (envelope.type === 'error') {
      this.fail(fromWireError(envelope.payload, envelope.sender));
    } else {
      this.fail(new EclipticError('STREAM_ANSWER', `${envelope.sender} answers with a stream; use stream()`));
    }
  }

  fail(error: EclipticError): void {
    if (!this.open) return;
    this.#close();
    this.#settle.reject(error);
  }

  override expire(): void {
    this.fail(new EclipticError('REQUEST_TIMEOUT', `no answer within ${this.#timeoutMs} ms`, { thread: this.thread }));
  }

  #close(): void {
    this.open = false;
    this.#deadlines.remove(this);
    this.release?.();
    this.#settle.onSettled(this);
  }
}
