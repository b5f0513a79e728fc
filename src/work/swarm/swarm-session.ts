import type { Usage } from '../usage.js';
import type { SwarmMachine } from './swarm-machine.js';
import type { SwarmEscalation, SwarmStatus } from './swarm-records.js';

export interface SwarmSubTask {
  readonly id: string;
  readonly description: string;
  /** The present, latest or intended holder. */
  readonly assignedAgent: string;
  readonly requiredCapabilities: readonly string[];
  readonly dependsOn: readonly string[];
  readonly status: 'pending' | 'running' | 'completed' | 'failed';
  /** How often it was leased. */
  readonly attempts: number;
  /** Why the latest attempt failed. */
  readonly reason?: string;
  readonly result?: unknown;
  /** A record about it is written and not settled yet. */
  readonly unconfirmed?: boolean;
  /** The worker's latest report. */
  readonly progress?: unknown;
  /** How many decisions of its owner the holder waits for. */
  readonly waiting?: number;
  /** What all attempts at it cost, as far as their workers said so. */
  readonly usage?: Usage;
}

/** A swarm as one of its members sees it. */
export interface SwarmSession {
  readonly id: string;
  readonly taskDescription: string;
  /** Members with a sub-task. */
  readonly participants: readonly string[];
  /** Members without one. */
  readonly standby: readonly string[];
  readonly subTasks: readonly SwarmSubTask[];
  readonly status: SwarmStatus;
  /** The members' own map in the swarm's document. */
  readonly sharedState: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
  readonly creator: string;
  readonly requiredCapabilities: readonly string[];
  /** The present leader, and its term. */
  readonly arbiter: string;
  readonly epoch: number;
  /** False while this member is out of touch with a majority, and may be behind. */
  readonly confirmed: boolean;
  /** Results that were refused because another came first. */
  readonly lateResults: number;
  /** Why it failed, or is stalled. */
  readonly reason?: string;
  readonly escalations: readonly SwarmEscalation[];
}

/** A sub-task in the swarm's document. */
export type SharedSubTask = Omit<SwarmSubTask, 'id' | 'result' | 'unconfirmed' | 'progress' | 'waiting'>;

/** The swarm in the swarm's document. */
export type SharedHeader = Omit<SwarmSession, 'id' | 'subTasks' | 'sharedState' | 'confirmed'>;

export function sharedSubTask(machine: SwarmMachine, id: string): SharedSubTask {
  const { plan, assigned, status, attempts, reason, usage } = machine.board.subTasks.get(id)!;
  const { description, requiredCapabilities, dependsOn } = plan;
  const said = { ...(reason !== undefined && { reason }), ...(usage && { usage }) };
  return { description, assignedAgent: assigned, requiredCapabilities, dependsOn, status, attempts, ...said };
}

export function sharedHeader(machine: SwarmMachine): SharedHeader {
  const { board, swarm, term: epoch, late: lateResults } = machine;
  const reason = board.end?.reason;
  return {
    taskDescription: swarm!.task,
    participants: board.participants,
    standby: board.standby,
    status: board.status,
    createdAt: swarm!.createdAt,
    creator: swarm!.creator,
    requiredCapabilities: swarm!.capabilities,
    arbiter: board.arbiter,
    epoch,
    lateResults,
    escalations: board.escalations,
    ...(reason !== undefined && { reason }),
  };
}
