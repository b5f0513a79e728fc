import type { TaskState } from './types.js';

/** The order is that of the protocol's enum numbers. */
export const TASK_STATES: readonly TaskState[] = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
];

/** The state that an enum number means, as ProtoJSON readers take it; anything else as it is. */
export function stateOf(value: unknown): unknown {
  return typeof value === 'number' ? (TASK_STATES[value] ?? value) : value;
}

const known: ReadonlySet<string> = new Set(TASK_STATES);

export function isTaskState(value: unknown): value is TaskState {
  return typeof value === 'string' && known.has(value);
}

export type TerminalState =
  | 'TASK_STATE_COMPLETED'
  | 'TASK_STATE_FAILED'
  | 'TASK_STATE_CANCELED'
  | 'TASK_STATE_REJECTED';

export type InterruptedState = 'TASK_STATE_INPUT_REQUIRED' | 'TASK_STATE_AUTH_REQUIRED';

/** Has the task ended for good? */
export function isTerminal(state: TaskState): state is TerminalState {
  switch (state) {
    case 'TASK_STATE_COMPLETED':
    case 'TASK_STATE_FAILED':
    case 'TASK_STATE_CANCELED':
    case 'TASK_STATE_REJECTED':
      return true;
    default:
      return false;
  }
}

/** Does the task wait for something from outside? */
export function isInterrupted(state: TaskState): state is InterruptedState {
  return state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED';
}

/** A blocking send returns when the task has ended, and when it cannot go on without its caller. */
export function settlesSend(state: TaskState): boolean {
  return isTerminal(state) || isInterrupted(state);
}

/**
 * A stream ends with its task only. The protocol's texts disagree about interrupted tasks; since work may go on after
 * AUTH_REQUIRED without another message, a stream that closed there would lose its end.
 */
export function endsStream(state: TaskState): boolean {
  return isTerminal(state);
}
