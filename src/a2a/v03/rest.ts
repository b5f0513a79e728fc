import { toJsonRpcError } from '../protocol/errors.js';
import type { Method } from '../protocol/json-rpc.js';
import { compact, type Fields, type Place, readObject, refuse, within } from '../protocol/reading.js';
import type {
  AgentCard,
  Artifact,
  ListPushConfigsResponse,
  ListTasksResponse,
  Message,
  Part,
  SendMessageRequest,
  StreamResponse,
  Task,
  TaskPushNotificationConfig,
  TaskStatus,
} from '../protocol/types.js';
import { fromV03Card, toV03Card } from '../protocol/v03-card.js';
import { isFinalInV03 } from './messages.js';

/**
 * 0.3 over HTTP and JSON. There it is the ProtoJSON of its own messages, which is neither the JSON of its JSON-RPC nor
 * that of 1.0: a message has `content`, a canceled task is spelled with two l, files and data are wrapped. As elsewhere,
 * what comes is put into the shape of 1.0, and the readers of 1.0 judge it.
 */

const CANCELED = 'TASK_STATE_CANCELED';
const V03_CANCELED = 'TASK_STATE_CANCELLED';

/** A 0.3 request's parameters in the shape of 1.0. What the path says is added to them. */
export function fromV03RestParams(method: Method, params: Fields): Fields {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
      return {
        message: fromMessage(params.message, 'message'),
        configuration: fromConfiguration(params.configuration),
        metadata: params.metadata,
      };
    case 'CreateTaskPushNotificationConfig':
      return fromPushConfig(params.pushNotificationConfig, 'pushNotificationConfig');
    case 'ListTasks':
      return { ...params, status: fromState(params.status) };
    default:
      return params;
  }
}

/** What a 1.0 request is in 0.3. */
export function toV03RestParams(method: Method, params: object): object {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage': {
      const { message, configuration, metadata } = params as SendMessageRequest;
      const push = configuration?.taskPushNotificationConfig;
      const shaped = compact<Fields>({
        acceptedOutputModes: configuration?.acceptedOutputModes,
        historyLength: configuration?.historyLength,
        blocking: configuration?.returnImmediately !== true,
        pushNotification: push && toPushConfig(push),
      });
      return compact<Fields>({ message: toMessage(message), configuration: shaped, metadata });
    }
    case 'CreateTaskPushNotificationConfig':
      return toTaskPushConfig(params as TaskPushNotificationConfig);
    default:
      return params;
  }
}

/** A 1.0 result as 0.3 has it. */
export function toV03RestResult(method: Method, result: unknown): unknown {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
    case 'SubscribeToTask':
      return toStreamResponse(result as StreamResponse);
    case 'GetTask':
    case 'CancelTask':
      return toTask(result as Task);
    case 'ListTasks': {
      const { tasks, ...page } = result as ListTasksResponse;
      return { ...page, tasks: tasks.map(toTask) };
    }
    case 'CreateTaskPushNotificationConfig':
    case 'GetTaskPushNotificationConfig':
      return toTaskPushConfig(result as TaskPushNotificationConfig);
    case 'ListTaskPushNotificationConfigs':
      return { configs: (result as ListPushConfigsResponse).configs.map(toTaskPushConfig) };
    case 'GetExtendedAgentCard':
      return toCard(result as AgentCard);
    default:
      return result;
  }
}

/** A 0.3 result in the shape of 1.0. */
export function fromV03RestResult(method: Method, result: unknown): unknown {
  const from = readObject(result, 'result');
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
    case 'SubscribeToTask':
      return fromStreamResponse(from);
    case 'GetTask':
    case 'CancelTask':
      return fromTask(from, 'task');
    case 'ListTasks':
      return { ...from, tasks: fromMany(from.tasks, 'tasks', fromTask) };
    case 'CreateTaskPushNotificationConfig':
    case 'GetTaskPushNotificationConfig':
      return fromTaskPushConfig(from, 'config');
    case 'ListTaskPushNotificationConfigs':
      return { ...from, configs: fromMany(from.configs ?? [], 'configs', fromTaskPushConfig) };
    case 'GetExtendedAgentCard':
      return fromCard(from);
    default:
      return result;
  }
}

