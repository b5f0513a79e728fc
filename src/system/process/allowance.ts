import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';

/** What one server may say in a second before it is slowed down. */
interface Rates {
  readonly bytes: number;
  readonly messages: number;
}

const RATES: Rates = { bytes: 16 * 1_048_576, messages: 2_000 };
/** How many seconds' worth may come at once. */
const BURST = 2;

/**
 * Keeps a server that floods from taking this process's time: who has used up its share is read on only when there is
 * some again. The flood then waits in the server, and nobody else notices.
 */
export class Allowance {
  readonly #runtime: Runtime;
  readonly #rates: Rates;
  #bytes: number;
  #messages: number;
  #at: number;
  #floods = 0;

  constructor(runtime: Runtime, rates: Rates = RATES) {
    this.#runtime = runtime;
    this.#rates = rates;
    this.#bytes = rates.bytes * BURST;
    this.#messages = rates.messages * BURST;
    this.#at = runtime.stopwatch();
  }

  /** How often it had to wait. */
  get floods(): number {
    return this.#floods;
  }

  /** Spends; the promise, if there is one, resolves when there is something left to spend. */
  spend(bytes: number, messages = 1): Promise<void> | undefined {
    this.#bytes -= bytes;
    this.#messages -= messages;
    if (this.#bytes > 0 && this.#messages > 0) return undefined;
    return this.#refill();
  }

  async #refill(): Promise<void> {
    let counted = false;
    for (;;) {
      const now = this.#runtime.stopwatch();
      const seconds = (now - this.#at) / 1_000;
      this.#at = now;
      const { bytes, messages } = this.#rates;
      this.#bytes = Math.min(bytes * BURST, this.#bytes + bytes * seconds);
      this.#messages = Math.min(messages * BURST, this.#messages + messages * seconds);
      const lacking = Math.max(1 - this.#bytes / bytes, 1 - this.#messages / messages);
      if (this.#bytes > 0 && this.#messages > 0) return;
      if (!counted) this.#floods++;
      counted = true;
      // A tenth of a second's worth more than nothing, so that it does not wait for every line.
      await wait(this.#runtime, Math.min(1_000, Math.max(20, (lacking - 0.9) * 1_000)));
    }
  }
}
