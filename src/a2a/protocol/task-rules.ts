import { canonicalJson } from '../../network/membership/statement.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { refuse } from './reading.js';
import { type Message, type SendMessageRequest, TASK_STATES, type Task, type TaskState } from './types.js';

/** ProtoJSON readers accept an enum by number too. */
export function stateOf(value: unknown): unknown {
  return typeof value === 'number' ? (TASK_STATES[value] ?? value) : value;
}

const known: ReadonlySet<string> = new Set(TASK_STATES);

export function isTaskState(value: unknown): value is TaskState {
  return typeof value === 'string' && known.has(value);
}

const TERMINAL_STATES = [
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
] as const;
const terminal: ReadonlySet<string> = new Set(TERMINAL_STATES);

export type TerminalState = (typeof TERMINAL_STATES)[number];
export type InterruptedState = 'TASK_STATE_INPUT_REQUIRED' | 'TASK_STATE_AUTH_REQUIRED';

export function isTerminal(state: TaskState): state is TerminalState {
  return terminal.has(state);
}

/** The task waits for input or authorization. */
export function isInterrupted(state: TaskState): state is InterruptedState {
  return state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED';
}

/** A blocking send returns when the task has ended or waits for its caller. */
export function settlesSend(state: TaskState): boolean {
  return isTerminal(state) || isInterrupted(state);
}

/**
 * A stream ends with its task only. The protocol's texts disagree about interrupted tasks; work may go on after
 * AUTH_REQUIRED without another message, and a stream closed there would miss its end.
 */
export function endsStream(state: TaskState): boolean {
  return isTerminal(state);
}

/** A task of another caller is reported as not found, like one that does not exist. */
export function requireOwn<T extends { readonly owner: string }>(found: T | undefined, caller: string, id: string): T {
  if (found === undefined || found.owner !== caller) throw taskNotFound(id);
  return found;
}

export function taskNotFound(id: string): EclipticError {
  const shown = cutText(id, 128);
  return new EclipticError('TASK_NOT_FOUND', `there is no task "${shown}"`, { taskId: shown });
}

/**
 * Checks that a message may continue `task`, the task found under its task id. Only this node creates task ids, so an
 * unknown one is an error; a message must not contradict its task.
 */
export function requireContinuable(message: Message, task: Task | undefined): Task | undefined {
  if (message.taskId === undefined) return undefined;
  if (task === undefined) throw taskNotFound(message.taskId);
  if (message.contextId !== undefined && message.contextId !== task.contextId) {
    refuse('message.contextId', 'is not the context of the task');
  }
  if (isTerminal(task.status.state)) throw ended(task, 'takes no more messages');
  return task;
}

/** The caller's context id is never replaced. */
export function contextOf(message: Message, make: () => string): string {
  return message.contextId ?? make();
}

export function requireSubscribable(task: Task): void {
  if (isTerminal(task.status.state)) throw ended(task, 'has no more events');
}

function ended(task: Task, consequence: string): EclipticError {
  const { state } = task.status;
  return new EclipticError('OPERATION_NOT_SUPPORTED', `task ${task.id} has ended as ${state} and ${consequence}`, {
    taskId: task.id,
    state,
  });
}

/** The request besides its message: stored with the task, so that a repeated key can be compared. */
export interface SendFacts {
  readonly contextId?: string;
  readonly tenant?: string;
  readonly skill?: string;
  /** The caller's sandbox, which its agent on this node is in. */
  readonly sandbox?: string;
}

export function sendFacts(
  { message, metadata }: SendMessageRequest,
  tenant: string | undefined,
  sandbox?: string,
): SendFacts {
  const skill = skillIn(metadata) ?? skillIn(message.metadata);
  return { contextId: message.contextId, tenant, skill, ...(sandbox !== undefined && { sandbox }) };
}

/**
 * A repeated key means the first task only if it repeats the request. Metadata may differ: a retry has its own trace
 * ids. Tasks of earlier releases have no facts; then only the message is compared.
 */
export function requireSameSend(
  first: { readonly message: Message; readonly facts: SendFacts | undefined },
  again: { readonly message: Message; readonly facts: SendFacts },
): void {
  const { facts } = first;
  const differs = (['contextId', 'tenant', 'skill'] as const).find(
    (name) => facts !== undefined && facts[name] !== again.facts[name],
  );
  if (differs !== undefined) throw conflict(differs);
  requireSameMessage(first.message, again.message);
}

export function requireSameMessage(first: Message, again: Message): void {
  const differs = (['parts', 'referenceTaskIds'] as const).find((name) => !isSameContent(first[name], again[name]));
  if (differs !== undefined) throw conflict(differs);
}

export function isSameContent(one: unknown, other: unknown): boolean {
  return canonicalJson(one ?? null) === canonicalJson(other ?? null);
}

function conflict(differs: string): EclipticError {
  const text = `the message id or Idempotency-Key belongs to an earlier request; this one differs in its ${differs}`;
  return new EclipticError('IDEMPOTENCY_CONFLICT', text, { differs });
}

function skillIn(metadata: Message['metadata']): string | undefined {
  const skill = metadata?.skill ?? metadata?.skillId;
  return typeof skill === 'string' && skill !== '' ? skill : undefined;
}
