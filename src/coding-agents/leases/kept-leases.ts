import type { Runtime } from '../../runtime/runtime.js';
import type { Store, Write } from '../../store/store.js';
import { ORPHAN_MS, SILENT_MS } from './lease-authority.js';
import { type LeaseState, NOTHING, step } from './lease-machine.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';
import { tokenSeen } from './seen-tokens.js';
import { type LeaseRow, leases as leaseTable } from './tables.js';

interface KeptLeasesComponents {
  runtime: Runtime;
  store: Store;
  nodeKey: string;
  isGoneHere: (holder: string) => boolean;
  /** Tells the holder's node that a lease ended before its time. */
  onEnd: (lease: Lease, reason: string) => void;
}

const MAX_ENDS = 1_000;

/** The leases that this device decides about as a keeper. Every change is on disk before it is answered. */
export class KeptLeases {
  readonly #components: KeptLeasesComponents;
  readonly #states = new Map<string, LeaseState>();
  /** When each device last sent something, and which of its holders are gone. */
  readonly #heard = new Map<string, { at: number; gone: ReadonlySet<string> }>();
  readonly #startedAt: number;
  /** Why leases ended, for devices that compare later. */
  readonly #ends = new Map<string, string>();

  constructor(components: KeptLeasesComponents, rows: readonly LeaseRow[], tokens: ReadonlyMap<string, number>) {
    this.#components = components;
    this.#startedAt = components.runtime.now();
    for (const [repository, token] of tokens) this.#states.set(repository, { token, leases: [] });
    for (const { repository, place: _place, warned: _warned, ...lease } of rows) {
      const { token, leases } = this.#states.get(repository) ?? NOTHING;
      this.#states.set(repository, { token: Math.max(token, lease.token), leases: [...leases, lease] });
    }
  }

  *all(): Generator<readonly [repository: string, lease: Lease]> {
    const now = this.#components.runtime.now();
    for (const [repository, { leases }] of this.#states) {
      for (const lease of leases) if (lease.expiresAt > now) yield [repository, lease];
    }
  }

  isGone(holder: string): boolean {
    const node = holder.slice(holder.lastIndexOf('@') + 1);
    if (node === this.#components.nodeKey) return this.#components.isGoneHere(holder);
    const { at, gone } = this.#heard.get(node) ?? { at: this.#startedAt, gone: new Set() };
    return gone.has(holder) || this.#components.runtime.now() - at > SILENT_MS;
  }

  heard(node: string, gone?: ReadonlySet<string>): void {
    const known = gone ?? this.#heard.get(node)?.gone ?? new Set();
    this.#heard.set(node, { at: this.#components.runtime.now(), gone: known });
  }

  /** A holder that asks for something is not gone, whatever its device said before. */
  asks(holder: string): void {
    const node = holder.slice(holder.lastIndexOf('@') + 1);
    const gone = new Set(this.#heard.get(node)?.gone);
    if (gone.delete(holder)) this.heard(node, gone);
  }

  async settle(repository: string, operation: Operation): Promise<Outcome> {
    const { runtime } = this.#components;
    const before = this.#states.get(repository) ?? NOTHING;
    const isGone = (holder: string) => this.isGone(holder);
    const { state, outcome } = step(before, operation, { now: runtime.now(), isGone, settles: true });
    if (operation.kind === 'check') return outcome;
    if (operation.kind === 'revoke') for (const lease of outcome.leases) this.#end(lease, 'your user took it back');
    if (operation.kind === 'take' && outcome.conflicts.length === 0) {
      for (const lease of outcome.reclaimed) {
        this.#end(lease, `${operation.holder} took the files: your process was gone, or out of reach`);
      }
    }
    await this.#become(repository, before, state);
    return outcome;
  }

  /** Compares with the leases that a device knows of. Returns those that no longer exist, and why. */
  async compare(
    node: string,
    known: readonly (readonly [repository: string, id: string])[],
  ): Promise<[string, string][]> {
    const now = this.#components.runtime.now();
    const ids = new Set(known.map(([, id]) => id));
    for (const [repository, state] of this.#states) {
      const isOrphan = ({ id, holder, since }: Lease) =>
        holder.endsWith(`@${node}`) && !ids.has(id) && now - since > ORPHAN_MS;
      const leases = state.leases.filter((lease) => !isOrphan(lease));
      if (leases.length < state.leases.length) await this.#become(repository, state, { ...state, leases });
    }
    return known.flatMap(([repository, id]): [string, string][] => {
      const found = this.#states.get(repository)?.leases.some((lease) => lease.id === id && lease.expiresAt > now);
      return found ? [] : [[id, this.#ends.get(id) ?? 'its keeper does not know of it any more']];
    });
  }

  highest(repository: string): number {
    return this.#states.get(repository)?.token ?? 0;
  }

  /** Records that tokens up to this one were given somewhere, so that none is given twice. */
  async saw(repository: string, token: number): Promise<void> {
    const state = this.#states.get(repository) ?? NOTHING;
    if (token > state.token) await this.#become(repository, state, { ...state, token });
  }

  async giveUp(repository: string): Promise<void> {
    const state = this.#states.get(repository);
    if (state) await this.#become(repository, state, { ...state, leases: [] });
  }

  #end(lease: Lease, reason: string): void {
    if (this.#ends.size >= MAX_ENDS) this.#ends.delete(this.#ends.keys().next().value!);
    this.#ends.set(lease.id, reason);
    this.#components.onEnd(lease, reason);
  }

  async #become(repository: string, before: LeaseState, after: LeaseState): Promise<void> {
    this.#states.set(repository, after);
    const changed = after.leases.filter((lease) => !before.leases.includes(lease));
    const gone = before.leases.filter(({ id }) => !after.leases.some((lease) => lease.id === id));
    const writes: Write[] = changed.map((lease) => leaseTable.put({ place: 'kept', repository, ...lease, warned: 0 }));
    if (gone.length > 0) writes.push(leaseTable.delete({ place: 'kept', id: gone.map(({ id }) => id) }));
    if (after.token > before.token) writes.push(tokenSeen(repository, after.token));
    if (writes.length > 0) await this.#components.store.write(writes);
  }
}
