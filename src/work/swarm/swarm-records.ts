/** What a swarm is made of, and the records by which it changes. Everything here is JSON. */

/** One piece of the work. */
export interface SubTaskPlan {
  readonly id: string;
  readonly description: string;
  /** Whoever works on it has all of these. */
  readonly requiredCapabilities: readonly string[];
  /** Sub-tasks whose results it needs. */
  readonly dependsOn: readonly string[];
  /** For its worker, as the plan gives it. */
  readonly input?: unknown;
  /** The one agent that may do it: how an aggregator gets the last word. */
  readonly only?: string;
}

/** An agent that said yes. */
export interface Member {
  /** `id@node`. */
  readonly address: string;
  readonly capabilities: readonly string[];
  /** What it does besides the swarm, as it said when it accepted. */
  readonly load: number;
  /** How many sub-tasks it takes at once. */
  readonly capacity: number;
}

export interface SwarmRules {
  /** Whoever is silent for this long holds nothing any more. */
  readonly leaseMs: number;
  /** How often a sub-task may be given to somebody before it counts as failed. */
  readonly attempts: number;
  /** How long a sub-task waits for somebody who is capable of it. */
  readonly patienceMs: number;
}

export interface SwarmOpening {
  readonly id: string;
  readonly task: string;
  readonly capabilities: readonly string[];
  readonly creator: string;
  readonly createdAt: number;
  readonly rules: SwarmRules;
  readonly members: readonly Member[];
  /** Whose word settles records: a majority of them must have one. The first is the first arbiter. */
  readonly seats: readonly string[];
  /** The sub-task that joins the others' results, if one does. */
  readonly aggregate?: string;
}

/** What arbiters write, one after the other. A record counts when a majority of the seats has it. */
export type SwarmRecord =
  | { readonly type: 'open'; readonly swarm: SwarmOpening }
  /** A part of the plan: long plans do not fit in one message. */
  | { readonly type: 'plan'; readonly subTasks: readonly (SubTaskPlan & { readonly assigned: string })[] }
  | { readonly type: 'begin' }
  /** The first of each later epoch. */
  | { readonly type: 'arbiter'; readonly address: string }
  | { readonly type: 'join'; readonly member: Member }
  /** From now on the sub-task is that member's. The record's number is the lease's name. */
  | { readonly type: 'lease'; readonly subTask: string; readonly holder: string }
  | { readonly type: 'result'; readonly subTask: string; readonly lease: number; readonly result: unknown }
  | {
      readonly type: 'failure';
      readonly subTask: string;
      readonly lease: number;
      readonly reason: string;
      /** Its holder went silent, and did not say that it failed. */
      readonly lapsed: boolean;
    }
  /** Nobody can do it. */
  | { readonly type: 'escalation'; readonly subTask: string; readonly reason: string }
  | { readonly type: 'end'; readonly status: 'completed' | 'failed'; readonly reason?: string };

/** A record in the log, and the epoch of the arbiter that wrote it. */
export interface Entry {
  readonly epoch: number;
  readonly record: SwarmRecord;
}

export type SwarmStatus = 'recruiting' | 'active' | 'completing' | 'completed' | 'failed';

export type EscalationKind = 'no-capable-agent' | 'attempts-exhausted' | 'no-majority';

/** Something that the swarm cannot mend by itself. */
export interface SwarmEscalation {
  readonly swarmId: string;
  readonly kind: EscalationKind;
  /** Of which sub-task; none where it is about all of them. */
  readonly subTask?: string;
  readonly reason: string;
}

/** How a swarm ended. */
export interface SwarmOutcome {
  readonly swarmId: string;
  readonly status: 'completed' | 'failed';
  /** By sub-task, in the plan's order; of a failed swarm, those there are. */
  readonly results: Readonly<Record<string, unknown>>;
  /** What the aggregator made of them. */
  readonly aggregate?: unknown;
  readonly reason?: string;
  readonly escalations: readonly SwarmEscalation[];
}
