import { compact, type Fields, type Place, readObject, refuse, within } from '../protocol/reading.js';
import type { Artifact, Message, Part, StreamResponse, Task, TaskState, TaskStatus } from '../protocol/types.js';
import type {
  V03Artifact,
  V03ArtifactUpdate,
  V03File,
  V03Message,
  V03Part,
  V03StatusUpdate,
  V03StreamEvent,
  V03Task,
  V03TaskState,
  V03TaskStatus,
} from '../protocol/v03-types.js';

/**
 * Messages, tasks and events between 0.3 and 1.0. What comes from 0.3 is put into the shape of 1.0 and no more: the
 * readers of 1.0 judge it, so that one set of rules holds for both.
 */

const STATES: Readonly<Record<TaskState, V03TaskState>> = {
  TASK_STATE_UNSPECIFIED: 'unknown',
  TASK_STATE_SUBMITTED: 'submitted',
  TASK_STATE_WORKING: 'working',
  TASK_STATE_COMPLETED: 'completed',
  TASK_STATE_FAILED: 'failed',
  TASK_STATE_CANCELED: 'canceled',
  TASK_STATE_INPUT_REQUIRED: 'input-required',
  TASK_STATE_REJECTED: 'rejected',
  TASK_STATE_AUTH_REQUIRED: 'auth-required',
};

const fromState: ReadonlyMap<unknown, string> = new Map(Object.entries(STATES).map(([state, old]) => [old, state]));

/** Marks data that 0.3 could not hold as it is, as the other implementations do. */
const WRAPPED = 'data_part_compat';

/**
 * 0.3 ends a stream with a final event: at the task's end, and where the client has to send the next message.
 */
export function isFinalInV03(state: TaskState): boolean {
  switch (state) {
    case 'TASK_STATE_COMPLETED':
    case 'TASK_STATE_FAILED':
    case 'TASK_STATE_CANCELED':
    case 'TASK_STATE_REJECTED':
    case 'TASK_STATE_INPUT_REQUIRED':
      return true;
    default:
      return false;
  }
}

export function toV03Part(part: Part): V03Part {
  const { text, raw, url, data, metadata } = part;
  if (text !== undefined) return compact<V03Part>({ kind: 'text', text, metadata });
  if (raw !== undefined || url !== undefined) {
    const file = compact<V03File>({
      ...(raw === undefined ? { uri: url! } : { bytes: raw }),
      mimeType: part.mediaType,
      name: part.filename,
    });
    return compact<V03Part>({ kind: 'file', file, metadata });
  }
  if (typeof data === 'object' && data !== null && !Array.isArray(data)) {
    return compact<V03Part>({ kind: 'data', data: data as Fields, metadata });
  }
  return { kind: 'data', data: { value: data }, metadata: { ...metadata, [WRAPPED]: true } };
}

export function fromV03Part(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  const { metadata } = from;
  switch (from.kind) {
    case 'text':
      return { text: from.text, metadata };
    case 'file': {
      const file = readObject(from.file, within(place, 'file'));
      return { raw: file.bytes, url: file.uri, filename: file.name, mediaType: file.mimeType, metadata };
    }
    case 'data':
      return unwrapped(from);
    default:
      refuse(within(place, 'kind'), 'must be text, file or data');
  }
}

function unwrapped({ data, metadata }: Fields): Fields {
  const { [WRAPPED]: wrapped, ...others }: Fields = typeof metadata === 'object' && metadata ? { ...metadata } : {};
  if (wrapped !== true) return { data, metadata };
  const holds = typeof data === 'object' && data !== null && Object.hasOwn(data, 'value');
  return {
    data: holds ? (data as Fields).value : data,
    metadata: Object.keys(others).length > 0 ? others : undefined,
  };
}

export function toV03Message(message: Message): V03Message {
  return {
    kind: 'message',
    ...message,
    role: message.role === 'ROLE_USER' ? 'user' : 'agent',
    parts: message.parts.map(toV03Part),
  };
}

export function fromV03Message(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  const role = from.role === 'user' ? 'ROLE_USER' : from.role === 'agent' ? 'ROLE_AGENT' : undefined;
  if (role === undefined) refuse(within(place, 'role'), 'must be user or agent');
  return { ...from, role, parts: fromV03Parts(from.parts, within(place, 'parts')) };
}

export function toV03Artifact(artifact: Artifact): V03Artifact {
  return { ...artifact, parts: artifact.parts.map(toV03Part) };
}

export function fromV03Artifact(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  return { ...from, parts: fromV03Parts(from.parts, within(place, 'parts')) };
}

export function toV03Task(task: Task): V03Task {
  return compact<V03Task>({
    kind: 'task',
    id: task.id,
    contextId: task.contextId,
    status: toV03Status(task.status),
    artifacts: task.artifacts?.length ? task.artifacts.map(toV03Artifact) : undefined,
    history: task.history?.length ? task.history.map(toV03Message) : undefined,
    metadata: task.metadata,
  });
}

export function fromV03Task(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  return {
    ...from,
    status: fromV03Status(from.status, within(place, 'status')),
    artifacts: fromMany(from.artifacts, within(place, 'artifacts'), fromV03Artifact),
    history: fromMany(from.history, within(place, 'history'), fromV03Message),
  };
}

function toV03Status(status: TaskStatus): V03TaskStatus {
  return compact<V03TaskStatus>({
    state: STATES[status.state],
    message: status.message && toV03Message(status.message),
    timestamp: status.timestamp,
  });
}

function fromV03Status(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  const { message } = from;
  return {
    ...from,
    state: fromState.get(from.state),
    message: message === undefined || message === null ? undefined : fromV03Message(message, within(place, 'message')),
  };
}

export function toV03StreamEvent(event: StreamResponse): V03StreamEvent {
  if ('task' in event) return toV03Task(event.task);
  if ('message' in event) return toV03Message(event.message);
  if ('statusUpdate' in event) {
    const { taskId, contextId, status, metadata } = event.statusUpdate;
    return compact<V03StatusUpdate>({
      kind: 'status-update',
      taskId,
      contextId,
      status: toV03Status(status),
      final: isFinalInV03(status.state),
      metadata,
    });
  }
  const { taskId, contextId, artifact, append, lastChunk, metadata } = event.artifactUpdate;
  return compact<V03ArtifactUpdate>({
    kind: 'artifact-update',
    taskId,
    contextId,
    artifact: toV03Artifact(artifact),
    append: append ?? false,
    lastChunk: lastChunk ?? false,
    metadata,
  });
}

/** Anything that 0.3 answers a send with, streams or posts to a webhook, as a stream response for the readers. */
export function fromV03StreamEvent(value: unknown): Fields {
  const from = readObject(value, 'result');
  switch (from.kind) {
    case 'task':
      return { task: fromV03Task(from, 'task') };
    case 'message':
      return { message: fromV03Message(from, 'message') };
    case 'status-update':
      return { statusUpdate: { ...from, status: fromV03Status(from.status, 'statusUpdate.status') } };
    case 'artifact-update':
      return { artifactUpdate: { ...from, artifact: fromV03Artifact(from.artifact, 'artifactUpdate.artifact') } };
    default:
      refuse('result.kind', 'must be task, message, status-update or artifact-update');
  }
}

function fromV03Parts(value: unknown, place: string): unknown {
  return fromMany(value, place, fromV03Part);
}

/** Whether something must be a list is the readers' question. */
function fromMany(value: unknown, place: string, from: (value: unknown, place: Place) => Fields): unknown {
  if (!Array.isArray(value)) return value;
  return value.map((entry, index) => from(entry, [place, index]));
}
