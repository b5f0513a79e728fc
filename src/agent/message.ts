import type { Delivery } from '../mail/inbox-delivery.js';
import type { Effects } from '../mail/incoming-mail.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { A2AMessageType } from '../mesh/schemas.js';
import { EclipticError } from '../runtime/errors.js';

/** A message as a handler sees it. */
export class Message<T = unknown> {
  readonly envelope: ValidEnvelope;

  readonly #delivery: Delivery | undefined;
  readonly #payload: T;

  constructor(envelope: ValidEnvelope, delivery?: Delivery, payload = envelope.payload as T) {
    this.envelope = envelope;
    this.#delivery = delivery;
    this.#payload = payload;
  }

  /** @internal The same message with another payload. */
  withPayload<P>(payload: P): Message<P> {
    return new Message(this.envelope, this.#delivery, payload);
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
