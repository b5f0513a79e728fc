import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { Lease } from './lease-wire.js';
import { type LeaseRow, leases as leaseTable } from './tables.js';

/** A lease of this node's member. Its times are by this node's clock. */
export interface HeldLease extends Lease {
  readonly repository: string;
  /** The holder was told that it ends soon. */
  readonly warned: boolean;
}

interface HeldLeasesComponents {
  runtime: Runtime;
  store: Store;
  /** Sends mail to a member, which may be away. */
  notify: (holder: string, text: string) => Promise<void>;
  onChange: () => void;
}

/** The fraction of its time after which the holder is warned. */
const WARN_AT = 0.8;

/** The leases of this node's members. Holders are warned before a lease ends, and told when it has ended. */
export class HeldLeases {
  readonly #components: HeldLeasesComponents;
  readonly #leases = new Map<string, HeldLease>();
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #closed = false;

  constructor(components: HeldLeasesComponents, rows: readonly LeaseRow[]) {
    this.#components = components;
    for (const { place: _place, warned, ...lease } of rows)
      this.#leases.set(lease.id, { ...lease, warned: warned === 1 });
    this.#lookLater();
  }

  get all(): HeldLease[] {
    const now = this.#components.runtime.now();
    return [...this.#leases.values()].filter(({ expiresAt }) => expiresAt > now);
  }

  has(id: string): boolean {
    return this.#leases.has(id);
  }

  async put(leases: readonly HeldLease[]): Promise<void> {
    for (const lease of leases) this.#leases.set(lease.id, lease);
    const { store } = this.#components;
    await store.write(leases.map((lease) => leaseTable.put({ place: 'held', ...lease, warned: lease.warned ? 1 : 0 })));
    this.#components.onChange();
    this.#lookLater();
  }

  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const id of ids) this.#leases.delete(id);
    this.#components.onChange();
    await this.#components.store.write([leaseTable.delete({ place: 'held', id: ids })]);
  }

  /** Ends a lease before its time, and tells its holder why. */
  async end(id: string, reason: string): Promise<void> {
    const lease = this.#leases.get(id);
    if (!lease) return;
    await this.#components.notify(lease.holder, `You no longer hold ${lease.glob}: ${reason}. Stop editing it.`);
    await this.remove([id]);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #lookLater(): void {
    this.#timer?.cancel();
    if (this.#closed || this.#leases.size === 0) return;
    const due = Math.min(
      ...[...this.#leases.values()].map((lease) => (lease.warned ? lease.expiresAt : warnAt(lease))),
    );
    const { runtime } = this.#components;
    this.#timer = runtime.setTimer(() => this.#lookNow(), Math.max(0, Math.min(due - runtime.now(), 86_400_000)));
  }

  #lookNow(): void {
    this.#looking ??= this.#look()
      .catch((error: unknown) => this.#components.runtime.logger.error({ err: error }, 'lease notice not stored'))
      .finally(() => {
        this.#looking = undefined;
        this.#lookLater();
      });
  }

  /** Each notice is on disk before it counts as given. */
  async #look(): Promise<void> {
    const { runtime, notify } = this.#components;
    for (const lease of [...this.#leases.values()]) {
      const now = runtime.now();
      if (this.#closed) return;
      if (now >= lease.expiresAt) {
        await notify(lease.holder, `Your lease on ${lease.glob} has lapsed. Take it again before you edit there.`);
        if (this.#leases.get(lease.id) === lease) await this.remove([lease.id]);
      } else if (!lease.warned && now >= warnAt(lease)) {
        const seconds = Math.ceil((lease.expiresAt - now) / 1_000);
        await notify(lease.holder, `Your lease on ${lease.glob} ends in ${seconds} s: renew it, or release it.`);
        if (this.#leases.get(lease.id) === lease) await this.put([{ ...lease, warned: true }]);
      }
    }
  }
}

function warnAt({ since, expiresAt }: Lease): number {
  return since + WARN_AT * (expiresAt - since);
}
