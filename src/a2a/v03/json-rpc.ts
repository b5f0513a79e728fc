import type { Method } from '../protocol/json-rpc.js';
import { compact, type Fields, isFields, type Place, readObject, refuse, within } from '../protocol/reading.js';
import type {
  AgentCard,
  Message,
  Part,
  StreamResponse,
  Task,
  TaskPushNotificationConfig,
  TaskState,
} from '../protocol/types.js';
import { fromV03Card, toV03Card } from './card.js';
import { fromPushConfig, toPushConfig, V03Dialect } from './dialect.js';

const STATES: Readonly<Record<TaskState, string>> = {
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

const stateOf: ReadonlyMap<unknown, string> = new Map(Object.entries(STATES).map(([state, old]) => [old, state]));

/** Marks data that 0.3 could not hold as it is, as the other implementations do. */
const WRAPPED = 'data_part_compat';

/** 0.3 over JSON-RPC: parts, messages, tasks and events say their `kind`. */
class V03JsonRpc extends V03Dialect {
  protected readonly pushMember = 'pushNotificationConfig';

  override fromParams(method: Method, params: unknown): unknown {
    switch (method) {
      case 'CreateTaskPushNotificationConfig': {
        // In 0.3 a configuration without an id of its own had the task's.
        const config = this.fromTaskPush(params, 'params');
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
        return super.fromParams(method, params);
    }
  }

  override toParams(method: Method, params: object): unknown {
    const { tenant: _, ...others } = params as Fields;
    switch (method) {
      case 'GetTaskPushNotificationConfig':
      case 'DeleteTaskPushNotificationConfig':
        return { id: others.taskId, pushNotificationConfigId: others.id };
      case 'ListTaskPushNotificationConfigs':
        return { id: others.taskId };
      case 'GetExtendedAgentCard':
        return undefined;
      default:
        return super.toParams(method, others);
    }
  }

  override toResult(method: Method, result: unknown): unknown {
    return method === 'DeleteTaskPushNotificationConfig' ? null : super.toResult(method, result);
  }

  protected toPart({ text, raw, url, data, metadata, mediaType: mimeType, filename: name }: Part): Fields {
    if (text !== undefined) return compact<Fields>({ kind: 'text', text, metadata });
    if (raw !== undefined || url !== undefined) {
      return compact<Fields>({
        kind: 'file',
        file: compact<Fields>({ bytes: raw, uri: url, mimeType, name }),
        metadata,
      });
    }
    if (isFields(data)) return compact<Fields>({ kind: 'data', data, metadata });
    return { kind: 'data', data: { value: data }, metadata: { ...metadata, [WRAPPED]: true } };
  }

  protected fromPart(value: unknown, place: Place): Fields {
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

  protected toMessage(message: Message): Fields {
    const role = message.role === 'ROLE_USER' ? 'user' : 'agent';
    return { kind: 'message', ...message, role, parts: this.toParts(message.parts) };
  }

  protected fromMessage(value: unknown, place: Place): Fields {
    const from = readObject(value, place);
    const role = from.role === 'user' ? 'ROLE_USER' : from.role === 'agent' ? 'ROLE_AGENT' : undefined;
    if (role === undefined) refuse(within(place, 'role'), 'must be user or agent');
    return { ...from, role, parts: this.fromParts(from.parts, within(place, 'parts')) };
  }

  protected toState(state: TaskState): string {
    return STATES[state];
  }

  protected fromState(state: unknown): unknown {
    return stateOf.get(state);
  }

  /** 0.3's servers wait for the task unless they are told not to. */
  protected fromTerms({ blocking, historyLength }: Fields): Fields {
    return { historyLength, returnImmediately: (blocking ?? undefined) === undefined ? undefined : blocking === false };
  }

  protected override toTask(task: Task): Fields {
    return { kind: 'task', ...super.toTask(task) };
  }

  protected toEvent(event: StreamResponse): Fields {
    if ('task' in event) return this.toTask(event.task);
    if ('message' in event) return this.toMessage(event.message);
    if ('statusUpdate' in event) return { kind: 'status-update', ...this.toStatusUpdate(event.statusUpdate) };
    return { kind: 'artifact-update', append: false, lastChunk: false, ...this.toArtifactUpdate(event.artifactUpdate) };
  }

  protected fromEvent(value: unknown): Fields {
    const from = readObject(value, 'result');
    switch (from.kind) {
      case 'task':
        return { task: this.fromTask(from, 'task') };
      case 'message':
        return { message: this.fromMessage(from, 'message') };
      case 'status-update':
        return { statusUpdate: this.fromStatusUpdate(from) };
      case 'artifact-update':
        return { artifactUpdate: this.fromArtifactUpdate(from) };
      default:
        refuse('result.kind', 'must be task, message, status-update or artifact-update');
    }
  }

  protected toTaskPush(config: TaskPushNotificationConfig): Fields {
    return { taskId: config.taskId ?? '', pushNotificationConfig: toPushConfig(config) };
  }

  protected fromTaskPush(value: unknown, place: Place): Fields {
    const { taskId, pushNotificationConfig } = readObject(value, place);
    return { ...fromPushConfig(pushNotificationConfig, 'pushNotificationConfig'), taskId };
  }

  protected toPushList(configs: readonly Fields[]): unknown {
    return configs;
  }

  protected fromPushList(value: unknown): unknown {
    return { configs: Array.isArray(value) ? value.map((config) => this.fromTaskPush(config, 'params')) : value };
  }

  protected toCard(card: AgentCard): object {
    return toV03Card(card);
  }

  protected fromCard(value: unknown): Fields {
    return fromV03Card(value);
  }
}

export const v03JsonRpc = new V03JsonRpc();

function unwrapped({ data, metadata }: Fields): Fields {
  const { [WRAPPED]: wrapped, ...others }: Fields = isFields(metadata) ? metadata : {};
  if (wrapped !== true) return { data, metadata };
  const holds = isFields(data) && Object.hasOwn(data, 'value');
  return { data: holds ? data.value : data, metadata: Object.keys(others).length > 0 ? others : undefined };
}
