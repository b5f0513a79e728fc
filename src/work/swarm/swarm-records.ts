import { z } from 'zod';
import { UsageSchema } from '../usage.js';

/** What a swarm consists of, and the records by which it changes. Everything here is JSON, on the wire and on disk. */

/** The type of read data: nothing of it is changed. */
export type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T;

export const whole = z.number().int().nonnegative();
export const text = z.string().max(4_096);

export const MemberSchema = z.object({
  /** `id@node`. */
  address: text,
  capabilities: z.array(text).max(256),
  /** Its other work, as it said when it accepted. */
  load: z.number().nonnegative(),
  /** How many sub-tasks it takes at once. */
  capacity: z.number().int().positive().max(1_024),
});

const SubTaskPlanSchema = z.object({
  id: text,
  description: text,
  requiredCapabilities: z.array(text).max(64),
  dependsOn: z.array(text).max(20_000),
  input: z.unknown().optional(),
  /** The one agent that may do it, such as the aggregator. */
  only: text.optional(),
});

export const OpeningSchema = z.object({
  id: text,
  task: text,
  capabilities: z.array(text).max(64),
  creator: text,
  createdAt: z.number(),
  rules: z.object({
    /** A member that is silent for this long loses its leases. */
    leaseMs: z.number().positive(),
    /** Leases of one sub-task before it counts as failed. */
    attempts: whole,
    /** How long a sub-task waits for a capable member. */
    patienceMs: z.number().nonnegative(),
  }),
  members: z.array(MemberSchema).max(1_024),
  /** One of these is the arbiter, at first the first. By Raft, a record is settled when a majority of them has it. */
  seats: z.array(text).min(1).max(9),
  /** The sub-task that joins the others' results. */
  aggregate: text.optional(),
  /** The records are in a log at the broker that all seats use. Without: the seats settle them by Raft. */
  log: z.literal('broker').optional(),
});

const status = z.enum(['completed', 'failed']);
export const EndSchema = z.object({ status, reason: text.optional() });

export const RecordSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('open'), swarm: OpeningSchema }),
  /** A part of the plan: long plans do not fit in one message. */
  z.object({ type: z.literal('plan'), subTasks: z.array(SubTaskPlanSchema.extend({ assigned: text })) }),
  z.object({ type: z.literal('begin') }),
  /** The first record of each later term. */
  z.object({ type: z.literal('arbiter'), address: text }),
  z.object({ type: z.literal('join'), member: MemberSchema }),
  /** The sub-task is that member's from here on. The record's index names the lease. */
  z.object({ type: z.literal('lease'), subTask: text, holder: text }),
  z.object({
    type: z.literal('result'),
    subTask: text,
    lease: whole,
    result: z.unknown(),
    usage: UsageSchema.optional(),
  }),
  /** `lapsed`: its holder fell silent, and did not report a failure. */
  z.object({
    type: z.literal('failure'),
    subTask: text,
    lease: whole,
    reason: text,
    lapsed: z.boolean(),
    usage: UsageSchema.optional(),
  }),
  /** No member can do it. */
  z.object({ type: z.literal('escalation'), subTask: text, reason: text }),
  z.object({ type: z.literal('end'), status, reason: text.optional() }),
]);

/** A record in the log, and the term of the arbiter that wrote it. */
export const EntrySchema = z.object({ epoch: whole, record: RecordSchema });

export type SubTaskPlan = Frozen<z.infer<typeof SubTaskPlanSchema>>;
export type Member = Frozen<z.infer<typeof MemberSchema>>;
export type SwarmOpening = Frozen<z.infer<typeof OpeningSchema>>;
export type SwarmEnd = Frozen<z.infer<typeof EndSchema>>;
export type SwarmRecord = Frozen<z.infer<typeof RecordSchema>>;
export type Entry = Frozen<z.infer<typeof EntrySchema>>;

/** About how long a record is as JSON. Only records that may be large are measured. */
export function weighRecord(record: SwarmRecord): number {
  const mayBeLarge = ['plan', 'result', 'open', 'failure'].includes(record.type);
  return mayBeLarge ? JSON.stringify(record).length : 128;
}

export type SwarmStatus = 'recruiting' | 'active' | 'completing' | 'completed' | 'failed';

export type EscalationKind = 'no-capable-agent' | 'attempts-exhausted' | 'no-majority';

/** A problem that the swarm cannot solve on its own. */
export interface SwarmEscalation {
  readonly swarmId: string;
  readonly kind: EscalationKind;
  /** Undefined where it concerns all of them. */
  readonly subTask?: string;
  readonly reason: string;
}

/** How a swarm ended. */
export interface SwarmOutcome extends SwarmEnd {
  readonly swarmId: string;
  /** By sub-task, in the plan's order; a failed swarm may have some. */
  readonly results: Readonly<Record<string, unknown>>;
  /** The aggregator's result. */
  readonly aggregate?: unknown;
  readonly escalations: readonly SwarmEscalation[];
}