/** JSON-RPC's number and text, as 0.3's clients look for them. */
export function toV03RestError(error: unknown): { readonly code: number; readonly message: string } {
  const { code, message } = toJsonRpcError(error);
  return { code, message };
}

/** What 0.3's files and data cannot hold is lost: names and metadata of parts. Data is an object there. */
function toPart({ text, raw, url, data, mediaType: mimeType }: Part): Fields {
  if (text !== undefined) return { text };
  if (raw !== undefined) return { file: compact<Fields>({ fileWithBytes: raw, mimeType }) };
  if (url !== undefined) return { file: compact<Fields>({ fileWithUri: url, mimeType }) };
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return { data: { data: isObject ? data : { value: data } } };
}

function fromPart(value: unknown, place: Place): Fields {
  const { text, file, data, metadata } = readObject(value, place);
  const has = [text, file, data].filter((one) => one !== undefined && one !== null).length;
  if (has !== 1) refuse(place, `must have exactly one of text, file and data, and has ${has}`);
  if (text !== undefined && text !== null) return { text, metadata };
  if (data !== undefined && data !== null) return { data: readObject(data, within(place, 'data')).data, metadata };
  const { fileWithBytes: raw, fileWithUri: url, mimeType, name } = readObject(file, within(place, 'file'));
  return { raw, url, mediaType: mimeType, filename: name, metadata };
}

function toMessage({ parts, referenceTaskIds: _, ...others }: Message): Fields {
  return { ...others, content: parts.map(toPart) };
}

function fromMessage(value: unknown, place: Place): Fields {
  const { content, ...others } = readObject(value, place);
  if (content === undefined)
    refuse(within(place, 'content'), 'must be the list of parts; send A2A-Version: 1.0 to speak 1.0');
  return { ...others, parts: fromMany(content, within(place, 'content'), fromPart) };
}

function toArtifact({ parts, ...others }: Artifact): Fields {
  return { ...others, parts: parts.map(toPart) };
}

function fromArtifact(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  return { ...from, parts: fromMany(from.parts, within(place, 'parts'), fromPart) };
}

function toStatus({ state, message, timestamp }: TaskStatus): Fields {
  return compact<Fields>({
    state: state === CANCELED ? V03_CANCELED : state,
    message: message && toMessage(message),
    timestamp,
  });
}

function fromStatus(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  const { state, message } = from;
  return {
    ...from,
    state: fromState(state),
    message: message === undefined || message === null ? undefined : fromMessage(message, within(place, 'message')),
  };
}

function fromState(state: unknown): unknown {
  return state === V03_CANCELED ? CANCELED : state;
}

function toTask({ status, artifacts, history, ...others }: Task): Fields {
  return compact<Fields>({
    ...others,
    status: toStatus(status),
    artifacts: artifacts?.map(toArtifact),
    history: history?.map(toMessage),
  });
}

function fromTask(value: unknown, place: Place): Fields {
  const from = readObject(value, place);
  return {
    ...from,
    status: fromStatus(from.status, within(place, 'status')),
    artifacts: fromMany(from.artifacts, within(place, 'artifacts'), fromArtifact),
    history: fromMany(from.history, within(place, 'history'), fromMessage),
  };
}

function toStreamResponse(event: StreamResponse): Fields {
  if ('task' in event) return { task: toTask(event.task) };
  if ('message' in event) return { message: toMessage(event.message) };
  if ('statusUpdate' in event) {
    const { status, ...others } = event.statusUpdate;
    return { statusUpdate: { ...others, status: toStatus(status), final: isFinalInV03(status.state) } };
  }
  const { artifact, ...others } = event.artifactUpdate;
  return { artifactUpdate: { ...others, artifact: toArtifact(artifact) } };
}

