import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

export interface LoopLimits {
  /** Answers to answers in a row. Default 8. */
  readonly hops?: number;
  /** Messages that one agent may send another within ten minutes. Default 200. */
  readonly perPair?: number;
}

const WINDOW_MS = 600_000;
const MAX_PAIRS = 10_000;

/** Stops agents that answer each other for ever: by how long a chain of answers may be, and by how many may go at all. */
export class LoopGuard {
  readonly #runtime: Runtime;
  readonly #hops: number;
  readonly #perPair: number;
  /** What each pair has left, and since when. */
  readonly #left = new Map<string, { tokens: number; at: number }>();

  constructor(runtime: Runtime, { hops = 8, perPair = 200 }: LoopLimits = {}) {
    this.#runtime = runtime;
    this.#hops = hops;
    this.#perPair = perPair;
  }

  /** Why a message with so many answers behind it goes no further; undefined when it does. */
  whyTooFar(hops: number): string | undefined {
    if (hops <= this.#hops) return undefined;
    return `${hops} answers to answers in a row (the limit is ${this.#hops}); if this is real work, begin a new message`;
  }

  /** Throws when that message would be one too many. */
  pass(from: string, to: string, hops: number): void {
    const tooFar = this.whyTooFar(hops);
    if (tooFar !== undefined) throw new EclipticError('LOOP_STOPPED', tooFar, { hops, limit: this.#hops });
    const key = `${from}\n${to}`;
    const now = this.#runtime.now();
    const pair = this.#left.get(key) ?? { tokens: this.#perPair, at: now };
    const tokens = Math.min(this.#perPair, pair.tokens + ((now - pair.at) / WINDOW_MS) * this.#perPair);
    if (tokens < 1) {
      const reason = `${this.#perPair} messages to ${to} within ten minutes; wait, or ask your user to raise onramp.perPair`;
      throw new EclipticError('LOOP_STOPPED', reason, { limit: this.#perPair });
    }
    if (!this.#left.has(key) && this.#left.size >= MAX_PAIRS) this.#left.delete(this.#left.keys().next().value!);
    this.#left.set(key, { tokens: tokens - 1, at: now });
  }
}
