import { untilAborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { PromptRequest, StopReason } from './sdk.js';
import type { AcpAnswer, Turn } from './turn.js';

/** Prompts that may wait for their turn in one session. */
const MAX_WAITING = 100;

export interface ConversationInit {
  readonly sessionId: string;
  readonly prompt: (prompt: PromptRequest['prompt'], turn: Turn) => Promise<StopReason>;
  readonly cancel: () => void;
}

/** One session of an agent: one turn at a time, in the order in which they were asked for. */
export class Conversation {
  readonly #init: ConversationInit;
  #turn: Turn | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(init: ConversationInit) {
    this.#init = init;
  }

  get sessionId(): string {
    return this.#init.sessionId;
  }

  /** The turn under way. */
  get turn(): Turn | undefined {
    return this.#turn;
  }

  take(prompt: PromptRequest['prompt'], turn: Turn): Promise<AcpAnswer> {
    if (this.#waiting >= MAX_WAITING) {
      return Promise.reject(new EclipticError('QUEUE_FULL', `${MAX_WAITING} prompts wait for the agent already`));
    }
    this.#waiting++;
    let begun!: () => void;
    const turnCame = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const answer = this.#last.then(() => {
      begun();
      return this.#run(prompt, turn);
    });
    this.#last = answer.catch(() => {});
    // A prompt that is cancelled while it waits ends at once: nothing of it has reached the agent.
    return untilAborted(turnCame, turn.signal)
      .then(() => answer)
      .finally(() => this.#waiting--);
  }

  async #run(prompt: PromptRequest['prompt'], turn: Turn): Promise<AcpAnswer> {
    turn.signal.throwIfAborted();
    turn.signal.addEventListener('abort', this.#init.cancel);
    this.#turn = turn;
    try {
      return turn.end(await this.#init.prompt(prompt, turn));
    } finally {
      turn.signal.removeEventListener('abort', this.#init.cancel);
      this.#turn = undefined;
    }
  }
}
