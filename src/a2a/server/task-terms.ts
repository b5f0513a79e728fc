import type { TaskCall, TaskCallListener } from '../../agent/task-call.js';
import { TASK, type TaskOpening } from '../../agent/task-messages.js';
import { weighJson } from '../../mesh/json-value.js';
import { LIMITS } from '../../mesh/limits.js';
import type { DeadlineQueue } from '../../runtime/deadlines.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { TaskEvent, TaskInput } from '../protocol/task-machine.js';
import type { Message } from '../protocol/types.js';
import type { StoredTask } from './stored-task.js';
import type { TaskRecords, TaskTerms } from './task-records.js';

export interface TaskExecutionComponents {
  runtime: Runtime;
  deadlines: Pick<DeadlineQueue, 'add' | 'remove'>;
  records: TaskRecords;
  startCall: (terms: TaskTerms, opening: TaskOpening, listener: TaskCallListener) => AgentCall;
  limits?: TaskTimeLimits;
}

export type AgentCall = Pick<TaskCall, 'busy' | 'work' | 'say' | 'stop'>;

export interface TaskTimeLimits {
  /** How long an agent may work without any progress. Default 5 minutes. */
  idleMs?: number;
  /** How long a task may wait for its caller. Default 24 hours. */
  questionMs?: number;
}

/** Notified when the execution becomes a task, perhaps one that has ended, and when it is over. */
export interface TaskExecutionListener<Execution> {
  made(work: Execution, isDone: boolean): void;
  over(work: Execution): void;
}

export interface WorkTerms {
  readonly skill?: string;
  /** For the whole task, including the time it waits for its caller. Without it, waiting has a limit of its own. */
  readonly timeoutMs?: number;
}

export interface TaskStart extends WorkTerms {
  /** Create a task even if the agent answers at once. */
  readonly eager: boolean;
  /** Runs after the task is stored and before its agent begins. */
  readonly prepare?: (taskId: string) => Promise<void>;
}

/** The result of a send: a task, with its state after it took the message, or the agent's answer alone. */
export type SendResult = { readonly stored: StoredTask; readonly since?: TaskEvent } | { readonly message: Message };

export function endOf(error: unknown, at: number): TaskInput {
  return error === undefined ? { type: 'exit', at, code: 0 } : { type: 'crash', at, reason: describeError(error) };
}

/** A message must fit one envelope; a larger one is refused while the caller can still be told. */
export function requireRoom(opening: TaskOpening): void {
  const weighed = weighJson({ [TASK]: opening });
  if (typeof weighed === 'number') return;
  const { problem } = weighed;
  throw new EclipticError('PAYLOAD_TOO_LARGE', `the message ${problem}`, { maxBytes: LIMITS.payloadBytes });
}
