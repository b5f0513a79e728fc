import { A2A_LIMITS } from '../protocol/limits.js';
import { messagesOf } from '../protocol/simple.js';
import { joined } from '../protocol/task-machine.js';
import type {
  Artifact,
  Message,
  StreamResponse,
  Task,
  TaskArtifactUpdateEvent,
  TaskStatus,
} from '../protocol/types.js';

/** A task as far as its events tell of it. */
export class TaskView {
  #task: Task | undefined;
  #message: Message | undefined;

  /** The task; undefined where the agent answered with a message alone, or with nothing yet. */
  get task(): Task | undefined {
    return this.#task;
  }

  get message(): Message | undefined {
    return this.#message;
  }

  get id(): string | undefined {
    return this.#task?.id;
  }

  /** Takes an event in; false when it tells nothing that was not known. */
  add(event: StreamResponse): boolean {
    if ('message' in event) {
      this.#message = event.message;
      return true;
    }
    const before = this.#task;
    if ('task' in event) {
      this.#task = event.task;
      return before === undefined || JSON.stringify(before) !== JSON.stringify(event.task);
    }
    const { taskId, contextId } = 'statusUpdate' in event ? event.statusUpdate : event.artifactUpdate;
    // Agents of older versions begin with an update.
    const task = before ?? { id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED' } };
    this.#task =
      'statusUpdate' in event
        ? withStatus(task, event.statusUpdate.status)
        : { ...task, artifacts: withArtifact(task.artifacts ?? [], event.artifactUpdate) };
    return true;
  }
}

/** What was said before stays in the history. */
function withStatus(task: Task, status: TaskStatus): Task {
  return { ...task, status, history: messagesOf(task).slice(-A2A_LIMITS.historyMessages) };
}

function withArtifact(
  artifacts: readonly Artifact[],
  { artifact, append }: TaskArtifactUpdateEvent,
): readonly Artifact[] {
  const index = artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
  if (index < 0) return [...artifacts, artifact];
  return artifacts.with(index, append ? joined(artifacts[index]!, artifact) : artifact);
}
