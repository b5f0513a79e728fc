import type { ValidEnvelope } from '../a2a/envelope.js';
import { Deadline, type DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Recipient } from './outbox.js';
import { fromWireError } from './wire-error.js';

/** A request that waits for its answer. */
export class PendingRequest extends Deadline {
  readonly thread: string;
  /** Whom the request was addressed to. */
  readonly to: Recipient;
  readonly #deadlines: DeadlineQueue;
  readonly #timeoutMs: number;
  readonly #onSettled: (request: PendingRequest) => void;
  readonly #resolve: (payload: unknown) => void;
  readonly #reject: (error: EclipticError) => void;

  constructor(
    thread: string,
    to: Recipient,
    deadlines: DeadlineQueue,
    timeoutMs: number,
    onSettled: (request: PendingRequest) => void,
    resolve: (payload: unknown) => void,
    reject: (error: EclipticError) => void,
  ) {
    super();
    this.thread = thread;
    this.to = to;
    this.#deadlines = deadlines;
    this.#timeoutMs = timeoutMs;
    this.#onSettled = onSettled;
    this.#resolve = resolve;
    this.#reject = reject;
    deadlines.add(this, timeoutMs);
  }

  answer(envelope: ValidEnvelope): void {
    if (envelope.type === 'response') {
      this.#settled();
      this.#resolve(envelope.payload);
    } else if (envelope.type === 'error') {
      this.fail(fromWireError(envelope.payload, envelope.sender));
    } else {
      this.fail(new EclipticError('STREAM_ANSWER', `${envelope.sender} answers with a stream; use stream()`));
    }
  }

  fail(error: EclipticError): void {
    this.#settled();
    this.#reject(error);
  }

  override expire(): void {
    this.fail(new EclipticError('REQUEST_TIMEOUT', `no answer within ${this.#timeoutMs} ms`, { thread: this.thread }));
  }

  #settled(): void {
    this.#deadlines.remove(this);
    this.#onSettled(this);
  }
}
