import { toJsonRpcError } from '../protocol/errors.js';
import type { Method } from '../protocol/json-rpc.js';
import { compact, type Fields, type Place, readObject, within } from '../protocol/reading.js';
import { isTerminal } from '../protocol/task-rules.js';
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
  TaskArtifactUpdateEvent,
  TaskPushNotificationConfig,
  TaskState,
  TaskStatus,
  TaskStatusUpdateEvent,
} from '../protocol/types.js';

/**
 * A2A 0.3 has two JSON dialects, that of its JSON-RPC and that of its HTTP binding. This class holds the structure that
 * they share, a subclass the forms that differ. Requests and results of 0.3 are only put into the shape of 1.0: the
 * readers of 1.0 check them, so that one set of rules holds for both versions.
 */
export abstract class V03Dialect {
  /** The member of a send's configuration that holds its push configuration. */
  protected abstract readonly pushMember: string;

  protected abstract toPart(part: Part): Fields;
  protected abstract fromPart(value: unknown, place: Place): Fields;
  protected abstract toMessage(message: Message): Fields;
  protected abstract fromMessage(value: unknown, place: Place): Fields;
  protected abstract toState(state: TaskState): string;
  protected abstract fromState(state: unknown): unknown;
  /** Whether a send waits for its task, and how much history its answer has. */
  protected abstract fromTerms(configuration: Fields): Fields;
  protected abstract toEvent(event: StreamResponse): Fields;
  protected abstract fromEvent(value: unknown): Fields;
  protected abstract toTaskPush(config: TaskPushNotificationConfig): Fields;
  protected abstract fromTaskPush(value: unknown, place: Place): Fields;
  protected abstract toPushList(configs: readonly Fields[]): unknown;
  protected abstract fromPushList(value: unknown): unknown;
  protected abstract toCard(card: AgentCard): object;
  protected abstract fromCard(value: unknown): Fields;

  /** A 0.3 request's parameters in the shape of 1.0. */
  fromParams(method: Method, params: unknown): unknown {
    switch (method) {
      case 'SendMessage':
      case 'SendStreamingMessage': {
        const { message, configuration, metadata } = readObject(params, 'params');
        return {
          message: this.fromMessage(message, 'message'),
          configuration: this.#fromConfiguration(configuration),
          metadata,
        };
      }
      case 'CreateTaskPushNotificationConfig':
        return this.fromTaskPush(params, 'params');
      default:
        return params;
    }
  }

  /** A 1.0 request's parameters as 0.3 has them. */
  toParams(method: Method, params: object): unknown {
    switch (method) {
      case 'SendMessage':
      case 'SendStreamingMessage': {
        const { message, configuration = {}, metadata } = params as SendMessageRequest;
        const { acceptedOutputModes, historyLength, taskPushNotificationConfig: push } = configuration;
        const shaped = compact<Fields>({
          acceptedOutputModes,
          historyLength,
          // Said even when it is the default, because 0.3's own default was never settled.
          blocking: configuration.returnImmediately !== true,
          [this.pushMember]: push && toPushConfig(push),
        });
        return compact<Fields>({ message: this.toMessage(message), configuration: shaped, metadata });
      }
      case 'CreateTaskPushNotificationConfig':
        return this.toTaskPush(params as TaskPushNotificationConfig);
      default:
        return params;
    }
  }

  /** A 1.0 result as 0.3 has it. */
  toResult(method: Method, result: unknown): unknown {
    switch (method) {
      case 'SendMessage':
      case 'SendStreamingMessage':
      case 'SubscribeToTask':
        return this.toEvent(result as StreamResponse);
      case 'GetTask':
      case 'CancelTask':
        return this.toTask(result as Task);
      case 'ListTasks': {
        const { tasks, ...page } = result as ListTasksResponse;
        return { ...page, tasks: tasks.map((task) => this.toTask(task)) };
      }
      case 'CreateTaskPushNotificationConfig':
      case 'GetTaskPushNotificationConfig':
        return this.toTaskPush(result as TaskPushNotificationConfig);
      case 'ListTaskPushNotificationConfigs':
        return this.toPushList((result as ListPushConfigsResponse).configs.map((config) => this.toTaskPush(config)));
      case 'GetExtendedAgentCard':
        return this.toCard(result as AgentCard);
      default:
        return result;
    }
  }

  /** A 0.3 result in the shape of 1.0. */
  fromResult(method: Method, result: unknown): unknown {
    switch (method) {
      case 'SendMessage':
      case 'SendStreamingMessage':
      case 'SubscribeToTask':
        return this.fromEvent(result);
      case 'GetTask':
      case 'CancelTask':
        return this.fromTask(result, 'task');
      case 'ListTasks': {
        const from = readObject(result, 'result');
        return { ...from, tasks: fromMany(from.tasks, 'tasks', (task, place) => this.fromTask(task, place)) };
      }
      case 'CreateTaskPushNotificationConfig':
      case 'GetTaskPushNotificationConfig':
        return this.fromTaskPush(result, 'config');
      case 'ListTaskPushNotificationConfigs':
        return this.fromPushList(result);
      case 'GetExtendedAgentCard':
        return this.fromCard(result);
      default:
        return result;
    }
  }

