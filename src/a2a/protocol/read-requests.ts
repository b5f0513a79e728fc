import { A2A_LIMITS, PAGE_SIZE } from './limits.js';
import { readMessage } from './read-message.js';
import {
  compact,
  type Fields,
  type Place,
  readFlag,
  readId,
  readInteger,
  readMetadata,
  readObject,
  readOptionalId,
  readOptionalText,
  readText,
  readTexts,
  refuse,
  requireUnicode,
  within,
} from './reading.js';
import { isTaskState, stateOf } from './task-states.js';
import { readOptionalTimestamp } from './timestamp.js';
import type {
  AuthenticationInfo,
  CancelTaskRequest,
  GetExtendedAgentCardRequest,
  GetTaskRequest,
  ListPushConfigsRequest,
  ListTasksRequest,
  PushConfigRequest,
  SendMessageConfiguration,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskPushNotificationConfig,
  TaskState,
} from './types.js';

/**
 * The parameters of every operation, from untrusted JSON: JSON-RPC's `params`, or a request body or query of the
 * HTTP binding. Unknown members are ignored; a fault is an `INVALID_PARAMS` that says where it is.
 */

export function readSendMessageRequest(params: unknown): SendMessageRequest {
  const from = readObject(params, 'params');
  const message = readMessage(from.message, 'message');
  if (message.role !== 'ROLE_USER') refuse('message.role', 'must be ROLE_USER in a request');
  // An agent may stream half of a pair now and the rest with its next chunk; a request is complete.
  requireUnicode(message.parts, 'message.parts');
  requireUnicode(message.metadata, 'message.metadata');
  const metadata = readMetadata(from, 'metadata', '');
  requireUnicode(metadata, 'metadata');
  return compact<SendMessageRequest>({
    tenant: readTenant(from),
    message,
    configuration: readConfiguration(from.configuration),
    metadata,
  });
}

function readConfiguration(value: unknown): SendMessageConfiguration | undefined {
  if (value === undefined || value === null) return undefined;
  const place = 'configuration';
  const from = readObject(value, place);
  const push = from.taskPushNotificationConfig;
  return compact<SendMessageConfiguration>({
    acceptedOutputModes: readTexts(from, 'acceptedOutputModes', place, A2A_LIMITS.nameChars),
    taskPushNotificationConfig:
      push === undefined || push === null
        ? undefined
        : readPushConfig(push, within(place, 'taskPushNotificationConfig')),
    historyLength: readInteger(from, 'historyLength', place, 0),
    returnImmediately: readFlag(from, 'returnImmediately', place),
  });
}

export function readGetTaskRequest(params: unknown): GetTaskRequest {
  const from = readObject(params, 'params');
  return compact<GetTaskRequest>({
    tenant: readTenant(from),
    id: readId(from, 'id', ''),
    historyLength: readInteger(from, 'historyLength', '', 0),
  });
}

export function readListTasksRequest(params: unknown): ListTasksRequest {
  const from = readObject(params ?? {}, 'params');
  return compact<ListTasksRequest>({
    tenant: readTenant(from),
    contextId: readOptionalId(from, 'contextId', ''),
    status: readStateFilter(from.status),
    pageSize: readInteger(from, 'pageSize', '', PAGE_SIZE.smallest, PAGE_SIZE.largest),
    pageToken: readOptionalText(from, 'pageToken', '', A2A_LIMITS.urlChars),
    historyLength: readInteger(from, 'historyLength', '', 0),
    statusTimestampAfter: readOptionalTimestamp(from.statusTimestampAfter, 'statusTimestampAfter'),
    includeArtifacts: readFlag(from, 'includeArtifacts', ''),
  });
}

/** The unspecified state is the enum's default: no filter. */
function readStateFilter(value: unknown): TaskState | undefined {
  const state = stateOf(value);
  if (state === undefined || state === null || state === '' || state === 'TASK_STATE_UNSPECIFIED') return undefined;
  if (!isTaskState(state)) refuse('status', 'must be a task state, such as TASK_STATE_WORKING');
  return state;
}

export function readCancelTaskRequest(params: unknown): CancelTaskRequest {
  const from = readObject(params, 'params');
  return compact<CancelTaskRequest>({
    tenant: readTenant(from),
    id: readId(from, 'id', ''),
    metadata: readMetadata(from, 'metadata', ''),
  });
}

export function readSubscribeToTaskRequest(params: unknown): SubscribeToTaskRequest {
  const from = readObject(params, 'params');
  return compact<SubscribeToTaskRequest>({ tenant: readTenant(from), id: readId(from, 'id', '') });
}

export function readGetExtendedAgentCardRequest(params: unknown): GetExtendedAgentCardRequest {
  return compact<GetExtendedAgentCardRequest>({ tenant: readTenant(readObject(params ?? {}, 'params')) });
}

/** A new configuration for a task that must be named. */
export function readCreatePushConfigRequest(params: unknown): TaskPushNotificationConfig & { readonly taskId: string } {
  return { ...readPushConfig(params, ''), taskId: readId(readObject(params, 'params'), 'taskId', '') };
}

export function readPushConfigRequest(params: unknown): PushConfigRequest {
  const from = readObject(params, 'params');
  return compact<PushConfigRequest>({
    tenant: readTenant(from),
    taskId: readId(from, 'taskId', ''),
    id: readId(from, 'id', ''),
  });
}

export function readListPushConfigsRequest(params: unknown): ListPushConfigsRequest {
  const from = readObject(params, 'params');
  return compact<ListPushConfigsRequest>({
    tenant: readTenant(from),
    taskId: readId(from, 'taskId', ''),
    // Zero is the unset value of a plain int32 here, unlike in ListTasks.
    pageSize: readInteger(from, 'pageSize', '', 0) || undefined,
    pageToken: readOptionalText(from, 'pageToken', '', A2A_LIMITS.urlChars),
  });
}

/** Whether the URL may be called is for whoever calls it to say; here it must be one that can be. */
export function readPushConfig(value: unknown, place: Place): TaskPushNotificationConfig {
  const from = readObject(value, place === '' ? 'params' : place);
  const url = readText(from, 'url', place, A2A_LIMITS.urlChars);
  if (!URL.canParse(url) || !/^https?:/i.test(url)) refuse(within(place, 'url'), 'must be an http or https URL');
  return compact<TaskPushNotificationConfig>({
    tenant: readTenant(from),
    id: readOptionalId(from, 'id', place),
    taskId: readOptionalId(from, 'taskId', place),
    url,
    token: readOptionalText(from, 'token', place, A2A_LIMITS.nameChars),
    authentication: readAuthentication(from, place),
  });
}

function readAuthentication(from: Fields, above: Place): AuthenticationInfo | undefined {
  if (from.authentication === undefined || from.authentication === null) return undefined;
  const place = within(above, 'authentication');
  const fields = readObject(from.authentication, place);
  return compact<AuthenticationInfo>({
    scheme: readText(fields, 'scheme', place, A2A_LIMITS.nameChars),
    credentials: readOptionalText(fields, 'credentials', place, A2A_LIMITS.cardTextChars),
  });
}

function readTenant(from: Fields): string | undefined {
  return readOptionalText(from, 'tenant', '', A2A_LIMITS.nameChars);
}
