import type { Sent } from './task-work.js';

/** How many sends are remembered; who tries again does so soon. */
const REMEMBERED = 10_000;

/** Which task came of which send, so that the same send is the same task while it goes on and for a while after. */
export class SendKeys {
  /** What is under way, or the id of a task that has ended; the latest last. */
  readonly #sends = new Map<string, Promise<Sent> | string>();

  find(key: string): Promise<Sent> | string | undefined {
    return this.#sends.get(key);
  }

  begin(key: string, sent: Promise<Sent>): void {
    this.#sends.set(key, sent);
    const forget = () => this.forget(key, sent);
    // What was no task, or nothing at all, may be tried again.
    sent.then((what) => ('message' in what ? forget() : undefined), forget);
    for (const oldest of this.#sends.keys()) {
      if (this.#sends.size <= REMEMBERED) break;
      this.#sends.delete(oldest);
    }
  }

  forget(key: string, what: Promise<Sent> | string): void {
    if (this.#sends.get(key) === what) this.#sends.delete(key);
  }

  end(key: string, taskId: string): void {
    if (this.#sends.has(key)) this.#sends.set(key, taskId);
  }
}
