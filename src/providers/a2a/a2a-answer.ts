import { AnswerText, TaskView } from '../../a2a/client/task-follower.js';
import { textOf } from '../../a2a/protocol/simple.js';
import type { Message, Part, StreamResponse, Task } from '../../a2a/protocol/types.js';
import type { ProviderUpdate } from '../adapter/provider-adapter.js';
import { NormalizedProviderError } from '../adapter/provider-errors.js';

/** What a remote agent says of one task, as it comes: what is new with each event, and what it comes to. */
export class RemoteAnswer {
  readonly #view = new TaskView();
  readonly #text = new AnswerText();
  #status: string | undefined;

  get taskId(): string | undefined {
    return this.#view.id;
  }

  /** What the agent wants to know before it goes on. */
  get question(): ProviderUpdate | undefined {
    const status = this.#view.task?.status;
    if (status?.state !== 'TASK_STATE_INPUT_REQUIRED') return undefined;
    return { kind: 'question', text: textOf(status.message?.parts ?? []), data: status.message };
  }

  /** Takes an event in, and gives what it adds. */
  add(event: StreamResponse): ProviderUpdate[] {
    this.#view.add(event);
    const updates: ProviderUpdate[] = [];
    const text = this.#text.add(event);
    if (text !== '') updates.push({ kind: 'text', text, data: event });
    const said = statusMessage(event);
    const key = said?.messageId;
    if (said && key !== this.#status) {
      this.#status = key;
      updates.push({ kind: 'progress', text: textOf(said.parts), data: said });
    }
    return updates;
  }

  /** The result, when the task has ended well; throws what it failed with. */
  result(): unknown {
    const { task, message } = this.#view;
    // Whoever answers with a message alone says no more.
    if (!task || message) return contentOf(message?.parts ?? []);
    const { state } = task.status;
    if (state === 'TASK_STATE_COMPLETED') return resultOf(task);
    const code = state === 'TASK_STATE_AUTH_REQUIRED' ? 'PROVIDER_CREDENTIAL_MISSING' : 'PROVIDER_EXECUTE_FAILED';
    const said = textOf(task.status.message?.parts ?? []);
    const failure = `the remote agent’s task ended as ${nameOf(state)}${said === '' ? '' : `: ${said}`}`;
    throw new NormalizedProviderError(code, failure, 'a2a', { details: { taskId: task.id, state } });
  }
}

function statusMessage(event: StreamResponse): Message | undefined {
  const status = 'statusUpdate' in event ? event.statusUpdate.status : 'task' in event ? event.task.status : undefined;
  return status?.state === 'TASK_STATE_WORKING' ? status.message : undefined;
}

/** What a task has made; where it made nothing, what its agent said last. */
function resultOf({ artifacts = [], status }: Task): unknown {
  const made = artifacts.flatMap(({ parts }) => parts);
  return contentOf(made.length > 0 ? made : (status.message?.parts ?? []));
}

/** Text as text, one piece of data as that, anything else as the parts that it is made of. */
function contentOf(parts: readonly Part[]): unknown {
  const [only, ...others] = parts;
  if (only && others.length === 0 && only.data !== undefined) return only.data;
  return parts.every(({ text }) => text !== undefined) ? parts.map(({ text }) => text).join('') : parts;
}

function nameOf(state: string): string {
  return state.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', ' ');
}
