import { splitAddress } from '../mesh/address.js';
import type { Store, Write } from '../store/store.js';
import { ownerOf } from './mail-quota.js';
import { type PermitRow, permits as permitTable } from './tables.js';

/** Permits of one owner, which is an agent of this node or another node. The next one replaces the oldest. */
const MAX_PER_OWNER = 50_000;

/** The permits to answer durable messages. Like the messages, they survive restarts of both sides. */
export class Permits {
  readonly #known = new Map<string, Map<string, PermitRow>>();

  static async open(store: Store): Promise<Permits> {
    const permits = new Permits();
    for (const row of await store.read(permitTable, { orderBy: 'expiresAt' })) permits.#add(row);
    return permits;
  }

  /** The writes that grant a permit, to be made together with the message that opens the thread. */
  grant(thread: string | undefined, opener: string, responder: string, expiresAt: number): Write[] {
    if (thread === undefined) return [];
    const row = { thread, opener, responder, expiresAt };
    const owned = this.#add(row);
    const writes: Write[] = [permitTable.put(row)];
    for (const [key, oldest] of owned) {
      if (owned.size <= MAX_PER_OWNER) break;
      owned.delete(key);
      const { expiresAt: _, ...where } = oldest;
      writes.push(permitTable.delete(where));
    }
    return writes;
  }

  allows(thread: string, opener: string, responder: string): boolean {
    return this.#known.get(ownerOf(opener))?.has(keyOf(thread, opener, responder)) === true;
  }

  /** Drops expired permits; returns the writes that delete them on disk. */
  expire(now: number): Write[] {
    let expired = false;
    for (const [owner, owned] of this.#known) {
      for (const [key, { expiresAt }] of owned) if (expiresAt < now) expired = owned.delete(key) || expired;
      if (owned.size === 0) this.#known.delete(owner);
    }
    return expired ? [permitTable.delete({}, { expiresAt: now })] : [];
  }

  /** Drops the permits granted by or to agents of a node; returns the writes that delete them on disk. */
  forget(node: string): Write[] {
    const gone: PermitRow[] = [...(this.#known.get(`@${node}`)?.values() ?? [])];
    this.#known.delete(`@${node}`);
    for (const [owner, owned] of this.#known) {
      for (const [key, row] of owned) {
        if (splitAddress(row.responder).node === node && owned.delete(key)) gone.push(row);
      }
      if (owned.size === 0) this.#known.delete(owner);
    }
    return gone.map(({ expiresAt: _, ...where }) => permitTable.delete(where));
  }

  #add(row: PermitRow): Map<string, PermitRow> {
    const owner = ownerOf(row.opener);
    const owned = this.#known.get(owner) ?? new Map<string, PermitRow>();
    this.#known.set(owner, owned);
    const key = keyOf(row.thread, row.opener, row.responder);
    owned.delete(key);
    owned.set(key, row);
    return owned;
  }
}

function keyOf(thread: string, opener: string, responder: string): string {
  return `${opener} ${responder} ${thread}`;
}
