import type { ValidEnvelope } from '../mesh/envelope.js';
import { EclipticError } from '../runtime/errors.js';

/** What an agent wants done exactly once, together with the message that caused it. */
export interface Effects {
  /** Values that the agent keeps, by name. `undefined` forgets one. */
  keep?: Readonly<Record<string, unknown>>;
  /** Durable messages that the agent sends. */
  send?: readonly { to: string; payload: unknown; thread?: string }[];
}

export interface DeliveryInit {
  readonly redelivered: boolean;
  readonly lastAttempt: boolean;
  readonly commit: (effects: Effects) => Promise<void>;
}

/** One handing-over of a durable message to its agent. */
export class Delivery {
  /** May the agent have seen this message before? It always has the same id. */
  readonly redelivered: boolean;
  /** Will the message be given up if its handler fails now? */
  readonly lastAttempt: boolean;
  readonly #commit: DeliveryInit['commit'];
  /** The commit that is under way, or was made. */
  #made: Promise<void> | undefined;
  /** How a commit failed, if one did. */
  #failure: unknown;
  #answer: ValidEnvelope | undefined;
  #replied = false;

  constructor({ redelivered, lastAttempt, commit }: DeliveryInit) {
    this.redelivered = redelivered;
    this.lastAttempt = lastAttempt;
    this.#commit = commit;
  }

  /** What goes back to the sender when the message ends. */
  get answer(): ValidEnvelope | undefined {
    return this.#answer;
  }

  /** Did the handler answer, in one way or another? */
  get replied(): boolean {
    return this.#replied || this.#answer?.type === 'response';
  }

  /** Why a commit was not made, if one was tried. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Was the message committed, or is it about to be? */
  get committed(): boolean {
    return this.#made !== undefined;
  }

  /** Resolves when no commit is under way; true if one that was under way failed. */
  async settled(): Promise<boolean> {
    if (!this.#made) return false;
    return this.#made.then(
      () => false,
      () => true,
    );
  }

  /** Lets this go back with the end of the message; false when that is over, and the answer must go by itself. */
  answerWith(answer: ValidEnvelope): boolean {
    if (this.#made) return false;
    this.#answer = answer;
    return true;
  }

  /** An answer went out by itself. */
  markReplied(): void {
    this.#replied = true;
  }

  /** Ends the message and makes its effects, in one transaction: after this resolves, it never comes again. */
  commit(effects: Effects = {}): Promise<void> {
    if (this.#made) {
      return Promise.reject(new EclipticError('INVALID_TRANSITION', 'this message was committed before'));
    }
    const made = this.#commit(effects).catch((error: unknown) => {
      this.#made = undefined;
      this.#failure = error;
      throw error;
    });
    this.#made = made;
    // Whoever does not wait for it is told by the message's coming again.
    made.catch(() => {});
    return made;
  }
}
