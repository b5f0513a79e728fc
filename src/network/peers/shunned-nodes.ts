import type { Runtime } from '../../runtime/runtime.js';

/** How long a node that was refused, or broke the rules, is not talked to. */
const SHUN_MS = 10_000;
const MAX_SHUNNED = 1_000;
/** Waits after late greetings with one node: the first, and the longest. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

interface Late {
  readonly times: number;
  readonly until: number;
}

/**
 * The nodes that this one does not talk to for a while. A late greeting is no fault of the other node, which may be busy:
 * the next one waits a little, longer each time. Any caller can fill both tables, so the oldest entry makes room.
 */
export class ShunnedNodes {
  readonly #runtime: Runtime;
  readonly #until = new Map<string, number>();
  readonly #late = new Map<string, Late>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  shun(node: string, ms = SHUN_MS): void {
    put(this.#until, node, this.#runtime.stopwatch() + ms);
  }

  has(node: string): boolean {
    return (this.#until.get(node) ?? 0) > this.#runtime.stopwatch();
  }

  /** A greeting with that node did not end in time. */
  noteLate(node: string): void {
    const times = (this.#late.get(node)?.times ?? 0) + 1;
    const wait = Math.min(FIRST_WAIT_MS * 2 ** (times - 1), LONGEST_WAIT_MS);
    const until = this.#runtime.stopwatch() + wait * (0.5 + this.#runtime.random());
    put(this.#late, node, { times, until });
  }

  /** Does the next greeting with that node wait, because the last one was late? */
  waits(node: string): boolean {
    return (this.#late.get(node)?.until ?? 0) > this.#runtime.stopwatch();
  }

  /** A greeting with that node ended in time. */
  noteGreeted(node: string): void {
    this.#late.delete(node);
  }

  /** Talks to every node again. */
  forgive(): void {
    this.#until.clear();
    this.#late.clear();
  }
}

function put<T>(table: Map<string, T>, node: string, value: T): void {
  table.delete(node);
  const [oldest] = table.keys();
  if (oldest !== undefined && table.size >= MAX_SHUNNED) table.delete(oldest);
  table.set(node, value);
}
