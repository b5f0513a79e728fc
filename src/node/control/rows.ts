import type { Task, TaskState } from '../../a2a/protocol/types.js';
import type { LeaseView } from '../../coding-agents/leases/leases.js';
import type { DeviceRadar } from '../../coding-agents/radar/device-radar.js';
import type { Overlap } from '../../coding-agents/radar/radar-machine.js';
import type { CollectionName } from '../../collections/entry.js';
import type { MessageLine } from '../../http/dashboard/facts.js';
import type { Difference } from '../../mesh/audit/journal-log.js';
import type { AgentStatus, AgentTier } from '../../mesh/schemas.js';
import type { Finding } from '../../network/peers/network.js';
import type { ProviderRow } from '../../providers/registry/registered-provider.js';
import type { WorkState } from '../../work/proposals/machine.js';
import type { TaskProposal } from '../../work/proposals/proposal.js';
import type { SwarmEscalation } from '../../work/swarm/swarm-records.js';
import type { SwarmSession, SwarmSubTask } from '../../work/swarm/swarm-session.js';

/** What the owner's devices see, and where it overlaps. */
export interface RadarView extends DeviceRadar {
  /** With the names of agents and devices as this node writes them. */
  readonly overlaps: readonly (Omit<Overlap, 'places'> & {
    readonly places: readonly (Overlap['places'][number] & { readonly name: string })[];
  })[];
  /** Devices that did not answer. */
  readonly missing: readonly { readonly device: string; readonly name: string; readonly reason: string }[];
}

export interface AgentRow {
  readonly id: string;
  readonly name: string;
  readonly tier: AgentTier;
  readonly capabilities: readonly string[];
  readonly sandbox: string | null;
  readonly origin: 'local' | 'remote';
  readonly node: string | null;
  readonly description: string;
  readonly state: AgentStatus['state'] | 'failed' | 'unreachable';
  readonly failure: string | null;
  /** Why the agent is not ready. */
  readonly reason: string | null;
  /** The line that would staff an unstaffed agent. */
  readonly fix: string | null;
  /** What works for an agent of this node, best first; empty for handlers in code and for agents without a worker. */
  readonly workers: readonly { readonly id: string; readonly type: string; readonly state: string }[];
  /** Messages that wait for its handler or its providers, and those that they work on. */
  readonly load: { readonly queued: number; readonly working: number };
}

/** A durable message in an inbox or in the outbox. */
export interface MailRow {
  readonly id: string;
  /** Ascending; the next page begins after the last number. */
  readonly number: number;
  readonly from: string;
  readonly to: string;
  readonly type: string;
  readonly thread: string | null;
  readonly payload: unknown;
  /** The time it was stored (outbox) or arrived (inbox). */
  readonly at: number;
  readonly expiresAt: number | null;
  readonly state: string;
}

/** A conversation, as far as the messages of one page have it. */
export interface ThreadRow {
  readonly thread: string;
  /** Messages of this page. */
  readonly messages: number;
  readonly refused: number;
  readonly participants: readonly string[];
  /** The first and the last of them. */
  readonly since: number;
  /** The text of the first. */
  readonly subject: string | null;
  readonly last: MessageLine;
}

export interface ThreadPage {
  readonly threads: readonly ThreadRow[];
  /** How many messages of the journal were read. */
  readonly read: number;
  /** The number before which earlier messages are; null if there are none. */
  readonly before: number | null;
}

/** Recorded decisions that the present rules would decide differently. */
export interface Replayed {
  readonly asked: number;
  readonly differences: readonly Difference[];
}

/** The steps of a proposal before its result or error. */
export type ProposalEvent =
  | { readonly event: 'pending' | 'answered'; readonly to: string | null; readonly proposal: TaskProposal }
  | { readonly event: 'progress'; readonly value: unknown };

export interface ProposalListRow {
  /** The agent of this node; `peer` is the other party. */
  readonly agent: string;
  readonly side: 'sent' | 'received';
  readonly peer: string;
  /** `canceled`: its proposer took it back, before or after it was accepted. */
  readonly work: WorkState | 'canceled';
  readonly durable: boolean;
  readonly proposal: TaskProposal;
}

/** A task of an A2A client, a proposal between agents, or a sub-task of a swarm. */
export const WORK_KINDS = ['a2a', 'proposal', 'swarm'] as const;

/** A row of the task list. The states of every kind have A2A's names. */
export interface TaskRow {
  readonly kind: (typeof WORK_KINDS)[number];
  /** For a sub-task: the id of the swarm, a slash, and the id of the sub-task. */
  readonly id: string;
  readonly state: TaskState;
  readonly caller: string;
  readonly agent: string;
  readonly text: string;
  readonly createdAt: number;
  /** The last change that this node knows of; null if it knows of none. */
  readonly updatedAt: string | null;
}

