import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';

export interface StoreEpochInit {
  /** The highest number that this store has given to a message. */
  last: number;
  /** Tells this data folder from its copies. */
  place?: string | undefined;
}

/** Why the epoch is not the store's first. */
export interface Restoration {
  readonly at: number;
  readonly reason: string;
}

const LINEAGE = 'store';
const EPOCH = 'store epoch';
const BASE = 'store base';
const PLACE = 'store place';
const RESTORED = 'store restored';
/** Other nodes' word changes the epoch this often at most. */
const RENEW_MS = 600_000;

/**
 * Names the numbers that this store gives to messages. A store that was put back from a copy gives some of them a second
 * time, to other messages; it does so in a new epoch, so that nobody takes the second for the first. Messages up to the
 * epoch's base are older than the epoch: the receiver compares them by their ids.
 */
export class StoreEpoch {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #lineage: number;
  #epoch: number;
  #base: number;
  #renewedAt: number | undefined;
  restored: Restoration | undefined;

  private constructor(runtime: Runtime, store: Store, lineage: number, epoch: number, base: number) {
    this.#runtime = runtime;
    this.#store = store;
    this.#lineage = lineage;
    this.#epoch = epoch;
    this.#base = base;
  }

  static async open(runtime: Runtime, store: Store, { last, place }: StoreEpochInit): Promise<StoreEpoch> {
    const rows = await store.read({ from: 'cursors', where: { name: [LINEAGE, EPOCH, BASE] } });
    const cursors = new Map(rows.map(({ name, value }) => [name, value]));
    const lineage = cursors.get(LINEAGE) ?? numberFrom(runtime);
    const writes: Write[] = [];
    if (!cursors.has(LINEAGE)) writes.push({ put: 'cursors', row: { name: LINEAGE, value: lineage } });
    const metas = await store.read({ from: 'meta', where: { name: [PLACE, RESTORED] } });
    const meta = new Map(metas.map(({ name, value }) => [name, value]));
    const epoch = new StoreEpoch(runtime, store, lineage, cursors.get(EPOCH) ?? 0, cursors.get(BASE) ?? 0);
    const restored = meta.get(RESTORED);
    if (restored !== undefined) epoch.restored = JSON.parse(restored);
    const known = meta.get(PLACE);
    if (place !== undefined && known !== place) {
      writes.push({ put: 'meta', row: { name: PLACE, value: place } });
      if (known !== undefined)
        writes.push(...epoch.#renew(last, 'this data folder is a copy, or was put back from one'));
    }
    if (writes.length > 0) await store.write(writes);
    return epoch;
  }

  /** How the store is called in this epoch. */
  get name(): string {
    return this.#epoch === 0 ? String(this.#lineage) : `${this.#lineage}.${this.#epoch}.${this.#base}`;
  }

  /** Begins another epoch, because another node has seen more of this store than the store knows; false if one just began. */
  async renew(last: number, reason: string): Promise<boolean> {
    const now = this.#runtime.stopwatch();
    if (this.#renewedAt !== undefined && now - this.#renewedAt < RENEW_MS) return false;
    this.#renewedAt = now;
    await this.#store.write(this.#renew(last, reason));
    return true;
  }

  #renew(last: number, reason: string): Write[] {
    this.#epoch = numberFrom(this.#runtime);
    this.#base = last;
    this.restored = { at: this.#runtime.now(), reason };
    return [
      { put: 'cursors', row: { name: EPOCH, value: this.#epoch } },
      { put: 'cursors', row: { name: BASE, value: last } },
      { put: 'meta', row: { name: RESTORED, value: JSON.stringify(this.restored) } },
    ];
  }
}

/** Is that the name of a store in another epoch than its first? */
export function isLaterEpoch(storeName: string): boolean {
  return storeName.includes('.');
}

/** Messages up to this number may have been sent in an earlier epoch of that store. */
export function baseOf(storeName: string): number {
  const base = Number(storeName.split('.')[2] ?? 0);
  return Number.isSafeInteger(base) ? base : 0;
}

function numberFrom(runtime: Runtime): number {
  return 1 + Math.floor(runtime.random() * (Number.MAX_SAFE_INTEGER - 1));
}
