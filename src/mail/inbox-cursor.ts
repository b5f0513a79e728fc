import type { Runtime } from '../runtime/runtime.js';
import type { InboxMessage, IncomingMail, MessageEnd } from './incoming-mail.js';

/** How an agent ends a message that it has fetched. */
export type FetchedEnd = Pick<MessageEnd, 'reason' | 'answer'> & { readonly state: 'done' | 'declined' | 'replied' };

interface InboxCursorInit {
  readonly agent: string;
  readonly onArrival: (message: InboxMessage) => void;
  readonly onClose: () => void;
}

/**
 * The inbox of an agent that fetches its mail. Fetching proves nothing: a message counts as read when its agent shows
 * that it has seen it. A message that was shown to an agent that then left is there again for the next one.
 */
export class InboxCursor {
  readonly #runtime: Runtime;
  readonly #incoming: IncomingMail;
  readonly #agent: string;
  readonly #onClose: () => void;
  readonly onArrival: (message: InboxMessage) => void;
  /** Shown messages that have not ended, by number. */
  readonly #shown = new Map<number, InboxMessage>();

  constructor(runtime: Runtime, incoming: IncomingMail, { agent, onArrival, onClose }: InboxCursorInit) {
    this.#runtime = runtime;
    this.#incoming = incoming;
    this.#agent = agent;
    this.onArrival = onArrival;
    this.#onClose = onClose;
  }

  page(above: number): Promise<InboxMessage[]> {
    return this.#incoming.load(this.#agent, above);
  }

  /** Withholds a message from the agent until a person decides; its sender is told why. */
  hold(message: InboxMessage, reason: string): void {
    this.#incoming.note(message, 'held', this.#runtime.now(), reason);
  }

  /** Shows a message to the agent. Returns whether an agent may have seen it before. */
  show(message: InboxMessage): boolean {
    const redelivered = this.#incoming.begun(message);
    this.#shown.set(message.number, message);
    this.#incoming.note(message, 'surfaced', this.#runtime.now());
    return redelivered;
  }

  read(message: InboxMessage): void {
    this.#incoming.note(message, 'read', this.#runtime.now());
  }

  async end(message: InboxMessage, end: FetchedEnd): Promise<void> {
    await this.#incoming.end(message, end);
    this.#shown.delete(message.number);
  }

  /** The agent has left: the messages that it was shown are available again. */
  putBack(): void {
    for (const message of this.#shown.values()) this.#incoming.release(message);
    this.#shown.clear();
  }

  close(): void {
    this.putBack();
    this.#onClose();
  }
}
