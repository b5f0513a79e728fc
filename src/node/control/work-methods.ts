import { readParts } from '../../a2a/protocol/read-requests.js';
import { messagesOf, textOf } from '../../a2a/protocol/simple.js';
import type { StreamResponse, TaskState } from '../../a2a/protocol/types.js';
import type { Subscription } from '../../a2a/server/stored-task.js';
import type { TaskRecord } from '../../a2a/server/task-records.js';
import type { Agent } from '../../agent/agent.js';
import { proposalSides, stateOfProposal } from '../../agent/proposal-sides.js';
import { EclipticError } from '../../runtime/errors.js';
import { CANDIDATES } from '../../runtime/short-ids.js';
import { cutText } from '../../runtime/text.js';
import { timeOfUlid } from '../../runtime/ulid.js';
import { isCanceled } from '../../work/proposals/machine.js';
import type { Negotiation, TaskProposal } from '../../work/proposals/proposal.js';
import { invitationIn } from '../../work/swarm/recruiting.js';
import type { SwarmSession, SwarmSubTask } from '../../work/swarm/swarm-session.js';
import type { Swarms } from '../../work/swarm/swarms.js';
import { waitingIn } from '../../work/waiting-report.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers, inFull } from './context.js';
import { fitting } from './protocol.js';
import type { ProposalEvent, ProposalListRow, TaskDetail, TaskRow } from './rows.js';
import type { CallContext } from './server.js';

const DEFAULT_ROWS = 100;

/** The owner's operations on proposals, A2A tasks and plans. */
export function workMethods({ node, gateway, loop }: Pick<ControlContext, 'node' | 'gateway' | 'loop'>) {
  const taskId = async (given: string) => completeId(given, await gateway.tasks.idsBeginning(given, CANDIDATES));
  const runId = async (given: string) => completeId(given, await loop.idsBeginning(given, CANDIDATES));
  return {
    propose({ description, capabilities = [], complexity = 'medium', as, to, all, ...options }, context) {
      const agent = as === undefined ? node.operator() : node.agentById(as);
      const init = {
        taskDescription: description,
        requiredCapabilities: [...capabilities],
        estimatedComplexity: complexity,
        ...options,
      };
      const negotiation = all
        ? agent.proposeToAll(init)
        : agent.propose({ ...init, to: to === undefined ? undefined : inFull(to, node) });
      return followProposal(negotiation, context);
    },
    proposals({ agent: only, pending }) {
      const rows = proposalSides(node.agents.filter(({ id }) => only === undefined || id === only))
        .filter(({ proposal }) => !pending || proposal.status === 'pending')
        .map(({ agent, side, peer, durable, proposal, state }): ProposalListRow => {
          return { agent, side, peer, work: isCanceled(state) ? 'canceled' : state.work, durable, proposal };
        });
      return fitting(rows);
    },
    async tasks({ kind: only, state, caller, context, limit = DEFAULT_ROWS }) {
      const has = (kind: TaskRow['kind']) => only === undefined || only === kind;
      const tasks = has('a2a') ? await gateway.tasks.list({ state, caller, context, limit }) : [];
      // Only tasks of A2A have contexts.
      const other =
        context !== undefined
          ? []
          : [
              ...proposalRows(node.agents),
              ...node.swarms.sessions.flatMap((session) => subTaskRows(session, node.swarms)),
            ]
              .filter((row) => has(row.kind) && (state === undefined || row.state === state))
              .filter((row) => caller === undefined || row.caller === caller);
      const rows = [...tasks.map(taskRow), ...other].sort((a, b) => lastChange(b) - lastChange(a));
      return fitting(rows.slice(0, limit));
    },
    task: async ({ id }) => detailOf(await gateway.tasks.get(await taskId(id))),
    async 'task.follow'({ id }, following) {
      const { tasks } = gateway;
      const record = await tasks.get(await taskId(id));
      following.emit(detailOf(record));
      await followTask(await tasks.follow(record.model.task.id, record.model.sequence), following);
    },
    async 'task.cancel'({ id: given }) {
      const proposals = proposalRows(node.agents);
      const known = [...(await gateway.tasks.idsBeginning(given, CANDIDATES)), ...proposals.map(({ id }) => id)];
      const id = completeId(given, known);
      const proposal = proposals.find((row) => row.id === id);
      return proposal ? withdraw(proposal, node.agents) : gateway.tasks.cancel(id);
    },
    async 'task.send'({ to, text = '', context, skill, timeoutMs, parts: files = [] }, following) {
      const given = [...(text === '' ? [] : [{ text }]), ...files];
      if (given.length === 0) throw wrongParameter('text', 'must be a non-empty string');
      const parts = readParts({ parts: given }, '');
      const { id } = await gateway.tasks.give(inFull(to, node), { parts, contextId: context, skill }, timeoutMs);
      await followTask(await gateway.tasks.follow(id, 0), following);
      return detailOf(await gateway.tasks.get(id));
    },
    'task.answer': async ({ id, text }) => gateway.tasks.answer(await taskId(id), text),
    'node.card': () => gateway.card,
    runs: ({ limit = DEFAULT_ROWS }) => loop.list(limit),
    run: async ({ id }) => loop.view(await runId(id)),
    'run.start': (init) => loop.start(init),
    'run.again': async ({ id }) => loop.again(await runId(id)),
    'run.check': async (plan) => {
      const ids = await loop.check(plan);
      return { tasks: ids.length, ids };
    },
    async 'run.report'({ id }, { emit, drained, signal }) {
      for (const piece of await loop.report(await runId(id))) {
        if (signal.aborted) return;
        emit(piece);
        await drained();
      }
    },
    'run.follow': async ({ id }, { emit, signal }) => loop.follow(await runId(id), emit, signal),
    'plan.make': (wish, { emit, signal }) => loop.make(wish, emit, signal),
    'run.stop': async ({ id }) => loop.stop(await runId(id)),
  } satisfies Partial<Handlers>;
}

