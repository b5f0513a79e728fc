import { EclipticError } from '../runtime/errors.js';
import type { StopReason } from './sdk.js';
import type { AcpAnswer, Turn } from './turn.js';

/** Prompts that may wait for their turn in one session. */
const MAX_WAITING = 100;

export interface ConversationInit {
  readonly prompt: (text: string) => Promise<StopReason>;
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

  /** The turn under way. */
  get turn(): Turn | undefined {
    return this.#turn;
  }

  get isIdle(): boolean {
    return this.#waiting === 0;
  }

  take(text: string, turn: Turn): Promise<AcpAnswer> {
    if (this.#waiting >= MAX_WAITING) {
      return Promise.reject(new EclipticError('QUEUE_FULL', `${MAX_WAITING} prompts wait for the agent already`));
    }
    this.#waiting++;
    const answer = this.#last.then(() => this.#run(text, turn)).finally(() => this.#waiting--);
    this.#last = answer.catch(() => {});
    return answer;
  }

  async #run(text: string, turn: Turn): Promise<AcpAnswer> {
    turn.signal.throwIfAborted();
    turn.signal.addEventListener('abort', this.#init.cancel);
    this.#turn = turn;
    try {
      return turn.end(await this.#init.prompt(text));
    } finally {
      turn.signal.removeEventListener('abort', this.#init.cancel);
      this.#turn = undefined;
    }
  }
}
