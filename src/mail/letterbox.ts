import type { ValidEnvelope } from '../mesh/envelope.js';
import type { Runtime } from '../runtime/runtime.js';
import type { HeldMail, IncomingMail } from './incoming-mail.js';
import type { ReceiptState } from './receipt.js';

/** How an agent is through with a message. */
export interface LetterEnd {
  readonly state: Extract<ReceiptState, 'done' | 'declined' | 'replied'>;
  readonly reason?: string;
  /** What goes back to the sender, in one transaction with the end. */
  readonly answer?: ValidEnvelope | undefined;
}

interface LetterboxInit {
  readonly agent: string;
  readonly onArrival: (held: HeldMail) => void;
  readonly onClose: () => void;
}

/**
 * The mail of an agent that fetches it. Fetching proves nothing: a message counts as read when its agent shows that it
 * has seen it, and one that was shown to an agent that then went away is there again for the next.
 */
export class Letterbox {
  readonly #runtime: Runtime;
  readonly #incoming: IncomingMail;
  readonly #agent: string;
  readonly #onClose: () => void;
  /** Told of each message that arrives. */
  readonly onArrival: (held: HeldMail) => void;
  /** What was shown and is not over, by number. */
  readonly #shown = new Map<number, HeldMail>();

  constructor(runtime: Runtime, incoming: IncomingMail, { agent, onArrival, onClose }: LetterboxInit) {
    this.#runtime = runtime;
    this.#incoming = incoming;
    this.#agent = agent;
    this.onArrival = onArrival;
    this.#onClose = onClose;
  }

  /** The next messages behind that number, as they arrived. */
  page(above: number): Promise<HeldMail[]> {
    return this.#incoming.load(this.#agent, above);
  }

  /** Keeps a message from the agent until somebody decides; its sender is told why. */
  hold(held: HeldMail, reason: string): void {
    this.#incoming.note(held, 'held', this.#runtime.now(), reason);
  }

  /** The agent is given it; true when it may have seen it before. */
  show(held: HeldMail): boolean {
    const redelivered = this.#incoming.hand(held);
    this.#shown.set(held.number, held);
    this.#incoming.note(held, 'surfaced', this.#runtime.now());
    return redelivered;
  }

  /** The agent has shown that it saw it. */
  read(held: HeldMail): void {
    this.#incoming.note(held, 'read', this.#runtime.now());
  }

  /** The agent is through with it. */
  async end(held: HeldMail, end: LetterEnd): Promise<void> {
    await this.#incoming.end(held, end);
    this.#shown.delete(held.number);
  }

  /** What it was shown is nobody's again: the agent went away. */
  putBack(): void {
    for (const held of this.#shown.values()) this.#incoming.letGo(held);
    this.#shown.clear();
  }

  close(): void {
    this.putBack();
    this.#onClose();
  }
}
