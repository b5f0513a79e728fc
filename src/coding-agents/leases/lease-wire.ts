import { z } from 'zod';
import { isNormalGlob } from './glob.js';
import { MAX_LEASES_PER_REPOSITORY } from './lease-machine.js';

const repository = z.string().min(1).max(64);
const address = z.string().min(1).max(200);
const glob = z.string().min(1).max(500).refine(isNormalGlob);
const id = z.string().min(1).max(64);
const duration = z.number().positive().max(86_400_000);
/** Globs that are asked for at once. */
export const MAX_GLOBS = 50;

export const LeaseSchema = z.object({
  id,
  glob,
  holder: address,
  why: z.string().max(200),
  token: z.int().nonnegative(),
  since: z.number(),
  expiresAt: z.number(),
});

const globs = z.array(glob).max(MAX_GLOBS).optional();
const OperationSchema = z.union([
  z.object({
    kind: z.enum(['take', 'check']),
    holder: address,
    wanted: z.array(z.object({ id, glob })).min(1).max(MAX_GLOBS),
    ttlMs: duration,
    why: z.string().max(200),
  }),
  z.object({ kind: z.literal('renew'), holder: address, globs, ttlMs: duration }),
  z.object({ kind: z.literal('release'), holder: address, globs }),
  z.object({ kind: z.literal('revoke'), id }),
]);

const OutcomeSchema = z.object({
  leases: z.array(LeaseSchema),
  conflicts: z.array(z.object({ glob, lease: LeaseSchema })),
  reclaimed: z.array(LeaseSchema),
});

/** What one device of an owner asks another, and the answers. */
export const SettleSchema = z.object({ repository, operation: OperationSchema });
/** Or who else is to be asked. */
export const SettledSchema = z.union([
  z.object({ outcome: OutcomeSchema }),
  z.object({ keeper: z.string().max(64).nullable() }),
]);
export const ClaimSchema = z.object({ repository });
/** The leases that a device knows of at this keeper, and which of their holders are gone. */
export const BeatSchema = z.object({
  known: z.array(z.tuple([repository, id])).max(MAX_LEASES_PER_REPOSITORY),
  gone: z.array(address).max(1_000),
});
export const EndsSchema = z.array(z.tuple([id, z.string().max(500)])).max(MAX_LEASES_PER_REPOSITORY);
export const KeepersSchema = z.array(z.tuple([repository, z.string().max(64)])).max(10_000);
export const KeptSchema = z.array(z.tuple([repository, LeaseSchema])).max(MAX_LEASES_PER_REPOSITORY);
