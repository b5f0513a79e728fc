import { textOf } from '../a2a/protocol/simple.js';
import type { StreamResponse, TaskState, TaskStatus } from '../a2a/protocol/types.js';

/** `input required` for `TASK_STATE_INPUT_REQUIRED`. */
export function stateText(state: TaskState): string {
  return state
    .replace(/^TASK_STATE_/, '')
    .replaceAll('_', ' ')
    .toLowerCase();
}

/** The status in an event; undefined for an artifact. */
export function progressText(event: StreamResponse): string | undefined {
  if ('statusUpdate' in event) return statusText(event.statusUpdate.status);
  return 'task' in event ? statusText(event.task.status) : undefined;
}

function statusText({ state, message }: TaskStatus): string {
  const said = message === undefined ? '' : textOf(message.parts);
  return said === '' ? stateText(state) : `${stateText(state)}: ${said}`;
}
