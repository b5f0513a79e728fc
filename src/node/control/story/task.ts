import { messagesOf, textOf as partsText } from '../../../a2a/protocol/simple.js';
import type { TaskEvent } from '../../../a2a/protocol/task-machine.js';
import { isTerminal } from '../../../a2a/protocol/task-rules.js';
import type { TaskState } from '../../../a2a/protocol/types.js';
import type { TaskRecord } from '../../../a2a/server/task-records.js';
import { TASK, taskIn } from '../../../agent/task-messages.js';
import type { StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import { EclipticError } from '../../../runtime/errors.js';
import { CANDIDATES } from '../../../runtime/short-ids.js';
import type { Approval } from '../../../system/approvals/approval-queue.js';
import { approvalEvents, approvalsIn, approvalWait } from './approval.js';
import { envelopeOf } from './decisions.js';
import { workEvents } from './thread.js';
import { eventOf, type StoryContext, type StorySource, type Told } from './told.js';

/** Openings of one task: it is begun again after each restart. */
const MAX_OPENINGS = 20;
/** The opening is sent right after the task is stored. */
const SLACK_MS = 1_000;

/** Tasks of A2A callers, and of the owner. */
export function taskSource(context: StoryContext): StorySource {
  const { tasks } = context.gateway;
  return {
    kind: 'task',
    ids: (given) => tasks.idsBeginning(given, CANDIDATES),
    async tell(id) {
      const record = await tasks.get(id).catch((error: unknown) => {
        if (error instanceof EclipticError && error.code === 'TASK_NOT_FOUND') return undefined;
        throw error;
      });
      return record && tell(record, context);
    },
  };
}

async function tell(record: TaskRecord, context: StoryContext): Promise<Told> {
  const { owner, agent, createdAt, model } = record;
  const { task } = model;
  const { id, status } = task;
  const threads = await threadsOf(id, createdAt, context);
  const [events, approvals, ...worked] = await Promise.all([
    context.gateway.tasks.events(id),
    approvalsIn(threads, context),
    ...threads.map((thread) => workEvents(thread, context)),
  ]);
  const [first] = messagesOf(task);
  const over = isTerminal(status.state);
  return {
    id,
    kind: 'task',
    title: (first && partsText(first.parts)) || `task of ${owner} for ${agent}`,
    state: stateWord(status.state),
    over,
    startedAt: createdAt,
    endedAt: over ? model.at : null,
    waits: waitOf(record, approvals, context),
    events: [
      ...taskEvents(events, record, context.key),
      ...worked.flat(),
      ...approvals.flatMap((one) => approvalEvents(one, context.key)),
    ],
    parties: [owner, agent],
    payload: task,
    related: [
      ...threads.map((thread) => ({ id: thread, kind: 'thread' as const })),
      ...approvals.map((one) => ({ id: one.id, kind: 'approval' as const })),
    ],
  };
}

/** `input required` for `TASK_STATE_INPUT_REQUIRED`. */
export function stateWord(state: TaskState): string {
  return state.replace('TASK_STATE_', '').replaceAll('_', ' ').toLowerCase();
}

/** The conversations in which the task was given to its agent: the journal has the message that opened each. */
async function threadsOf(id: string, since: number, { node }: StoryContext): Promise<string[]> {
  const rows = (await node.records?.journal.mentioning(id, since - SLACK_MS, MAX_OPENINGS)) ?? [];
  const openings = rows.filter((row) => {
    const payload = envelopeOf(row).payload;
    return row.thread !== null && taskIn<{ id?: unknown }>(payload)?.id === id && isOpening(payload);
  });
  return [...new Set(openings.map(({ thread }) => thread!))];
}

function isOpening(payload: unknown): boolean {
  const opening = (payload as Record<typeof TASK, object>)[TASK];
  return 'contextId' in opening;
}

function taskEvents(events: readonly TaskEvent[], { owner, agent, createdAt }: TaskRecord, key: string): StoryEvent[] {
  const found: StoryEvent[] = [];
  const chunks = new Map<string, number>();
  for (const { sequence, event } of events) {
    const proof = { kind: 'row', text: `event ${sequence} of the task` } as const;
    if ('task' in event) {
      found.push(
        eventOf(key, { at: createdAt, from: owner, to: agent, word: stateWord(event.task.status.state), proof }),
      );
    } else if ('statusUpdate' in event) {
      const { state, timestamp, message } = event.statusUpdate.status;
      const at = timestamp === undefined ? null : Date.parse(timestamp);
      const text = message ? partsText(message.parts) || null : null;
      const failed = state === 'TASK_STATE_FAILED' || state === 'TASK_STATE_REJECTED';
      const rule = failed ? text : null;
      const isAnswer = message?.role === 'ROLE_USER';
      const way = isAnswer ? { from: owner, to: agent } : { from: agent, to: owner };
      found.push(eventOf(key, { at, ...way, word: stateWord(state), text, rule, proof }));
    } else if ('artifactUpdate' in event) {
      const { artifactId, name } = event.artifactUpdate.artifact;
      const count = (chunks.get(artifactId) ?? 0) + 1;
      chunks.set(artifactId, count);
      // A streamed artifact has an event for each piece.
      if (count === 1) {
        const text = name ?? artifactId;
        found.push(eventOf(key, { at: null, from: agent, to: owner, word: 'artifact', text, proof }));
      }
    }
  }
  return found;
}

function waitOf(
  { owner, agent, model }: TaskRecord,
  approvals: readonly Approval[],
  { node }: StoryContext,
): StoryWait | null {
  const { state, message } = model.task.status;
  const since = model.at;
  if (state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED') {
    const asked = message ? partsText(message.parts) : '';
    return {
      for: owner,
      since,
      until: null,
      reason: asked === '' ? 'the caller’s answer' : `the caller’s answer: ${asked}`,
    };
  }
  const wait = approvalWait(approvals);
  if (wait || state !== 'TASK_STATE_SUBMITTED') return wait;
  const status = node.registry.getById(agent)?.status;
  const why = status?.reason === undefined ? '' : `: ${status.reason}`;
  if (status && status.state !== 'ready') {
    return { for: agent, since, until: null, reason: `a worker; ${agent} is ${status.state}${why}` };
  }
  return { for: agent, since, until: null, reason: `${agent} begins` };
}
