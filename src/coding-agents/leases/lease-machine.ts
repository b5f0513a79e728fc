import { splitAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import { isSameGlob, overlaps, weightOf } from './glob.js';
import { type Lease, MAX_LEASES_PER_REPOSITORY, type Operation, type Outcome, type Take } from './lease-wire.js';

export interface LeaseState {
  /** The highest token given so far. */
  readonly token: number;
  readonly leases: readonly Lease[];
}

export interface Circumstances {
  readonly now: number;
  readonly isGone: (holder: string) => boolean;
  /** May this device give tokens? */
  readonly settles: boolean;
}

interface Step {
  readonly state: LeaseState;
  readonly outcome: Outcome;
}

export const MAX_LEASES_PER_HOLDER = 100;
/** Limits the work of a take, which is compared with every glob of every holder. */
const MAX_WEIGHT_PER_HOLDER = 16_384;

export const NOTHING: LeaseState = { token: 0, leases: [] };

/** Grants all that an operation asks for, or nothing. A check is a take that changes nothing. */
export function step(before: LeaseState, operation: Operation, circumstances: Circumstances): Step {
  const state = { ...before, leases: before.leases.filter(({ expiresAt }) => expiresAt > circumstances.now) };
  if (isTake(operation)) return take(state, operation, circumstances);
  const chosen = state.leases.filter(({ id, holder, glob }) => {
    if (operation.kind === 'revoke') return operation.id === id;
    return holder === operation.holder && (operation.globs?.some((one) => isSameGlob(one, glob)) ?? true);
  });
  const others = state.leases.filter((lease) => !chosen.includes(lease));
  const outcome = { leases: chosen, conflicts: [], reclaimed: [] };
  if (operation.kind !== 'renew') return { state: { ...state, leases: others }, outcome };
  const renewed = chosen.map((lease) => extended(lease, operation.ttlMs, circumstances.now));
  return { state: { ...state, leases: [...others, ...renewed] }, outcome: { ...outcome, leases: renewed } };
}

function isTake(operation: Operation): operation is Take {
  return operation.kind === 'take' || operation.kind === 'check';
}

function take(
  state: LeaseState,
  { kind, holder, wanted, ttlMs, why }: Take,
  { now, isGone, settles }: Circumstances,
): Step {
  assertWeight(wanted);
  const met = wanted.flatMap(({ glob }) =>
    state.leases
      .filter((lease) => lease.holder !== holder && overlaps(glob, lease.glob))
      .map((lease) => ({ glob, lease })),
  );
  const conflicts = met.filter(({ lease }) => !isGone(lease.holder));
  const reclaimed = [...new Set(met.map(({ lease }) => lease).filter((lease) => isGone(lease.holder)))];
  const own = state.leases.filter((lease) => lease.holder === holder);
  const had = own.filter((lease) => wanted.some(({ glob }) => isSameGlob(glob, lease.glob)));
  if (kind === 'check' || conflicts.length > 0) return { state, outcome: { leases: had, conflicts, reclaimed } };
  const fresh = wanted.filter(({ glob }) => !own.some((lease) => isSameGlob(lease.glob, glob)));
  const left = state.leases.filter((lease) => !had.includes(lease) && !reclaimed.includes(lease));
  if (own.length + fresh.length > MAX_LEASES_PER_HOLDER || !hasRoom(left, holder, wanted.length)) {
    throw new EclipticError('QUEUE_FULL', 'too many leases at once; release some, or take one glob for many files');
  }
  assertWeight([...own, ...fresh]);
  const isNew = fresh.length > 0 || had.some((lease) => lease.token === 0);
  const token = settles && isNew ? state.token + 1 : 0;
  const about = { holder, why, token, since: now, expiresAt: now + ttlMs };
  const leases = [
    ...had.map((lease) => ({ ...extended(lease, ttlMs, now), token: lease.token || token })),
    ...fresh.map(({ id, glob }) => ({ id, glob, ...about })),
  ];
  const next = { token: Math.max(state.token, token), leases: [...left, ...leases] };
  return { state: next, outcome: { leases, conflicts, reclaimed } };
}

/** A node may use all free room, and an equal share when none is free: other nodes cannot lock it out. */
function hasRoom(leases: readonly Lease[], holder: string, more: number): boolean {
  if (leases.length + more <= MAX_LEASES_PER_REPOSITORY) return true;
  const { node } = splitAddress(holder);
  const nodes = leases.map((lease) => splitAddress(lease.holder).node);
  const own = nodes.filter((other) => other === node).length;
  return own + more <= MAX_LEASES_PER_REPOSITORY / new Set([...nodes, node]).size;
}

function assertWeight(globs: readonly { readonly glob: string }[]): void {
  const weight = globs.reduce((sum, { glob }) => sum + weightOf(glob), 0);
  if (weight <= MAX_WEIGHT_PER_HOLDER) return;
  throw new EclipticError('QUEUE_FULL', `the globs stand for more than ${MAX_WEIGHT_PER_HOLDER} characters together`);
}

/** A renewal never shortens a lease. */
function extended(lease: Lease, ttlMs: number, now: number): Lease {
  return { ...lease, since: now, expiresAt: Math.max(lease.expiresAt, now + ttlMs) };
}
