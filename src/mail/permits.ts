import type { Store, Write } from '../store/store.js';

/** The right to answer a durable message: it outlives restarts of both sides, as the message does. */
export class Permits {
  readonly #known = new Map<string, number>();

  static async open(store: Store): Promise<Permits> {
    const permits = new Permits();
    for (const { thread, opener, responder, expiresAt } of await store.read({ from: 'permits' })) {
      permits.#known.set(keyOf(thread, opener, responder), expiresAt);
    }
    return permits;
  }

  /** The writes that give the right, to be made with the message that opens the thread. */
  grant(thread: string | undefined, opener: string, responder: string, expiresAt: number): Write[] {
    if (thread === undefined) return [];
    this.#known.set(keyOf(thread, opener, responder), expiresAt);
    return [{ put: 'permits', row: { thread, opener, responder, expiresAt } }];
  }

  allows(thread: string, opener: string, responder: string): boolean {
    return this.#known.has(keyOf(thread, opener, responder));
  }

  /** Forgets those whose time has run out; returns the writes that do so on disk. */
  expire(now: number): Write[] {
    const before = this.#known.size;
    for (const [key, expiresAt] of this.#known) if (expiresAt < now) this.#known.delete(key);
    return this.#known.size === before ? [] : [{ delete: 'permits', where: {}, below: { expiresAt: now } }];
  }
}

function keyOf(thread: string, opener: string, responder: string): string {
  return `${opener} ${responder} ${thread}`;
}
