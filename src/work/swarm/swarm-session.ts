import type { SwarmMachine } from './swarm-machine.js';
import type { SwarmEscalation, SwarmStatus } from './swarm-records.js';

/** A sub-task as the board shows it. */
export interface SwarmSubTask {
  readonly id: string;
  readonly description: string;
  /** Who has it, had it last, or is meant to get it. */
  readonly assignedAgent: string;
  readonly requiredCapabilities: readonly string[];
  readonly dependsOn: readonly string[];
  readonly status: 'pending' | 'running' | 'completed' | 'failed';
  /** How often it was given to somebody. */
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly reason?: string;
  readonly result?: unknown;
  /** Something about it is written and not settled yet. */
  readonly unconfirmed?: boolean;
  /** What its worker said last. */
  readonly progress?: unknown;
}

/** A swarm as one of its members sees it. */
export interface SwarmSession {
  readonly id: string;
  readonly taskDescription: string;
  /** Those that have a sub-task. */
  readonly participants: readonly string[];
  /** Those that are ready to get one. */
  readonly standby: readonly string[];
  readonly subTasks: readonly SwarmSubTask[];
  readonly status: SwarmStatus;
  /** What the members wrote in the swarm's document, besides the board. */
  readonly sharedState: Readonly<Record<string, unknown>>;
  readonly createdAt: number;
  readonly creator: string;
  readonly requiredCapabilities: readonly string[];
  /** Who settles what happens, and the how-manieth it is. */
  readonly arbiter: string;
  readonly epoch: number;
  /** False while this member is out of touch with a majority: then more may have happened than it knows. */
  readonly confirmed: boolean;
  /** Results that were dropped, because another came first. */
  readonly lateResults: number;
  /** Why it failed, or cannot go on at present. */
  readonly reason?: string;
  readonly escalations: readonly SwarmEscalation[];
}

/** What the swarm's document says of a sub-task. */
export type SharedSubTask = Omit<SwarmSubTask, 'id' | 'result' | 'unconfirmed' | 'progress'>;

/** What the swarm's document says of the swarm. */
export type SharedHeader = Omit<SwarmSession, 'id' | 'subTasks' | 'sharedState' | 'confirmed'>;

export function sharedSubTask(machine: SwarmMachine, id: string): SharedSubTask {
  const { plan, assigned, status, attempts, reason } = machine.board.subTasks.get(id)!;
  const { description, requiredCapabilities, dependsOn } = plan;
  const said = reason === undefined ? {} : { reason };
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