  protected toTask({ status, artifacts, history, ...others }: Task): Fields {
    return compact<Fields>({
      ...others,
      status: this.#toStatus(status),
      artifacts: artifacts?.length ? artifacts.map((artifact) => this.#toArtifact(artifact)) : undefined,
      history: history?.length ? history.map((message) => this.toMessage(message)) : undefined,
    });
  }

  protected fromTask(value: unknown, place: Place): Fields {
    const from = readObject(value, place);
    return {
      ...from,
      status: this.#fromStatus(from.status, within(place, 'status')),
      artifacts: fromMany(from.artifacts, within(place, 'artifacts'), (one, at) => this.#fromArtifact(one, at)),
      history: fromMany(from.history, within(place, 'history'), (one, at) => this.fromMessage(one, at)),
    };
  }

  /** 0.3 ends a stream with a final event: at the task's end, and where the client has to send the next message. */
  protected toStatusUpdate({ status, ...others }: TaskStatusUpdateEvent): Fields {
    const final = isTerminal(status.state) || status.state === 'TASK_STATE_INPUT_REQUIRED';
    return { ...others, status: this.#toStatus(status), final };
  }

  protected fromStatusUpdate(value: unknown): Fields {
    const from = readObject(value, 'statusUpdate');
    return { ...from, status: this.#fromStatus(from.status, 'statusUpdate.status') };
  }

  protected toArtifactUpdate({ artifact, ...others }: TaskArtifactUpdateEvent): Fields {
    return { ...others, artifact: this.#toArtifact(artifact) };
  }

  protected fromArtifactUpdate(value: unknown): Fields {
    const from = readObject(value, 'artifactUpdate');
    return { ...from, artifact: this.#fromArtifact(from.artifact, 'artifactUpdate.artifact') };
  }

  protected toParts(parts: readonly Part[]): Fields[] {
    return parts.map((part) => this.toPart(part));
  }

  protected fromParts(value: unknown, place: string): unknown {
    return fromMany(value, place, (part, at) => this.fromPart(part, at));
  }

  #toArtifact(artifact: Artifact): Fields {
    return { ...artifact, parts: this.toParts(artifact.parts) };
  }

  #fromArtifact(value: unknown, place: Place): Fields {
    const from = readObject(value, place);
    return { ...from, parts: this.fromParts(from.parts, within(place, 'parts')) };
  }

  #toStatus({ state, message, timestamp }: TaskStatus): Fields {
    return compact<Fields>({ state: this.toState(state), message: message && this.toMessage(message), timestamp });
  }

  #fromStatus(value: unknown, place: Place): Fields {
    const from = readObject(value, place);
    const message = from.message ?? undefined;
    return {
      ...from,
      state: this.fromState(from.state),
      message: message === undefined ? undefined : this.fromMessage(message, within(place, 'message')),
    };
  }

  #fromConfiguration(value: unknown): Fields | undefined {
    if (value === undefined || value === null) return undefined;
    const from = readObject(value, 'configuration');
    const push = from[this.pushMember] ?? undefined;
    return {
      acceptedOutputModes: from.acceptedOutputModes,
      ...this.fromTerms(from),
      taskPushNotificationConfig:
        push === undefined ? undefined : fromPushConfig(push, `configuration.${this.pushMember}`),
    };
  }
}

/** The error body of both dialects: JSON-RPC's number and text. 0.3's details were one object; its clients get none. */
export function toV03Error(error: unknown): { readonly code: number; readonly message: string } {
  const { code, message } = toJsonRpcError(error);
  return { code, message };
}

export function toPushConfig({ id, url, token, authentication }: TaskPushNotificationConfig): Fields {
  const shown =
    authentication && compact<Fields>({ schemes: [authentication.scheme], credentials: authentication.credentials });
  return compact<Fields>({ id, url, token, authentication: shown });
}

/** 1.0 has one scheme; the first of several is taken. */
export function fromPushConfig(value: unknown, place: Place): Fields {
  const { id, url, token, authentication } = readObject(value, place);
  if (authentication === undefined || authentication === null) return { id, url, token };
  const { schemes, credentials } = readObject(authentication, within(place, 'authentication'));
  return { id, url, token, authentication: { scheme: Array.isArray(schemes) ? schemes[0] : undefined, credentials } };
}

/** The readers of 1.0 refuse a value that should have been a list. */
export function fromMany(value: unknown, place: string, from: (value: unknown, place: Place) => Fields): unknown {
  return Array.isArray(value) ? value.map((entry, index) => from(entry, [place, index])) : value;
}
