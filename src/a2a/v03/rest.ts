import type { Method } from '../protocol/json-rpc.js';
import { compact, type Fields, isFields, type Place, readObject, refuse, within } from '../protocol/reading.js';
import type {
  AgentCard,
  Message,
  Part,
  StreamResponse,
  TaskPushNotificationConfig,
  TaskState,
} from '../protocol/types.js';
import { fromV03Card, toV03Card } from './card.js';
import { fromMany, fromPushConfig, toPushConfig, V03Dialect } from './dialect.js';

const CANCELED = 'TASK_STATE_CANCELED';
const V03_CANCELED = 'TASK_STATE_CANCELLED';

/**
 * 0.3 over HTTP and JSON: the ProtoJSON of its own messages, which is neither the JSON of its JSON-RPC nor that of 1.0.
 * A message has `content`, a canceled task is spelled with two l, files and data are wrapped.
 */
class V03Rest extends V03Dialect {
  protected readonly pushMember = 'pushNotification';

  /** Parameters that the path holds are added by the binding. */
  override fromParams(method: Method, params: Fields): Fields {
    if (method === 'ListTasks') return { ...params, status: this.fromState(params.status) };
    return super.fromParams(method, params) as Fields;
  }

  /** 0.3's files and data cannot hold names and metadata of parts, which are lost. Data is an object there. */
  protected toPart({ text, raw, url, data, mediaType: mimeType }: Part): Fields {
    if (text !== undefined) return { text };
    if (raw !== undefined) return { file: compact<Fields>({ fileWithBytes: raw, mimeType }) };
    if (url !== undefined) return { file: compact<Fields>({ fileWithUri: url, mimeType }) };
    return { data: { data: isFields(data) ? data : { value: data } } };
  }

  protected fromPart(value: unknown, place: Place): Fields {
    const { text, file, data, metadata } = readObject(value, place);
    const has = [text, file, data].filter((one) => one !== undefined && one !== null).length;
    if (has !== 1) refuse(place, `must have exactly one of text, file and data, and has ${has}`);
    if (text !== undefined && text !== null) return { text, metadata };
    if (data !== undefined && data !== null) return { data: readObject(data, within(place, 'data')).data, metadata };
    const { fileWithBytes: raw, fileWithUri: url, mimeType, name } = readObject(file, within(place, 'file'));
    return { raw, url, mediaType: mimeType, filename: name, metadata };
  }

  protected toMessage({ parts, referenceTaskIds: _, ...others }: Message): Fields {
    return { ...others, content: this.toParts(parts) };
  }

  protected fromMessage(value: unknown, place: Place): Fields {
    const { content, ...others } = readObject(value, place);
    const at = within(place, 'content');
    if (content === undefined) refuse(at, 'must be the list of parts; send A2A-Version: 1.0 to speak 1.0');
    return { ...others, parts: this.fromParts(content, at) };
  }

  protected toState(state: TaskState): string {
    return state === CANCELED ? V03_CANCELED : state;
  }

  protected fromState(state: unknown): unknown {
    return state === V03_CANCELED ? CANCELED : state;
  }

  /** A flag that is not set is false in ProtoJSON: a client that gives a configuration and wants to wait says so. */
  protected fromTerms({ blocking, historyLength }: Fields): Fields {
    return { historyLength: historyLength === 0 ? undefined : historyLength, returnImmediately: blocking !== true };
  }

  protected toEvent(event: StreamResponse): Fields {
    if ('task' in event) return { task: this.toTask(event.task) };
    if ('message' in event) return { message: this.toMessage(event.message) };
    if ('statusUpdate' in event) return { statusUpdate: this.toStatusUpdate(event.statusUpdate) };
    return { artifactUpdate: this.toArtifactUpdate(event.artifactUpdate) };
  }

  protected fromEvent(value: unknown): Fields {
    const { task, message, msg, statusUpdate, artifactUpdate } = readObject(value, 'result');
    const said = message ?? msg;
    if (task) return { task: this.fromTask(task, 'task') };
    if (said) return { message: this.fromMessage(said, 'message') };
    if (statusUpdate) return { statusUpdate: this.fromStatusUpdate(statusUpdate) };
    return { artifactUpdate: this.fromArtifactUpdate(artifactUpdate) };
  }

  /** Named as resources are: `tasks/ID/pushNotificationConfigs/ID`. */
  protected toTaskPush(config: TaskPushNotificationConfig): Fields {
    const { taskId = '', id = '' } = config;
    return { name: `tasks/${taskId}/pushNotificationConfigs/${id}`, pushNotificationConfig: toPushConfig(config) };
  }

  protected fromTaskPush(value: unknown, place: Place): Fields {
    const { name, pushNotificationConfig } = readObject(value, place);
    const [, taskId] = (typeof name === 'string' && /^tasks\/([^/]+)/.exec(name)) || [];
    return { ...fromPushConfig(pushNotificationConfig, within(place, 'pushNotificationConfig')), taskId };
  }

  protected toPushList(configs: readonly Fields[]): unknown {
    return { configs };
  }

  protected fromPushList(value: unknown): unknown {
    const from = readObject(value, 'result');
    return { ...from, configs: fromMany(from.configs ?? [], 'configs', (one, place) => this.fromTaskPush(one, place)) };
  }

  /** Security is written as in 1.0, everything else as in the JSON of 0.3. */
  protected toCard(card: AgentCard): object {
    const { securitySchemes, securityRequirements: security } = card;
    const old = toV03Card({ ...card, securitySchemes: {}, securityRequirements: [] });
    const skills = card.skills.map(({ securityRequirements, ...skill }) =>
      compact<Fields>({ ...skill, security: securityRequirements }),
    );
    return compact<Fields>({ ...old, skills, securitySchemes, security });
  }

  protected fromCard(value: unknown): Fields {
    const { security, ...card } = readObject(value, 'result');
    const skills = Array.isArray(card.skills)
      ? card.skills.map((skill) => ({ ...skill, security: undefined, securityRequirements: skill?.security }))
      : card.skills;
    return fromV03Card({ ...card, skills, securityRequirements: security ?? [] });
  }
}

export const v03Rest = new V03Rest();
