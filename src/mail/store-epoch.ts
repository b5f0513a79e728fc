import type { A2AObservability } from '../mesh/observability.js';
import type { Finding } from '../network/peers/network.js';
import type { Runtime } from '../runtime/runtime.js';
import { cursors as cursorTable, meta as metaTable } from '../store/common-tables.js';
import type { Store, Write } from '../store/store.js';

export interface StoreEpochInit {
  last: number;
  /** Distinguishes this data folder from copies of it. */
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
/** The shortest time between two epochs that other nodes cause. */
const RENEW_MS = 600_000;

/**
 * Names the sequence of message numbers of this store. A store that was restored from a copy gives some numbers to other
 * messages a second time. It does so in a new epoch, so that receivers do not drop them as duplicates. Messages up to the
 * epoch's base are older than the epoch: receivers compare them by id.
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
    const rows = await store.read(cursorTable, { where: { name: [LINEAGE, EPOCH, BASE] } });
    const cursors = new Map(rows.map(({ name, value }) => [name, value]));
    const lineage = cursors.get(LINEAGE) ?? numberFrom(runtime);
    const writes: Write[] = [];
    if (!cursors.has(LINEAGE)) writes.push(cursorTable.put({ name: LINEAGE, value: lineage }));
    const metas = await store.read(metaTable, { where: { name: [PLACE, RESTORED] } });
    const meta = new Map(metas.map(({ name, value }) => [name, value]));
    const epoch = new StoreEpoch(runtime, store, lineage, cursors.get(EPOCH) ?? 0, cursors.get(BASE) ?? 0);
    const restored = meta.get(RESTORED);
    if (restored !== undefined) epoch.restored = JSON.parse(restored);
    const known = meta.get(PLACE);
    if (place !== undefined && known !== place) {
      writes.push(metaTable.put({ name: PLACE, value: place }));
      if (known !== undefined)
        writes.push(...epoch.#renew(last, 'this data folder is a copy, or was put back from one'));
    }
    if (writes.length > 0) await store.write(writes);
    return epoch;
  }

  get name(): string {
    return this.#epoch === 0 ? String(this.#lineage) : `${this.#lineage}.${this.#epoch}.${this.#base}`;
  }

  /** Begins another epoch, because another node has seen messages that this store does not know; false if one just began. */
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
      cursorTable.put({ name: EPOCH, value: this.#epoch }),
      cursorTable.put({ name: BASE, value: last }),
      metaTable.put({ name: RESTORED, value: JSON.stringify(this.restored) }),
    ];
  }
}

/** Reports stores that were restored from a copy: this node's and those of others. */
export class Restorations {
  readonly #runtime: Runtime;
  readonly #observability: A2AObservability;
  readonly #epoch: StoreEpoch;
  /** Nodes whose stores have used numbers a second time in this run. */
  readonly #peers = new Set<string>();

  constructor(runtime: Runtime, observability: A2AObservability, epoch: StoreEpoch) {
    this.#runtime = runtime;
    this.#observability = observability;
    this.#epoch = epoch;
  }

  reportPeer(node: string): void {
    if (this.#peers.has(node)) return;
    this.#peers.add(node);
    const cause = 'the node numbers its mail another time: its store was put back from a copy';
    this.report(node, `${cause}; mail is compared by id`);
  }

  report(node: string, reason: string): void {
    this.#runtime.logger.warn({ node, reason }, 'store: restored from a copy');
    const timestamp = this.#runtime.now();
    this.#observability.emit({ type: 'security', node, code: 'STORE_RESTORED', reason, timestamp });
  }

  diagnose(): Finding[] {
    const { restored } = this.#epoch;
    const texts = [...this.#peers].map((node) => {
      const effect = 'it sent other mail under numbers that it had used; all of it was taken';
      return `store: node ${node.slice(0, 12)} was put back from a copy: ${effect}`;
    });
    if (restored) {
      const day = new Date(restored.at).toISOString().slice(0, 10);
      texts.unshift(`store: since ${day}, mail is numbered in a new epoch: ${restored.reason}`);
    }
    return texts.map((text) => ({ level: 'warning', text }));
  }
}

/** Is this the name of a store that is past its first epoch? */
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
