import type { ValidEnvelope } from '../a2a/envelope.js';
import type { A2AMessageType } from '../a2a/schemas.js';

/** A message as a handler sees it. */
export class Message<T = unknown> {
  readonly envelope: ValidEnvelope;

  constructor(envelope: ValidEnvelope) {
    this.envelope = envelope;
  }

  get from(): string {
    return this.envelope.sender;
  }

  get type(): A2AMessageType {
    return this.envelope.type;
  }

  /** What the sender sent: shared by reference between agents of one process, so treat it as read-only. */
  get payload(): T {
    return this.envelope.payload as T;
  }

  /** The conversation, if this belongs to one. */
  get thread(): string | undefined {
    return this.envelope.correlationId;
  }
}
