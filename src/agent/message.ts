import type { Delivery } from '../mail/inbox-delivery.js';
import type { Effects } from '../mail/incoming-mail.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { A2AMessageType } from '../mesh/schemas.js';
import { EclipticError } from '../runtime/errors.js';
import type { Log } from '../runtime/runtime.js';

/** Makes the log and the signal of a message when its handler asks for them. */
export interface MessageContext {
  logOf(envelope: ValidEnvelope): Log;
  signalOf(envelope: ValidEnvelope): AbortSignal;
}

/** A message as a handler sees it. */
export class Message<T = unknown> {
  readonly envelope: ValidEnvelope;

  readonly #context: MessageContext;
  readonly #delivery: Delivery | undefined;
  readonly #payload: T;

  /** @internal */
  constructor(envelope: ValidEnvelope, context: MessageContext, delivery?: Delivery, payload = envelope.payload as T) {
    this.envelope = envelope;
    this.#context = context;
    this.#delivery = delivery;
    this.#payload = payload;
  }

  /** @internal The same message with another payload. */
  withPayload<P>(payload: P): Message<P> {
    return new Message(this.envelope, this.#context, this.#delivery, payload);
  }

  /** The node's log; every line names the agent and the conversation. */
  get log(): Log {
    return this.#context.logOf(this.envelope);
  }

  /**
   * Aborted when the sender of a request stops waiting for the answer, as far as this node knows: a caller of this node
   * cancelled or had no answer in time, the caller's node is gone, or the proposer withdrew the work. Aborted also when
   * the agent leaves.
   */
  get signal(): AbortSignal {
    return this.#context.signalOf(this.envelope);
  }

  /** May this durable message have been delivered before? Its id is the same then. */
  get redelivered(): boolean {
    return this.#delivery?.redelivered === true;
  }

  /**
   * Ends a durable message and performs these effects in one transaction: they happen exactly once, whatever crashes.
   * Without this, the message ends when its handler returns, and may be delivered again after a crash.
   */
  commit(effects?: Effects): Promise<void> {
    if (this.#delivery) return this.#delivery.commit(effects);
    return Promise.reject(new EclipticError('INVALID_TRANSITION', 'only a durable message can be committed'));
  }

  get from(): string {
    return this.envelope.sender;
  }

  get type(): A2AMessageType {
    return this.envelope.type;
  }

  /** Shared by reference between agents of one process, so treat it as read-only. */
  get payload(): T {
    return this.#payload;
  }

  /** The conversation, if this belongs to one. */
  get thread(): string | undefined {
    return this.envelope.correlationId;
  }
}
