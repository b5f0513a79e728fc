import { z } from 'zod';
import { isNormalGlob } from './glob.js';

export const MAX_GLOBS = 50;
export const MAX_LEASES_PER_REPOSITORY = 2_000;

export const repository = z.string().min(1).max(64);
export const address = z.string().min(1).max(200);
const glob = z.string().min(1).max(500).refine(isNormalGlob);
const id = z.string().min(1).max(64);
const ttlMs = z.number().positive().max(86_400_000);
const why = z.string().max(200);
const globs = z.array(glob).max(MAX_GLOBS).readonly().optional();
const list = <T extends z.ZodType>(element: T) => z.array(element).readonly();

/** Files of a repository that an agent has reserved. */
export const LeaseSchema = z
  .object({
    id,
    glob,
    /** The holder's address, with its node. */
    holder: address,
    why,
    /** Grows with every lease of the repository; 0 while the repository's keeper has not confirmed it. */
    token: z.int().nonnegative(),
    /** When it was taken, or last renewed. */
    since: z.number(),
    expiresAt: z.number(),
  })
  .readonly();
export type Lease = z.infer<typeof LeaseSchema>;

const TakeSchema = z
  .object({
    kind: z.enum(['take', 'check']),
    holder: address,
    /** Each with the id that a new lease is to have. */
    wanted: z.array(z.object({ id, glob }).readonly()).min(1).max(MAX_GLOBS).readonly(),
    ttlMs,
    why,
  })
  .readonly();
export type Take = z.infer<typeof TakeSchema>;

const OperationSchema = z.union([
  TakeSchema,
  /** Without globs: all leases of the holder. */
  z.object({ kind: z.literal('renew'), holder: address, globs, ttlMs }).readonly(),
  z.object({ kind: z.literal('release'), holder: address, globs }).readonly(),
  z.object({ kind: z.literal('revoke'), id }).readonly(),
]);
export type Operation = z.infer<typeof OperationSchema>;

const ConflictSchema = z.object({ glob, lease: LeaseSchema }).readonly();
export type Conflict = z.infer<typeof ConflictSchema>;

/** The result of an operation. With a conflict nothing has changed. */
const OutcomeSchema = z
  .object({
    /** Taken, renewed or released; for a check: the leases that the holder has already. */
    leases: list(LeaseSchema),
    conflicts: list(ConflictSchema),
    /** Taken from holders whose process is gone. */
    reclaimed: list(LeaseSchema),
  })
  .readonly();
export type Outcome = z.infer<typeof OutcomeSchema>;

/** Questions between the devices of an owner, and their answers. */
export const SettleSchema = z.object({ repository, operation: OperationSchema });
/** The outcome, or the device to ask instead. */
export const SettledSchema = z.union([
  z.object({ outcome: OutcomeSchema }),
  z.object({ keeper: z.string().max(64).nullable() }),
]);
export const ClaimSchema = z.object({ repository });
/** The leases that a device believes this keeper has confirmed, and the holders among them whose process is gone. */
export const BeatSchema = z.object({
  known: z.array(z.tuple([repository, id])).max(MAX_LEASES_PER_REPOSITORY),
  gone: z.array(address).max(1_000),
});
export const EndsSchema = z.array(z.tuple([id, z.string().max(500)])).max(MAX_LEASES_PER_REPOSITORY);
export const KeepersSchema = z.array(z.tuple([repository, z.string().max(64)])).max(10_000);
export const KeptSchema = z.array(z.tuple([repository, LeaseSchema])).max(MAX_LEASES_PER_REPOSITORY);
