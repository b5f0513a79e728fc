import { toJsonRpcError } from '../protocol/errors.js';
import type { Method } from '../protocol/json-rpc.js';
import { compact, type Fields, readObject } from '../protocol/reading.js';
import type {
  AgentCard,
  ListPushConfigsResponse,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  Task,
  TaskPushNotificationConfig,
} from '../protocol/types.js';
import { fromV03Card, toV03Card } from '../protocol/v03-card.js';
import type { V03PushConfig, V03TaskPushConfig } from '../protocol/v03-types.js';
import {
  fromV03Message,
  fromV03StreamEvent,
  fromV03Task,
  toV03Message,
  toV03StreamEvent,
  toV03Task,
} from './messages.js';

/** Requests and answers between 0.3 and 1.0, by operation. */

/** A 0.3 request's parameters in the shape of 1.0, for the readers to judge. */
export function fromV03Params(method: Method, params: unknown): unknown {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
      return fromSendParams(readObject(params, 'params'));
    case 'CreateTaskPushNotificationConfig': {
      // In 0.3 a configuration without a name of its own had the task's.
      const config = fromV03TaskPushConfig(params);
      return { ...config, id: config.id ?? config.taskId };
    }
    case 'GetTaskPushNotificationConfig':
    case 'DeleteTaskPushNotificationConfig': {
      const { id, pushNotificationConfigId } = readObject(params, 'params');
      return { taskId: id, id: pushNotificationConfigId ?? id };
    }
    case 'ListTaskPushNotificationConfigs':
      return { taskId: readObject(params, 'params').id };
    default:
      return params;
  }
}

function fromSendParams(params: Fields): Fields {
  return {
    message: fromV03Message(params.message, 'message'),
    configuration: fromConfiguration(params.configuration),
    metadata: params.metadata,
  };
}

/** 0.3's servers wait for the task unless they are told not to. */
function fromConfiguration(value: unknown): Fields | undefined {
  if (value === undefined || value === null) return undefined;
  const { acceptedOutputModes, blocking, historyLength, pushNotificationConfig } = readObject(value, 'configuration');
  return {
    acceptedOutputModes,
    historyLength,
    returnImmediately: blocking === undefined || blocking === null ? undefined : blocking === false,
    taskPushNotificationConfig:
      pushNotificationConfig === undefined || pushNotificationConfig === null
        ? undefined
        : fromPushConfig(readObject(pushNotificationConfig, 'configuration.pushNotificationConfig')),
  };
}

/** What a 1.0 request is in 0.3, for agents that speak no other. */
export function toV03Params(method: Method, params: object): unknown {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
      return toSendParams(params as SendMessageRequest);
    case 'CreateTaskPushNotificationConfig':
      return toV03TaskPushConfig(params as TaskPushNotificationConfig);
    case 'GetTaskPushNotificationConfig':
    case 'DeleteTaskPushNotificationConfig': {
      const { taskId, id } = params as { taskId: string; id: string };
      return { id: taskId, pushNotificationConfigId: id };
    }
    case 'ListTaskPushNotificationConfigs':
      return { id: (params as { taskId: string }).taskId };
    case 'GetExtendedAgentCard':
      return undefined;
    default: {
      const { tenant: _, ...others } = params as Fields;
      return others;
    }
  }
}

function toSendParams({ message, configuration, metadata }: SendMessageRequest): Fields {
  const push = configuration?.taskPushNotificationConfig;
  return compact<Fields>({
    message: toV03Message(message),
    configuration: compact<Fields>({
      acceptedOutputModes: configuration?.acceptedOutputModes,
      historyLength: configuration?.historyLength,
      // Said even when it is the default, because 0.3's own default was never settled.
      blocking: configuration?.returnImmediately !== true,
      pushNotificationConfig: push && toPushConfig(push),
    }),
    metadata,
  });
}

/** A 1.0 result as 0.3 has it. */
export function toV03Result(method: Method, result: unknown): unknown {
  switch (method) {
    case 'SendMessage':
      return toV03StreamEvent(result as SendMessageResponse);
    case 'SendStreamingMessage':
    case 'SubscribeToTask':
      return toV03StreamEvent(result as StreamResponse);
    case 'GetTask':
    case 'CancelTask':
      return toV03Task(result as Task);
    case 'CreateTaskPushNotificationConfig':
    case 'GetTaskPushNotificationConfig':
      return toV03TaskPushConfig(result as TaskPushNotificationConfig);
    case 'ListTaskPushNotificationConfigs':
      return (result as ListPushConfigsResponse).configs.map(toV03TaskPushConfig);
    case 'DeleteTaskPushNotificationConfig':
      return null;
    case 'GetExtendedAgentCard':
      return toV03Card(result as AgentCard);
    default:
      return result;
  }
}

/** A 0.3 result in the shape of 1.0, for the readers to judge. */
export function fromV03Result(method: Method, result: unknown): unknown {
  switch (method) {
    case 'SendMessage':
    case 'SendStreamingMessage':
    case 'SubscribeToTask':
      return fromV03StreamEvent(result);
    case 'GetTask':
    case 'CancelTask':
      return fromV03Task(result, 'task');
    case 'CreateTaskPushNotificationConfig':
    case 'GetTaskPushNotificationConfig':
      return fromV03TaskPushConfig(result);
    case 'ListTaskPushNotificationConfigs':
      return { configs: Array.isArray(result) ? result.map(fromV03TaskPushConfig) : result };
    case 'GetExtendedAgentCard':
      return fromV03Card(result);
    default:
      return result;
  }
}

/** 0.3's error details were one object, not a list; its clients get none. */
export function toV03Error(error: unknown): { readonly code: number; readonly message: string } {
  const { code, message } = toJsonRpcError(error);
  return { code, message };
}

function toV03TaskPushConfig(config: TaskPushNotificationConfig): V03TaskPushConfig {
  return { taskId: config.taskId ?? '', pushNotificationConfig: toPushConfig(config) };
}

function fromV03TaskPushConfig(value: unknown): Fields {
  const { taskId, pushNotificationConfig } = readObject(value, 'params');
  return { ...fromPushConfig(readObject(pushNotificationConfig, 'pushNotificationConfig')), taskId };
}

function toPushConfig({ id, url, token, authentication }: TaskPushNotificationConfig): V03PushConfig {
  return compact<V03PushConfig>({
    url,
    id,
    token,
    authentication: authentication && {
      schemes: [authentication.scheme],
      ...(authentication.credentials === undefined ? {} : { credentials: authentication.credentials }),
    },
  });
}

/** 1.0 has one scheme; the first of several is taken. */
function fromPushConfig({ id, url, token, authentication }: Fields): Fields {
  if (authentication === undefined || authentication === null) return { id, url, token };
  const { schemes, credentials } = readObject(authentication, 'authentication');
  return { id, url, token, authentication: { scheme: Array.isArray(schemes) ? schemes[0] : undefined, credentials } };
}
