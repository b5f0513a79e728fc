import { EclipticError } from '../../runtime/errors.js';
import { A2A_LIMITS } from './limits.js';
import { readAgentMessage, readArtifact, readPushConfig } from './read-requests.js';
import {
  compact,
  type Fields,
  type Place,
  readFlag,
  readId,
  readInteger,
  readList,
  readMetadata,
  readObject,
  readOptionalId,
  readOptionalText,
  readOptionalTimestamp,
  refuse,
  within,
} from './reading.js';
import { isTaskState, stateOf } from './task-rules.js';
import type {
  ListPushConfigsResponse,
  ListTasksResponse,
  SendMessageResponse,
  StreamResponse,
  Task,
  TaskArtifactUpdateEvent,
  TaskPushNotificationConfig,
  TaskStatus,
  TaskStatusUpdateEvent,
} from './types.js';

/**
 * Readers of a remote agent's answers. A violation of the protocol is an `INVALID_AGENT_RESPONSE` that names the place.
 */

export const takeTask = answer((value) => readTask(value, 'task'));
export const takePushConfig = answer<TaskPushNotificationConfig>((value) => readPushConfig(value, 'config'));

export const takeSendMessageResponse = answer<SendMessageResponse>((value) => {
  const [member, from] = readOneOf(value, ['task', 'message']);
  return member === 'task' ? { task: readTask(from, member) } : { message: readAgentMessage(from, member) };
});

export const takeStreamResponse = answer(readStreamResponse);

export const takeListTasksResponse = answer<ListTasksResponse>((value) => {
  const from = readObject(value, 'result');
  const tasks = readMany(from, 'tasks', 'result', A2A_LIMITS.cardEntries, readTask) ?? [];
  return {
    tasks,
    nextPageToken: readOptionalText(from, 'nextPageToken', 'result', A2A_LIMITS.urlChars) ?? '',
    pageSize: readInteger(from, 'pageSize', 'result', 0) ?? tasks.length,
    totalSize: readInteger(from, 'totalSize', 'result', 0) ?? tasks.length,
  };
});

export const takeListPushConfigsResponse = answer<ListPushConfigsResponse>((value) => {
  const from = readObject(value, 'result');
  return compact<ListPushConfigsResponse>({
    configs: readMany(from, 'configs', 'result', A2A_LIMITS.cardEntries, readPushConfig) ?? [],
    nextPageToken: readOptionalText(from, 'nextPageToken', 'result', A2A_LIMITS.urlChars),
  });
});

export function readTask(value: unknown, place: Place): Task {
  const from = readObject(value, place);
  return compact<Task>({
    id: readId(from, 'id', place),
    // Optional in the protocol, required in our types.
    contextId: readOptionalId(from, 'contextId', place) ?? '',
    status: readStatus(from.status, within(place, 'status')),
    artifacts: readMany(from, 'artifacts', place, A2A_LIMITS.artifacts, readArtifact),
    history: readMany(from, 'history', place, A2A_LIMITS.historyMessages, readAgentMessage),
    metadata: readMetadata(from, 'metadata', place),
  });
}

export function readStatus(value: unknown, place: Place): TaskStatus {
  const from = readObject(value, place);
  const state = stateOf(from.state);
  if (!isTaskState(state)) refuse(within(place, 'state'), 'must be a task state, such as TASK_STATE_WORKING');
  const { message } = from;
  return compact<TaskStatus>({
    state,
    message:
      message === undefined || message === null ? undefined : readAgentMessage(message, within(place, 'message')),
    timestamp: readOptionalTimestamp(from.timestamp, within(place, 'timestamp')),
  });
}

export function readStreamResponse(value: unknown): StreamResponse {
  const [member, from] = readOneOf(value, ['task', 'message', 'statusUpdate', 'artifactUpdate']);
  switch (member) {
    case 'task':
      return { task: readTask(from, member) };
    case 'message':
      return { message: readAgentMessage(from, member) };
    case 'statusUpdate':
      return { statusUpdate: readStatusUpdate(from, member) };
    case 'artifactUpdate':
      return { artifactUpdate: readArtifactUpdate(from, member) };
  }
}

function readStatusUpdate(value: unknown, place: Place): TaskStatusUpdateEvent {
  const from = readObject(value, place);
  return compact<TaskStatusUpdateEvent>({
    taskId: readId(from, 'taskId', place),
    contextId: readOptionalId(from, 'contextId', place) ?? '',
    status: readStatus(from.status, within(place, 'status')),
    metadata: readMetadata(from, 'metadata', place),
  });
}

function readArtifactUpdate(value: unknown, place: Place): TaskArtifactUpdateEvent {
  const from = readObject(value, place);
  return compact<TaskArtifactUpdateEvent>({
    taskId: readId(from, 'taskId', place),
    contextId: readOptionalId(from, 'contextId', place) ?? '',
    artifact: readArtifact(from.artifact, within(place, 'artifact')),
    append: readFlag(from, 'append', place),
    lastChunk: readFlag(from, 'lastChunk', place),
    metadata: readMetadata(from, 'metadata', place),
  });
}

function readOneOf<M extends string>(value: unknown, members: readonly M[]): [member: M, value: unknown] {
  const from = readObject(value, 'result');
  const found = members.filter((member) => from[member] !== undefined && from[member] !== null);
  if (found.length !== 1) refuse('result', `must have exactly one of ${members.join(', ')}, and has ${found.length}`);
  return [found[0]!, from[found[0]!]];
}

function readMany<T>(
  from: Fields,
  member: string,
  place: Place,
  maxEntries: number,
  read: (value: unknown, place: Place) => T,
): readonly T[] | undefined {
  const value = from[member];
  if (value === undefined || value === null) return undefined;
  const at = within(place, member);
  return readList(value, at, maxEntries).map((entry, index) => read(entry, [at, index]));
}

/** Turns faults into `INVALID_AGENT_RESPONSE`: they are the agent's, not the caller's. */
export function answer<T>(read: (value: unknown) => T): (value: unknown) => T {
  return (value) => {
    try {
      return read(value);
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'INVALID_PARAMS') throw error;
      throw new EclipticError('INVALID_AGENT_RESPONSE', `the agent's answer: ${error.message}`, { ...error.details });
    }
  };
}