/** Emits events of a task until it has ended or the caller leaves. */
async function followTask(events: Subscription, following: CallContext<StreamResponse>): Promise<void> {
  const { emit, drained, signal } = following;
  const leave = () => void events.return();
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave);
  for (let step = await events.next(); !step.done; step = await events.next()) {
    emit(step.value.event);
    await drained();
  }
  signal.removeEventListener('abort', leave);
}

/** Emits the proposal as pending, its progress and its answer; returns the result of the work. */
async function followProposal(
  negotiation: Negotiation,
  { emit, signal }: CallContext<ProposalEvent>,
): Promise<unknown> {
  negotiation.onProgress((value) => {
    // Said to the caller in words besides.
    if (waitingIn(value) === undefined) emit({ event: 'progress', value });
  });
  const tell = (event: 'pending' | 'answered', proposal: TaskProposal) =>
    emit({ event, to: negotiation.to ?? null, proposal });
  // A durable proposal goes on without its caller; any other is withdrawn.
  const leave = () => {
    if (!negotiation.durable) negotiation.withdraw('the caller went away');
  };
  signal.addEventListener('abort', leave);
  try {
    const { result } = negotiation;
    await negotiation.sent;
    // An agent of this node may have answered already.
    const { acceptedBy: _, rejectionReason: _reason, alternativeSuggestion: _other, ...made } = negotiation.proposal;
    tell('pending', { ...made, status: 'pending' });
    tell('answered', await negotiation.answered);
    return await result;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** Longer task texts are cut in a row. */
const TEXT_CHARS = 200;

function taskRow({ owner, agent, createdAt, model }: TaskRecord): TaskRow {
  const { id, status } = model.task;
  const [first] = messagesOf(model.task);
  const text = first === undefined ? '' : cutText(textOf(first.parts), TEXT_CHARS);
  const about = { kind: 'a2a', id, state: status.state, caller: owner, agent } as const;
  return { ...about, text, createdAt, updatedAt: status.timestamp ?? null };
}

function detailOf(record: TaskRecord): TaskDetail {
  return { ...taskRow(record), task: record.model.task };
}

function proposalRows(agents: readonly Agent[]): TaskRow[] {
  // An invitation to a swarm is not listed; the sub-tasks of the swarm are.
  const proposals = proposalSides(agents).filter(({ input }) => invitationIn(input) === undefined);
  return proposals.map((known) => {
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
      updatedAt: timeText(known.changedAt),
    };
  });
}

function withdraw(proposal: TaskRow, agents: readonly Agent[]): TaskRow {
  const { id, state, caller } = proposal;
  const negotiation = agents.flatMap((agent) => agent.negotiations).find((one) => one.proposal.proposalId === id);
  const isOpen = state === 'TASK_STATE_SUBMITTED' || state === 'TASK_STATE_WORKING';
  if (!isOpen) throw new EclipticError('TASK_NOT_CANCELABLE', `the work on proposal "${id}" is over`, { id });
  if (!negotiation) {
    throw new EclipticError('TASK_NOT_CANCELABLE', `proposal "${id}" can be withdrawn by ${caller} only`, { id });
  }
  negotiation.withdraw('canceled by the operator');
  return { ...proposal, state: 'TASK_STATE_CANCELED' };
}

const SUB_TASK_STATES: Readonly<Record<SwarmSubTask['status'], TaskState>> = {
  pending: 'TASK_STATE_SUBMITTED',
  running: 'TASK_STATE_WORKING',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
};

function subTaskRows({ id, creator, createdAt, subTasks }: SwarmSession, swarms: Swarms): TaskRow[] {
  const participation = swarms.find(id)?.participations.get(id);
  return subTasks.map((subTask) => ({
    kind: 'swarm',
    id: `${id}/${subTask.id}`,
    state: SUB_TASK_STATES[subTask.status],
    caller: creator,
    agent: subTask.assignedAgent,
    text: cutText(subTask.description, TEXT_CHARS),
    createdAt,
    updatedAt: timeText(participation?.changedAt(subTask.id) ?? null),
  }));
}

function timeText(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

function lastChange({ updatedAt, createdAt }: TaskRow): number {
  return updatedAt === null ? createdAt : Date.parse(updatedAt);
}
