import { messagesOf, textOf } from '../../a2a/protocol/simple.js';
import type { TaskState } from '../../a2a/protocol/types.js';
import type { TaskRecord } from '../../a2a/server/task-records.js';
import type { Agent } from '../../agent/agent.js';
import { cutText } from '../../runtime/text.js';
import { timeOfUlid } from '../../runtime/ulid.js';
import { invitationIn } from '../../work/swarm/invitation.js';
import type { SwarmSession, SwarmSubTask } from '../../work/swarm/swarm-session.js';
import type { Swarms } from '../../work/swarm/swarms.js';
import { sidesOf } from './negotiation-methods.js';

/** A task of an A2A client, a proposal between agents, or a sub-task of a swarm. */
export const WORK_KINDS = ['a2a', 'proposal', 'swarm'] as const;
export type WorkKind = (typeof WORK_KINDS)[number];

/** A row of the tasks' table. States of every kind are named as A2A names them. */
export interface TaskRow {
  readonly kind: WorkKind;
  /** Of a sub-task: the swarm's id, a slash, and its own. */
  readonly id: string;
  readonly state: TaskState;
  readonly caller: string;
  readonly agent: string;
  readonly text: string;
  readonly createdAt: number;
  readonly updatedAt: string | null;
}

export interface WorkingNode {
  readonly agents: readonly Agent[];
  readonly swarms: Swarms;
}

/** Characters of a task's text in a row. */
const TEXT_CHARS = 200;

export function taskRow({ owner, agent, createdAt, model }: TaskRecord): TaskRow {
  const { id, status } = model.task;
  const [first] = messagesOf(model.task);
  const text = first === undefined ? '' : cutText(textOf(first.parts), TEXT_CHARS);
  const about = { kind: 'a2a', id, state: status.state, caller: owner, agent } as const;
  return { ...about, text, createdAt, updatedAt: status.timestamp ?? null };
}

/** Proposals that agents of the node made and got, and sub-tasks of swarms that they take part in. */
export function workOf({ agents, swarms }: WorkingNode): TaskRow[] {
  // An invitation to a swarm is no work; the sub-tasks are.
  const proposals = sidesOf(agents).filter(({ input }) => invitationIn(input) === undefined);
  return [...proposals.map(proposalRow), ...swarms.sessions.flatMap(swarmRows)];
}

/** When a row last changed, as far as is known. */
export function lastChange({ updatedAt, createdAt }: TaskRow): number {
  return updatedAt === null ? createdAt : Date.parse(updatedAt);
}

type Side = ReturnType<typeof sidesOf>[number];

function proposalRow(known: Side): TaskRow {
  const { agent, side, peer, proposal } = known;
  const [caller, worker] = side === 'sent' ? [agent, peer] : [peer, agent];
  return {
    kind: 'proposal',
    id: proposal.proposalId,
    state: stateOfProposal(known),
    caller,
    agent: worker,
    text: cutText(proposal.taskDescription, TEXT_CHARS),
    createdAt: timeOfUlid(proposal.proposalId) ?? 0,
    updatedAt: null,
  };
}

function stateOfProposal({ proposal: { status }, state: { work } }: Side): TaskState {
  if (status === 'pending') return 'TASK_STATE_SUBMITTED';
  if (status === 'rejected') return 'TASK_STATE_REJECTED';
  if (status === 'timed-out' || work === 'failed') return 'TASK_STATE_FAILED';
  return work === 'done' ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_WORKING';
}

const SUB_TASK_STATES: Readonly<Record<SwarmSubTask['status'], TaskState>> = {
  pending: 'TASK_STATE_SUBMITTED',
  running: 'TASK_STATE_WORKING',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
};

function swarmRows({ id, creator, createdAt, subTasks }: SwarmSession): TaskRow[] {
  return subTasks.map((subTask) => ({
    kind: 'swarm',
    id: `${id}/${subTask.id}`,
    state: SUB_TASK_STATES[subTask.status],
    caller: creator,
    agent: subTask.assignedAgent,
    text: cutText(subTask.description, TEXT_CHARS),
    createdAt,
    updatedAt: null,
  }));
}
