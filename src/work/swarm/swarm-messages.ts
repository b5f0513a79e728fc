import { z } from 'zod';
import { type Usage, UsageSchema } from '../usage.js';
import {
  EndSchema,
  type Entry,
  EntrySchema,
  type Frozen,
  MemberSchema,
  OpeningSchema,
  type SwarmEscalation,
  type SwarmOpening,
  text,
  whole,
} from './swarm-records.js';

const WorkSchema = z.object({
  subTask: text,
  description: text,
  requiredCapabilities: z.array(text),
  /** The task of the whole swarm. */
  task: text,
  input: z.unknown().optional(),
  /** Results of the sub-tasks that it depends on, by their ids. */
  dependencies: z.record(z.string(), z.unknown()),
});

const FindingSchema = z.union([z.object({ error: text }).strict(), z.object({ result: z.unknown() }).strict()]);

/** Between seats. On the wire, a term of Raft is called `epoch`, and the commit index `settled`. */
const RaftSchemas = [
  /** Raft's AppendEntries: entries after `prior`. Without entries, a heartbeat. */
  z.object({
    type: z.literal('append'),
    epoch: whole,
    prior: whole,
    priorEpoch: whole,
    entries: z.array(EntrySchema),
    settled: whole,
  }),
  /** Taken: has everything up to `n`. Not taken: the logs agree at most up to `n`. */
  z.object({ type: z.literal('ack'), epoch: whole, n: whole, taken: z.boolean() }),
  /** Raft's RequestVote; as a trial, its pre-vote, which does not bind the voter. */
  z.object({ type: z.literal('ask'), epoch: whole, last: whole, lastEpoch: whole, trial: z.boolean() }),
  z.object({ type: z.literal('vote'), epoch: whole, granted: z.boolean(), trial: z.boolean() }),
] as const;

const MessageSchema = z.discriminatedUnion('type', [
  ...RaftSchemas,
  /** From the arbiter to a member: its leases, and the swarm until the member knows it. */
  z.object({
    type: z.literal('beat'),
    epoch: whole,
    settled: whole,
    holds: z.array(whole),
    /** Is a majority in touch with the arbiter? */
    firm: z.boolean(),
    ended: EndSchema.optional(),
    swarm: OpeningSchema.optional(),
  }),
  /** The member's answer to a beat. */
  z.object({
    type: z.literal('pulse'),
    epoch: whole,
    load: z.number().nonnegative(),
    holding: z.array(whole),
    members: whole,
    ended: z.boolean(),
  }),
  z.object({ type: z.literal('work'), epoch: whole, lease: whole, work: WorkSchema }),
  /** `usage` is what the attempt cost. */
  z.object({
    type: z.literal('found'),
    lease: whole,
    subTask: text,
    finding: FindingSchema,
    usage: UsageSchema.optional(),
  }),
  /** The findings of these leases are settled, or came too late, and need not be stored any longer. */
  z.object({ type: z.literal('taken'), leases: z.array(whole) }),
  z.object({ type: z.literal('join'), member: MemberSchema }),
  /** The sender is not the arbiter; this member is. */
  z.object({ type: z.literal('refer'), arbiter: text }),
  /** The creator ends the swarm. */
  z.object({ type: z.literal('cancel'), reason: text }),
]);

export type Work = Frozen<z.infer<typeof WorkSchema>>;
/** How an attempt at a sub-task ended, as its holder says. */
export type Finding = Frozen<z.infer<typeof FindingSchema>>;

/** A finding with its sub-task, and what the attempt cost. */
export interface Found {
  readonly subTask: string;
  readonly finding: Finding;
  readonly usage?: Usage | undefined;
}

export type SwarmMessage = Frozen<z.infer<typeof MessageSchema>>;
export type RaftMessage = Frozen<z.infer<(typeof RaftSchemas)[number]>>;
export type MessageOf<Type extends SwarmMessage['type']> = Extract<SwarmMessage, { readonly type: Type }>;

/** The message, if it is well-formed. */
export function readSwarmMessage(payload: unknown): SwarmMessage | undefined {
  return MessageSchema.safeParse(payload).data;
}

/** What must be on disk before anything that relies on it is sent. The log of a broker has no votes. */
export interface RaftWrite {
  readonly term: number;
  readonly votedFor: string | null;
  /** The entries from this index on are replaced by `entries`. */
  readonly from?: number;
  readonly entries?: readonly Entry[];
}

/** What a member's machine wants done, in this order: a write is on disk before any effect after it is performed. */
export type SwarmEffect =
  | { readonly type: 'send'; readonly to: string; readonly message: SwarmMessage }
  | { readonly type: 'keep'; readonly keep: RaftWrite }
  /** Appends to the swarm's log at the broker, or reads it. The answer is an event. */
  | { readonly type: 'append'; readonly expectedLast: number; readonly value: unknown }
  | { readonly type: 'read'; readonly above: number }
  | { readonly type: 'keep-opening'; readonly swarm: SwarmOpening }
  | { readonly type: 'keep-finding'; readonly lease: number; readonly found: Found }
  | { readonly type: 'drop-finding'; readonly lease: number }
  | { readonly type: 'run'; readonly lease: number; readonly work: Work }
  | { readonly type: 'stop'; readonly lease: number; readonly reason: string }
  /** Settled records changed these sub-tasks; an empty list stands for any other change of the board. */
  | { readonly type: 'changed'; readonly subTasks: readonly string[] }
  | { readonly type: 'escalated'; readonly escalation: SwarmEscalation }
  /** Nothing could be settled for too long. */
  | { readonly type: 'stalled'; readonly reason: string }
  | { readonly type: 'resumed' }
  | { readonly type: 'ended' };

/** Takes the effects of a part of the machine. */
export type Emit = (effect: SwarmEffect) => void;
