import { EclipticError } from '../runtime/errors.js';
import type { ReceiptState } from './receipt.js';

/** What an agent wants done exactly once, together with the message that caused it. */
export interface Effects {
  /** Values that the agent keeps, by name. `undefined` forgets one. */
  keep?: Readonly<Record<string, unknown>>;
  /** Durable messages that the agent sends. */
  send?: readonly { to: string; payload: unknown; thread?: string }[];
}

/** One handing-over of a durable message to its agent. */
export class Delivery {
  /** May the agent have seen this message before? It always has the same id. */
  readonly redelivered: boolean;
  readonly #commit: (effects: Effects) => Promise<void>;
  #outcome: ReceiptState = 'done';
  #committed = false;

  constructor(redelivered: boolean, commit: (effects: Effects) => Promise<void>) {
    this.redelivered = redelivered;
    this.#commit = commit;
  }

  /** How the story of the message ends when its handler returns. */
  get outcome(): ReceiptState {
    return this.#outcome;
  }

  get committed(): boolean {
    return this.#committed;
  }

  /** An answer went out. */
  replied(): void {
    this.#outcome = 'replied';
  }

  /** Ends the message and makes its effects, in one transaction: after this resolves, it never comes again. */
  async commit(effects: Effects = {}): Promise<void> {
    if (this.#committed) throw new EclipticError('INVALID_TRANSITION', 'this message was committed before');
    await this.#commit(effects);
    this.#committed = true;
  }
}
