import { z } from 'zod';
import type { RaftMessage } from './raft-log.js';
import type { Member, SwarmOpening } from './swarm-records.js';

/** What a worker is given. */
export interface Work {
  readonly subTask: string;
  readonly description: string;
  readonly requiredCapabilities: readonly string[];
  /** What the swarm as a whole is for. */
  readonly task: string;
  readonly input?: unknown;
  /** Results of the sub-tasks that it depends on, by their ids. */
  readonly dependencies: Readonly<Record<string, unknown>>;
}

/** How an attempt at a sub-task ended, as its holder says. */
export type Finding = { readonly result: unknown } | { readonly error: string };

/** What the members of a swarm say to each other. */
export type SwarmMessage =
  | RaftMessage
  /** From the arbiter: it is there; the leases that the member has; and, until it has answered, what the swarm is. */
  | {
      readonly type: 'beat';
      readonly epoch: number;
      readonly settled: number;
      readonly holds: readonly number[];
      /** Is a majority in touch with it? */
      readonly firm: boolean;
      readonly ended?: { readonly status: 'completed' | 'failed'; readonly reason?: string };
      readonly swarm?: SwarmOpening;
    }
  /** The answer: it is there, what else it does, and what it works on. */
  | {
      readonly type: 'pulse';
      readonly epoch: number;
      readonly load: number;
      readonly holding: readonly number[];
      readonly members: number;
      readonly ended: boolean;
    }
  | { readonly type: 'work'; readonly epoch: number; readonly lease: number; readonly work: Work }
  | { readonly type: 'found'; readonly lease: number; readonly subTask: string; readonly finding: Finding }
  /** The findings of these leases are settled, or came too late: nobody needs to keep them. */
  | { readonly type: 'taken'; readonly leases: readonly number[] }
  | { readonly type: 'join'; readonly member: Member }
  /** Not the arbiter itself; this is who is. */
  | { readonly type: 'refer'; readonly arbiter: string }
  /** The creator wants it to end. */
  | { readonly type: 'cancel'; readonly reason: string };

const whole = z.number().int().nonnegative();
const text = z.string().max(4_096);
const member = z.object({
  address: text,
  capabilities: z.array(text).max(256),
  load: z.number().nonnegative(),
  capacity: z.number().int().positive().max(1_024),
});
const subTask = z.object({
  id: text,
  description: text,
  requiredCapabilities: z.array(text).max(64),
  dependsOn: z.array(text).max(20_000),
  input: z.unknown().optional(),
  only: text.optional(),
  assigned: text,
});
const opening = z.object({
  id: text,
  task: text,
  capabilities: z.array(text).max(64),
  creator: text,
  createdAt: z.number(),
  rules: z.object({ leaseMs: z.number().positive(), attempts: whole, patienceMs: z.number().nonnegative() }),
  members: z.array(member).max(1_024),
  seats: z.array(text).min(1).max(9),
  aggregate: text.optional(),
});
const status = z.enum(['completed', 'failed']);
const record = z.discriminatedUnion('type', [
  z.object({ type: z.literal('open'), swarm: opening }),
  z.object({ type: z.literal('plan'), subTasks: z.array(subTask) }),
  z.object({ type: z.literal('begin') }),
  z.object({ type: z.literal('arbiter'), address: text }),
  z.object({ type: z.literal('join'), member }),
  z.object({ type: z.literal('lease'), subTask: text, holder: text }),
  z.object({ type: z.literal('result'), subTask: text, lease: whole, result: z.unknown() }),
  z.object({ type: z.literal('failure'), subTask: text, lease: whole, reason: text, lapsed: z.boolean() }),
  z.object({ type: z.literal('escalation'), subTask: text, reason: text }),
  z.object({ type: z.literal('end'), status, reason: text.optional() }),
]);
const finding = z.union([z.object({ error: text }).strict(), z.object({ result: z.unknown() }).strict()]);
const message = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('append'),
    epoch: whole,
    prior: whole,
    priorEpoch: whole,
    entries: z.array(z.object({ epoch: whole, record })),
    settled: whole,
  }),
  z.object({ type: z.literal('ack'), epoch: whole, n: whole, taken: z.boolean() }),
  z.object({ type: z.literal('ask'), epoch: whole, last: whole, lastEpoch: whole, trial: z.boolean() }),
  z.object({ type: z.literal('vote'), epoch: whole, granted: z.boolean(), trial: z.boolean() }),
  z.object({
    type: z.literal('beat'),
    epoch: whole,
    settled: whole,
    holds: z.array(whole),
    firm: z.boolean(),
    ended: z.object({ status, reason: text.optional() }).optional(),
    swarm: opening.optional(),
  }),
  z.object({
    type: z.literal('pulse'),
    epoch: whole,
    load: z.number().nonnegative(),
    holding: z.array(whole),
    members: whole,
    ended: z.boolean(),
  }),
  z.object({
    type: z.literal('work'),
    epoch: whole,
    lease: whole,
    work: z.object({
      subTask: text,
      description: text,
      requiredCapabilities: z.array(text),
      task: text,
      input: z.unknown().optional(),
      dependencies: z.record(z.string(), z.unknown()),
    }),
  }),
  z.object({ type: z.literal('found'), lease: whole, subTask: text, finding }),
  z.object({ type: z.literal('taken'), leases: z.array(whole) }),
  z.object({ type: z.literal('join'), member }),
  z.object({ type: z.literal('refer'), arbiter: text }),
  z.object({ type: z.literal('cancel'), reason: text }),
]);

/** What a member of a swarm says, if it is well-formed. */
export function readSwarmMessage(said: unknown): SwarmMessage | undefined {
  const read = message.safeParse(said);
  return read.success ? (read.data as SwarmMessage) : undefined;
}
