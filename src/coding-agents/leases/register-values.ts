import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Registered } from '../../store/shared/registers.js';
import { address, EndsSchema, type Lease, LeaseSchema, MAX_LEASES_PER_REPOSITORY, repository } from './lease-wire.js';

const whole = z.int().nonnegative();

const StoredLeaseSchema = z
  .object({
    /** Its token is 0 in the value that first has it: the revision of that value decides it. */
    lease: LeaseSchema,
    /** The session of the holder's device in which it was last confirmed. */
    session: whole,
    /** The number of the device's latest sign of life when it was confirmed: reports of older ones do not concern it. */
    asOf: whole,
    /** The user has taken it back; its device has yet to give it up. */
    revoked: z.literal(true).optional(),
  })
  .readonly();
export type StoredLease = z.infer<typeof StoredLeaseSchema>;

const RepositorySchema = z.object({
  repository,
  /** Added to a revision, it gives a token. More than 0 if tokens were given elsewhere before. */
  base: whole,
  leases: z.array(StoredLeaseSchema).max(MAX_LEASES_PER_REPOSITORY).readonly(),
  /** Why leases ended before their time, the latest last. */
  ends: EndsSchema.readonly(),
});
export type RepositoryValue = z.infer<typeof RepositorySchema>;

/** The leases of a repository at one revision of its register. */
export interface RepositoryState extends RepositoryValue {
  readonly revision: number;
}

const SessionSchema = z.object({
  session: whole,
  /** Counts signs of life. */
  beat: whole,
  /** Holders on that device whose process is gone. */
  gone: z.array(address).max(1_000).readonly(),
  /** Another device has found it silent, and may take its leases. */
  closed: z.literal(true).optional(),
});
export type SessionValue = z.infer<typeof SessionSchema>;

const MAX_ENDS = 50;
const SESSION = 's.';
const REPOSITORY = 'r.';

export function sessionKey(node: string): string {
  return `${SESSION}${node}`;
}

/** A digest, so that the names of repositories are not to be read from the keys. */
export function repositoryKey(id: string): string {
  return `${REPOSITORY}${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}

/** The node whose session a register has. */
export function sessionNode(key: string): string | undefined {
  return key.startsWith(SESSION) ? key.slice(SESSION.length) : undefined;
}

export function isRepositoryKey(key: string): boolean {
  return key.startsWith(REPOSITORY);
}

export function readRepository({ revision, value }: Registered): RepositoryState | undefined {
  const { data } = RepositorySchema.safeParse(value);
  return data && withTokens(data, revision);
}

export function readSession({ value }: Registered): SessionValue | undefined {
  return SessionSchema.safeParse(value).data;
}

/** The value as its readers see it: every lease has its token. */
export function withTokens(value: RepositoryValue, revision: number): RepositoryState {
  const token = value.base + revision;
  const leases = value.leases.map((one) => (one.lease.token === 0 ? { ...one, lease: { ...one.lease, token } } : one));
  return { ...value, leases, revision };
}

export function emptyState(id: string, revision: number): RepositoryState {
  return { repository: id, base: 0, leases: [], ends: [], revision };
}

/** Leaves out the oldest reasons. */
export function addEnds(
  ends: RepositoryValue['ends'],
  gone: readonly Lease[],
  reason: () => string,
): RepositoryValue['ends'] {
  const more = gone.map((lease): [string, string] => [lease.id, reason().slice(0, 500)]);
  return [...ends, ...more].slice(-MAX_ENDS);
}
