import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';

interface Opening {
  readonly waiting: { send: () => void; fail: (error: EclipticError) => void }[];
  readonly timer: Timer;
}

/** How long a present node may take to begin a conversation. */
const OPEN_MS = 10_000;
/** Items that wait for the beginning of one conversation. */
const MAX_WAITING = 10_000;

/** Items for nodes that are present and not talked to: they wait until a conversation has begun, or could not. */
export class Openings {
  readonly #runtime: Runtime;
  readonly #openings = new Map<string, Opening>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get nodes(): Iterable<string> {
    return this.#openings.keys();
  }

  has(node: string): boolean {
    return this.#openings.has(node);
  }

  /** Begins to open a conversation with that node, with nothing to send yet. */
  open(node: string): void {
    if (this.#openings.has(node)) return;
    const timer = this.#runtime.setTimer(() => {
      this.fail(node, `node ${node} is listed, but could not be reached within ${OPEN_MS / 1_000} s`);
    }, OPEN_MS);
    this.#openings.set(node, { waiting: [], timer });
  }

  /** Calls `send` once the conversation has begun, in the order of these calls, or `fail`. Throws `QUEUE_FULL`. */
  wait(node: string, send: () => void, fail: (error: EclipticError) => void): void {
    this.open(node);
    const { waiting } = this.#openings.get(node)!;
    if (waiting.length >= MAX_WAITING) {
      throw new EclipticError('QUEUE_FULL', 'too many items wait for the other node already');
    }
    waiting.push({ send, fail });
  }

  /** The conversation has begun, and the protocols have sent their first items. */
  began(node: string): void {
    const opening = this.#take(node);
    for (const { send, fail } of opening?.waiting ?? []) {
      try {
        send();
      } catch (error) {
        fail(error as EclipticError);
      }
    }
  }

  fail(node: string, reason: string): void {
    const opening = this.#take(node);
    for (const { fail } of opening?.waiting ?? []) {
      fail(new EclipticError('DELIVERY_FAILED', reason, { outcome: 'not-delivered' }));
    }
  }

  #take(node: string): Opening | undefined {
    const opening = this.#openings.get(node);
    this.#openings.delete(node);
    opening?.timer.cancel();
    return opening;
  }
}