function fromStreamResponse({ task, message, msg, statusUpdate, artifactUpdate }: Fields): Fields {
  const said = message ?? msg;
  if (task) return { task: fromTask(task, 'task') };
  if (said) return { message: fromMessage(said, 'message') };
  if (statusUpdate) {
    const from = readObject(statusUpdate, 'statusUpdate');
    return { statusUpdate: { ...from, status: fromStatus(from.status, 'statusUpdate.status') } };
  }
  const from = readObject(artifactUpdate, 'artifactUpdate');
  return { artifactUpdate: { ...from, artifact: fromArtifact(from.artifact, 'artifactUpdate.artifact') } };
}

/** A flag that is not set is false in ProtoJSON: whoever gives a configuration and wants to wait says so. */
function fromConfiguration(value: unknown): Fields | undefined {
  if (value === undefined || value === null) return undefined;
  const { acceptedOutputModes, blocking, historyLength, pushNotification } = readObject(value, 'configuration');
  return {
    acceptedOutputModes,
    historyLength: historyLength === 0 ? undefined : historyLength,
    returnImmediately: blocking !== true,
    taskPushNotificationConfig:
      pushNotification === undefined || pushNotification === null
        ? undefined
        : fromPushConfig(pushNotification, 'configuration.pushNotification'),
  };
}

function toPushConfig({ id, url, token, authentication }: TaskPushNotificationConfig): Fields {
  return compact<Fields>({
    id,
    url,
    token,
    authentication:
      authentication && compact<Fields>({ schemes: [authentication.scheme], credentials: authentication.credentials }),
  });
}

/** 1.0 has one scheme; the first of several is taken. */
function fromPushConfig(value: unknown, place: Place): Fields {
  const { id, url, token, authentication } = readObject(value, place);
  if (authentication === undefined || authentication === null) return { id, url, token };
  const { schemes, credentials } = readObject(authentication, within(place, 'authentication'));
  return { id, url, token, authentication: { scheme: Array.isArray(schemes) ? schemes[0] : undefined, credentials } };
}

/** Named as resources are: `tasks/ID/pushNotificationConfigs/ID`. */
function toTaskPushConfig(config: TaskPushNotificationConfig): Fields {
  const { taskId = '', id = '' } = config;
  return { name: `tasks/${taskId}/pushNotificationConfigs/${id}`, pushNotificationConfig: toPushConfig(config) };
}

function fromTaskPushConfig(value: unknown, place: Place): Fields {
  const { name, pushNotificationConfig } = readObject(value, place);
  const [, taskId] = /^tasks\/([^/]+)/.exec(String(name)) ?? [];
  return { ...fromPushConfig(pushNotificationConfig, within(place, 'pushNotificationConfig')), taskId };
}

/** As in its JSON, but for what is about security, which is as in 1.0. */
function toCard(card: AgentCard): Fields {
  const { securitySchemes, securityRequirements: security } = card;
  const old = toV03Card({ ...card, securitySchemes: {}, securityRequirements: [] });
  const skills = card.skills.map(({ securityRequirements, ...skill }) =>
    compact<Fields>({ ...skill, security: securityRequirements }),
  );
  return compact<Fields>({ ...old, skills, securitySchemes, security });
}

function fromCard({ security, ...card }: Fields): Fields {
  const skills = Array.isArray(card.skills)
    ? card.skills.map((skill) => ({ ...skill, security: undefined, securityRequirements: skill?.security }))
    : card.skills;
  return fromV03Card({ ...card, skills, securityRequirements: security ?? [] });
}

/** Whether something must be a list is the readers' question. */
function fromMany(value: unknown, place: string, from: (value: unknown, place: Place) => Fields): unknown {
  return Array.isArray(value) ? value.map((entry, index) => from(entry, [place, index])) : value;
}
