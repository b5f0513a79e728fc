import type { SendFacts } from '../protocol/same-send.js';
import type { Message } from '../protocol/types.js';
import type { Sent } from './task-execution.js';

/** How many sends are remembered at least, and at most twice as many; who tries again does so soon. */
export const REMEMBERED_SENDS = 5_000;

/** A send whose task goes on, as it was asked for. */
export interface OpenSend {
  readonly sent: Promise<Sent>;
  readonly message: Message;
  readonly facts: SendFacts;
}

type Outcome = OpenSend | string;

/** Which task came of which send, so that the same send is the same task while it goes on and for a while after. */
export class SendKeys {
  /** What is under way, or the id of a task that has ended. When the younger are many, the older are forgotten. */
  #younger = new Map<string, Outcome>();
  #older = new Map<string, Outcome>();

  find(key: string): Outcome | undefined {
    return this.#younger.get(key) ?? this.#older.get(key);
  }

  /** A send of an earlier life, and its task. */
  remember(key: string, taskId: string): void {
    this.#put(key, taskId);
  }

  begin(key: string, send: OpenSend): void {
    this.#put(key, send);
    const forget = () => this.forget(key, send);
    // What was no task, or nothing at all, may be tried again.
    send.sent.then((what) => ('message' in what ? forget() : undefined), forget);
  }

  forget(key: string, what: Outcome): void {
    for (const sends of [this.#younger, this.#older]) if (sends.get(key) === what) sends.delete(key);
  }

  end(key: string, taskId: string): void {
    for (const sends of [this.#younger, this.#older]) if (sends.has(key)) sends.set(key, taskId);
  }

  #put(key: string, outcome: Outcome): void {
    if (this.#younger.size >= REMEMBERED_SENDS) {
      this.#older = this.#younger;
      this.#younger = new Map();
    }
    this.#younger.set(key, outcome);
  }
}
