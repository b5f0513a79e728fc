import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

export interface LoopLimits {
  /** Answers to answers in a row. Default 8. */
  readonly hops?: number;
  /** Messages that one agent may send another within ten minutes. Default 200. */
  readonly perPair?: number;
}

const PAIR_WINDOW_MS = 600_000;
const MAX_PAIRS = 10_000;
/** A client that got no answer in time repeats its call. */
const REPEAT_WINDOW_MS = 60_000;
const MAX_REMEMBERED = 200;

/** Stops agents that keep answering each other: limits the length of a reply chain, and the rate of each pair. */
export class LoopGuard {
  readonly #runtime: Runtime;
  readonly #hops: number;
  readonly #perPair: number;
  /** A token bucket for each pair. */
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(runtime: Runtime, { hops = 8, perPair = 200 }: LoopLimits = {}) {
    this.#runtime = runtime;
    this.#hops = hops;
    this.#perPair = perPair;
  }

  /** Why a reply chain of this length is stopped; undefined while it is short enough. */
  whyTooFar(hops: number): string | undefined {
    if (hops <= this.#hops) return undefined;
    return `${hops} answers to answers in a row (the limit is ${this.#hops}); if this is real work, begin a new message`;
  }

  /** Counts a message; throws when it exceeds a limit. */
  pass(from: string, to: string, hops: number): void {
    const tooFar = this.whyTooFar(hops);
    if (tooFar !== undefined) throw new EclipticError('LOOP_STOPPED', tooFar, { hops, limit: this.#hops });
    const key = `${from}\n${to}`;
    const now = this.#runtime.now();
    const pair = this.#buckets.get(key) ?? { tokens: this.#perPair, at: now };
    const tokens = Math.min(this.#perPair, pair.tokens + ((now - pair.at) / PAIR_WINDOW_MS) * this.#perPair);
    if (tokens < 1) {
      const reason = `${this.#perPair} messages to ${to} within ten minutes; wait, or ask your user to raise onramp.perPair`;
      throw new EclipticError('LOOP_STOPPED', reason, { limit: this.#perPair });
    }
    if (!this.#buckets.has(key)) dropOldest(this.#buckets, MAX_PAIRS);
    this.#buckets.set(key, { tokens: tokens - 1, at: now });
  }
}

/** Runs an identical call within a minute once: a client that missed the first answer asks again. */
export class Repeats<T extends { readonly text: string } = { readonly text: string }> {
  readonly #runtime: Runtime;
  readonly #answers = new Map<string, { readonly at: number; readonly answer: Promise<T> }>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Runs the call, or returns the earlier answer. A failed call runs again. */
  async once(tool: string, args: unknown, run: () => Promise<T>): Promise<T> {
    const key = `${tool} ${JSON.stringify(args)}`;
    const now = this.#runtime.now();
    for (const [known, { at }] of this.#answers) if (now - at > REPEAT_WINDOW_MS) this.#answers.delete(known);
    const earlier = this.#answers.get(key);
    if (earlier) {
      const answer = await earlier.answer;
      return { ...answer, text: `${answer.text}\nThis call was repeated; it was carried out once.` };
    }
    dropOldest(this.#answers, MAX_REMEMBERED);
    const answer = run();
    this.#answers.set(key, { at: now, answer });
    answer.catch(() => this.#answers.delete(key));
    return answer;
  }
}

function dropOldest(map: Map<string, unknown>, capacity: number): void {
  if (map.size >= capacity) map.delete(map.keys().next().value!);
}
