import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { refuse } from './reading.js';
import { isTerminal } from './task-states.js';
import type { Message, Task } from './types.js';

/** Who may do what with which task: rules that every binding asks. */

/** A task that is somebody else's is not found, just as one that never was. */
export function requireOwn<T extends { readonly owner: string }>(found: T | undefined, caller: string, id: string): T {
  if (found === undefined || found.owner !== caller) throw taskNotFound(id);
  return found;
}

export function taskNotFound(id: string): EclipticError {
  const shown = cutText(id, 64);
  return new EclipticError('TASK_NOT_FOUND', `there is no task "${shown}"`, { taskId: shown });
}

/**
 * The task that a message goes on with: undefined for a new one. `task` is what was found under the message's task id.
 * Task ids are made here only, so that one nobody knows is no new task; a message must not contradict its task.
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

/** What a new task's context is called: as its caller says, or as it is made. A caller's id is never replaced. */
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