export interface TaskDetail extends TaskRow {
  readonly task: Task;
}

export interface SwarmRow {
  readonly id: string;
  readonly task: string;
  readonly status: SwarmSession['status'];
  readonly arbiter: string;
  readonly epoch: number;
  readonly confirmed: boolean;
  readonly participants: readonly string[];
  readonly standby: readonly string[];
  /** Sub-tasks by state. */
  readonly counts: Readonly<Record<SwarmSubTask['status'], number>>;
  readonly retries: number;
  readonly lateResults: number;
  readonly reason: string | null;
  readonly createdAt: number;
}

/** A swarm and as many of its sub-tasks as fit into one reply. */
export interface SwarmDetail extends SwarmRow {
  readonly subTasks: readonly SwarmSubTask[];
  readonly sharedState: Readonly<Record<string, unknown>>;
  readonly creator: string;
  readonly escalations: readonly SwarmEscalation[];
}

export type SwarmEvent =
  | ({ readonly event: 'swarm' } & SwarmRow)
  | ({ readonly event: 'sub-task' } & SwarmSubTask)
  | ({ readonly event: 'escalation' } & SwarmEscalation)
  | {
      readonly event: 'ended';
      readonly status: 'completed' | 'failed';
      readonly reason?: string;
      readonly aggregate?: unknown;
    };

/** An open document, as one agent sees it. */
export interface DocumentRow {
  readonly name: string;
  readonly agent: string;
  readonly thread: string;
  readonly holds: readonly string[];
  readonly segments: number;
  readonly bytes: number;
  readonly members: readonly string[];
}

/** One segment of a document's history. */
export interface HistoryRow {
  readonly author: string;
  readonly session: string;
  readonly number: number;
  /** The number of the author's turns that this segment merges. */
  readonly turns: number;
  readonly bytes: number;
  /** When this node made or received it; null if that was before the last start. */
  readonly at: number | null;
  /** When the author's session began: the earliest possible time of every segment in it. */
  readonly since: number | null;
  readonly changes: readonly string[];
}

export interface ToolRow {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema?: Readonly<Record<string, unknown>>;
  readonly agent: string;
}

export interface ResourceRow {
  readonly uri?: string;
  readonly uriTemplate?: string;
  readonly name: string;
  readonly mimeType?: string;
  readonly agent: string;
}

export interface PromptRow {
  readonly name: string;
  readonly description?: string;
  readonly arguments?: readonly { readonly name: string; readonly required?: boolean }[];
  readonly agent: string;
}

/** Progress and log notifications of a call to a tool, resource or prompt. */
export interface CallEvent {
  readonly progress?: { readonly progress: number; readonly total?: number; readonly message?: string };
  readonly log?: { readonly level: string; readonly data: unknown };
}

export interface LeaseLine extends LeaseView {
  /** The holder's local name. */
  readonly name: string;
  readonly repositoryName: string;
}

export interface ProviderLine extends ProviderRow {
  /** The jail of its program, or why it is in none; null where none is asked for. */
  readonly jail: string | null;
}

export interface ProviderView extends ProviderLine {
  /** Details from the adapter: endpoints, versions, … */
  readonly about: Readonly<Record<string, unknown>>;
}

export interface Diagnosis {
  readonly findings: readonly Finding[];
  readonly healthy: boolean;
}

/** Announces how many programs a diagnosis still waits for. */
export interface Probing {
  readonly probing: number;
}

/** An object of an agent of this node, or one that was sent to such an agent. */
export interface ObjectRow {
  readonly id: string;
  readonly name: string;
  readonly size: number;
  readonly mediaType: string;
  readonly sha256: string;
  /** Full addresses. */
  readonly from: string;
  readonly to: readonly string[];
  readonly expiresAt: number;
}

export interface SavedObject extends ObjectRow {
  readonly file: string;
}

/** An entry of memory, house rules or taste. */
export interface EntryRow {
  readonly id: string;
  readonly collection: CollectionName;
  readonly uri: string;
  readonly text: string;
  readonly tags: readonly string[];
  /** In whose name it was written, and the agent whose node signed it. */
  readonly author: string;
  readonly origin: string;
  /** Did the owner write it? */
  readonly owner: boolean;
  readonly sandbox: string | null;
  readonly at: number;
  /** How well it fits the query; null without one. */
  readonly score: number | null;
}
