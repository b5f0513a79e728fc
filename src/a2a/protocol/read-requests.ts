import { A2A_LIMITS, PAGE_SIZE } from './limits.js';
import {
  compact,
  type Fields,
  jsonProblem,
  type Place,
  readFlag,
  readId,
  readInteger,
  readList,
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
import { compile, reader, readFields } from './shapes.js';
import { isTaskState, stateOf } from './task-rules.js';
import type {
  Artifact,
  CancelTaskRequest,
  GetExtendedAgentCardRequest,
  GetTaskRequest,
  ListPushConfigsRequest,
  ListTasksRequest,
  Message,
  Part,
  PushConfigRequest,
  Role,
  SendMessageConfiguration,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskPushNotificationConfig,
  TaskState,
} from './types.js';

const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

export function readMessage(value: unknown, place: Place): Message {
  return readMessageOf(readObject(value, place), place, readId);
}

/** A remote agent's message. Some agents leave out the id, as examples in the specification do; then it is empty. */
export function readAgentMessage(value: unknown, place: Place): Message {
  return readMessageOf(readObject(value, place), place, (...at) => readOptionalId(...at) ?? '');
}

function readMessageOf(from: Fields, place: Place, readMessageId: typeof readId): Message {
  return compact<Message>({
    messageId: readMessageId(from, 'messageId', place),
    role: readRole(from, place),
    parts: readParts(from, place),
    contextId: readOptionalId(from, 'contextId', place),
    taskId: readOptionalId(from, 'taskId', place),
    metadata: readMetadata(from, 'metadata', place),
    extensions: readTexts(from, 'extensions', place),
    referenceTaskIds: readTexts(from, 'referenceTaskIds', place, A2A_LIMITS.idChars),
  });
}

export function readArtifact(value: unknown, place: Place): Artifact {
  const from = readObject(value, place);
  return compact<Artifact>({
    artifactId: readId(from, 'artifactId', place),
    parts: readParts(from, place),
    name: readOptionalText(from, 'name', place, A2A_LIMITS.nameChars),
    description: readOptionalText(from, 'description', place, A2A_LIMITS.cardTextChars),
    metadata: readMetadata(from, 'metadata', place),
    extensions: readTexts(from, 'extensions', place),
  });
}

export function readParts(from: Fields, place: Place): readonly Part[] {
  const at = within(place, 'parts');
  const list = readList(from.parts, at, A2A_LIMITS.parts);
  if (list.length === 0) refuse(at, 'must have at least one part');
  const parts: Part[] = [];
  for (let index = 0; index < list.length; index++) parts.push(readPart(list[index], [at, index]));
  return parts;
}

/** A part is text, bytes, a URL or data. Data counts as set even when it is `null`. */
export function readPart(value: unknown, place: Place): Part {
  const from = readObject(value, place);
  const { text, raw, url, data } = from;
  const has = Number(isSet(text)) + Number(isSet(raw)) + Number(isSet(url)) + Number(data !== undefined);
  if (has !== 1) refuse(place, `must have exactly one of text, raw, url and data, and has ${has}`);
  const around = {
    metadata: readMetadata(from, 'metadata', place),
    filename: readOptionalText(from, 'filename', place, A2A_LIMITS.nameChars),
    mediaType: readOptionalText(from, 'mediaType', place, A2A_LIMITS.nameChars),
  };
  if (data !== undefined) {
    const problem = jsonProblem(data);
    if (problem) refuse(within(place, `data${problem.at}`), problem.text);
    return compact<Part>({ data, ...around });
  }
  if (isSet(text)) return compact<Part>({ text: readContent(text, place, 'text'), ...around });
  if (isSet(url)) return compact<Part>({ url: readUrl(url, place), ...around });
  const bytes = readContent(raw, place, 'raw');
  if (!BASE64.test(bytes)) refuse(within(place, 'raw'), 'must be base64');
  return compact<Part>({ raw: bytes, ...around });
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function readContent(value: unknown, place: Place, member: 'text' | 'raw'): string {
  if (typeof value !== 'string') refuse(within(place, member), 'must be a string');
  if (value.length > A2A_LIMITS.contentChars) {
    refuse(within(place, member), `is longer than ${A2A_LIMITS.contentChars} characters`);
  }
  return value;
}

function readUrl(value: unknown, place: Place): string {
  if (typeof value !== 'string' || value.length > A2A_LIMITS.urlChars || !URL.canParse(value)) {
    refuse(within(place, 'url'), `must be an absolute URL of at most ${A2A_LIMITS.urlChars} characters`);
  }
  return value;
}

function readRole(from: Fields, place: Place): Role {
  // ProtoJSON readers accept an enum by number too.
  const role = from.role === 1 ? 'ROLE_USER' : from.role === 2 ? 'ROLE_AGENT' : from.role;
  if (role !== 'ROLE_USER' && role !== 'ROLE_AGENT') {
    refuse(within(place, 'role'), 'must be ROLE_USER or ROLE_AGENT');
  }
  return role;
}

/**
 * Readers of the parameters of every operation, from untrusted JSON: JSON-RPC's `params`, or body and query of the HTTP
 * binding. Unknown members are ignored; a fault is an `INVALID_PARAMS` that names the place.
 */

export function readSendMessageRequest(params: unknown): SendMessageRequest {
  const from = readObject(params, 'params');
  const message = readMessage(from.message, 'message');
  if (message.role !== 'ROLE_USER') refuse('message.role', 'must be ROLE_USER in a request');
  // A streamed chunk may end within a surrogate pair; a request is complete.
  requireUnicode(message.parts, 'message.parts');
  requireUnicode(message.metadata, 'message.metadata');
  const metadata = readMetadata(from, 'metadata', '');
  requireUnicode(metadata, 'metadata');
  return compact<SendMessageRequest>({
    tenant: readOptionalText(from, 'tenant', '', A2A_LIMITS.nameChars),
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

export const readGetTaskRequest = reader<GetTaskRequest>({ tenant: 'name', 'id!': 'id', historyLength: 'count' });
export const readCancelTaskRequest = reader<CancelTaskRequest>({ tenant: 'name', 'id!': 'id', metadata: 'json' });
export const readSubscribeToTaskRequest = reader<SubscribeToTaskRequest>({ tenant: 'name', 'id!': 'id' });
export const readPushConfigRequest = reader<PushConfigRequest>({ tenant: 'name', 'taskId!': 'id', 'id!': 'id' });

export const readListPushConfigsRequest = reader<ListPushConfigsRequest>({
  tenant: 'name',
  'taskId!': 'id',
  // Unlike in ListTasks, zero is the unset value of this int32.
  pageSize: (from, name, place) => readInteger(from, name, place, 0) || undefined,
  pageToken: 'url',
});

const readListTasks = reader<ListTasksRequest>({
  tenant: 'name',
  contextId: 'id',
  status: (from) => readStateFilter(from.status),
  pageSize: (from, name, place) => readInteger(from, name, place, PAGE_SIZE.smallest, PAGE_SIZE.largest),
  pageToken: 'url',
  historyLength: 'count',
  statusTimestampAfter: 'time',
  includeArtifacts: 'flag',
});

export function readListTasksRequest(params: unknown): ListTasksRequest {
  return readListTasks(params ?? {});
}

/** The unspecified state is the enum's default and means no filter. */
function readStateFilter(value: unknown): TaskState | undefined {
  const state = stateOf(value);
  if (state === undefined || state === null || state === '' || state === 'TASK_STATE_UNSPECIFIED') return undefined;
  if (!isTaskState(state)) refuse('status', 'must be a task state, such as TASK_STATE_WORKING');
  return state;
}

const readExtendedCard = reader<GetExtendedAgentCardRequest>({ tenant: 'name' });

export function readGetExtendedAgentCardRequest(params: unknown): GetExtendedAgentCardRequest {
  return readExtendedCard(params ?? {});
}

export function readCreatePushConfigRequest(params: unknown): TaskPushNotificationConfig & { readonly taskId: string } {
  return { ...readPushConfig(params, ''), taskId: readId(readObject(params, 'params'), 'taskId', '') };
}

const PUSH_CONFIG = compile({
  tenant: 'name',
  id: 'id',
  taskId: 'id',
  url: readHttpUrl,
  token: 'name',
  authentication: { 'scheme!': 'name', credentials: 'text' },
});

/** Checks the form of the URL; the sender checks whether the address may be called. */
export function readPushConfig(value: unknown, place: Place): TaskPushNotificationConfig {
  const from = readObject(value, place === '' ? 'params' : place);
  return readFields(from, PUSH_CONFIG, place) as unknown as TaskPushNotificationConfig;
}

function readHttpUrl(from: Fields, name: string, place: Place): string {
  const url = readText(from, name, place, A2A_LIMITS.urlChars);
  if (!URL.canParse(url) || !/^https?:/i.test(url)) refuse(within(place, name), 'must be an http or https URL');
  return url;
}
