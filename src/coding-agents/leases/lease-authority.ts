import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { LeaseDevices } from './lease-devices.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';

export interface LeaseAuthorityComponents {
  runtime: Runtime;
  store: Store;
  devices: LeaseDevices;
  nodeKey: string;
  isGoneHere: (holder: string) => boolean;
  /** A lease of this node's member ended before its time. */
  onEnd: (id: string, reason: string) => Promise<void>;
  /** Leases of the repository, or of all, must be confirmed again: another keeper decides about it, or lost touch. */
  onMove: (repository: string | undefined) => void;
}

/**
 * Decides about leases. At any time at most one agent of all devices has a lease of a path that its own device's authority
 * calls confirmed; the tokens of a repository only grow.
 */
export interface LeaseAuthority {
  start(): void;
  /** Who decides about the repository, as far as this device knows. */
  keeperOf(repository: string): string | undefined;
  /** Does the decision for this lease certainly still hold? */
  isConfirmed(lease: HeldHere): boolean;
  /** Is the holder's process, or its device, gone? */
  isGone(holder: string): boolean;
  /** The decision; undefined when it cannot be had now. */
  settle(repository: string, operation: Operation): Promise<Outcome | undefined>;
  /** A sign of life, every few seconds while this node's members have these leases. */
  beat(leases: readonly HeldHere[]): Promise<void>;
  /** All leases that can be seen from here. */
  list(): Promise<(readonly [repository: string, lease: Lease])[]>;
  close(): void;
}

export type HeldHere = Lease & { readonly repository: string };

/** The node in a holder's address. */
export function nodeOf(holder: string): string {
  return holder.slice(holder.lastIndexOf('@') + 1);
}

/** How long a confirmation holds: less than the time after which a silent device's leases are given away. */
export const CONFIRMED_MS = 8_000;
/** Leases of a device that was silent for this long may be taken by others. */
export const SILENT_MS = 10_000;
/** A lease that its holder's device does not know after this long is dropped: the grant never arrived there. */
export const ORPHAN_MS = 30_000;
