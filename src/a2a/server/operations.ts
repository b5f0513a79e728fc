import type { Party } from '../../mesh/policy.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { DelegationChain } from '../protocol/delegation.js';
import type { Method } from '../protocol/json-rpc.js';
import {
  readCancelTaskRequest,
  readCreatePushConfigRequest,
  readGetExtendedAgentCardRequest,
  readGetTaskRequest,
  readListPushConfigsRequest,
  readListTasksRequest,
  readPushConfigRequest,
  readSendMessageRequest,
  readSubscribeToTaskRequest,
} from '../protocol/read-requests.js';
import { withJsonNames } from '../protocol/reading.js';
import { viewTask } from '../protocol/task-list.js';
import { taskNotFound } from '../protocol/task-rules.js';
import type { AgentCard, SendMessageRequest, TaskPushNotificationConfig } from '../protocol/types.js';
import type { EventStream } from './event-stream.js';
import { type A2AOffer, requireInputModes, requireOutputModes, requirePush, requireStreaming } from './offer.js';
import type { PushSender } from './push-sender.js';
import type { SendResult } from './task-execution.js';
import type { TaskRecords } from './task-records.js';
import type { TaskService } from './task-service.js';

/** The caller, and the headers of a request. */
export interface RequestTerms {
  readonly principal: Party;
  /** Calls back if the caller disconnects. Returns a function that ends the subscription. */
  readonly onGone: (callback: () => void) => () => void;
  readonly key?: string;
  readonly chain?: DelegationChain;
  /** The number of the last event that a resumed stream of that task has seen. */
  readonly after?: (taskId: string) => number | undefined;
}

export type Outcome = { readonly result: unknown } | { readonly stream: EventStream };

export interface OperationsComponents {
  runtime: Runtime;
  tasks: TaskService;
  records: TaskRecords;
  pushes: PushSender;
  extendedCard: (agent: string | undefined, viewer: Party) => AgentCard;
  offer: A2AOffer;
}

const MAX_PUSH_CONFIGS = 32;
const STREAMING: ReadonlySet<Method> = new Set(['SendStreamingMessage', 'SubscribeToTask']);
const PUSH: ReadonlySet<Method> = new Set([
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
]);

/** The operations of A2A 1.0, independent of any binding: parameters in, result or stream out. */
export class Operations {
  readonly #components: OperationsComponents;

  constructor(components: OperationsComponents) {
    this.#components = components;
  }

  async perform(method: Method, asked: unknown, terms: RequestTerms): Promise<Outcome> {
    const { tasks, offer } = this.#components;
    if (STREAMING.has(method)) requireStreaming(offer);
    if (PUSH.has(method)) requirePush(offer);
    const params = withJsonNames(asked);
    const { address: owner } = terms.principal;
    switch (method) {
      case 'SendMessage':
        return { result: await this.#send(readSendMessageRequest(params), terms) };
      case 'SendStreamingMessage':
        return { stream: await this.#sendStreaming(readSendMessageRequest(params), terms) };
      case 'GetTask': {
        const { id, historyLength } = readGetTaskRequest(params);
        const { model } = await tasks.get(owner, id);
        return { result: viewTask(model.task, { ...(historyLength !== undefined && { historyLength }) }) };
      }
      case 'ListTasks':
        return { result: await tasks.list(owner, readListTasksRequest(params)) };
      case 'CancelTask':
        return { result: await tasks.cancel(owner, readCancelTaskRequest(params).id) };
      case 'SubscribeToTask': {
        const { id } = readSubscribeToTaskRequest(params);
        return { stream: { taskId: id, events: await tasks.subscribe(owner, id, terms.after?.(id)) } };
      }
      case 'CreateTaskPushNotificationConfig':
        return { result: await this.#createPush(owner, readCreatePushConfigRequest(params)) };
      case 'GetTaskPushNotificationConfig': {
        const { taskId, id } = readPushConfigRequest(params);
        const found = (await this.#pushes(owner, taskId)).find((config) => config.id === id);
        if (!found) throw taskNotFound(`${taskId}/pushNotificationConfigs/${id}`);
        return { result: found };
      }
      case 'ListTaskPushNotificationConfigs': {
        const { taskId } = readListPushConfigsRequest(params);
        return { result: { configs: await this.#pushes(owner, taskId) } };
      }
      case 'DeleteTaskPushNotificationConfig': {
        const { taskId, id } = readPushConfigRequest(params);
        await tasks.get(owner, taskId);
        await this.#components.pushes.remove(taskId, id);
        return { result: {} };
      }
      case 'GetExtendedAgentCard': {
        const { tenant } = readGetExtendedAgentCardRequest(params);
        return { result: this.#components.extendedCard(tenant, terms.principal) };
      }
    }
  }

  async #send(request: SendMessageRequest, terms: RequestTerms): Promise<object> {
    const sent = await this.#give(request, terms);
    if ('message' in sent) return sent;
    const { returnImmediately, historyLength } = request.configuration ?? {};
    const task = returnImmediately ? sent.stored.task : await sent.stored.settled(terms.onGone);
    return { task: viewTask(task, { ...(historyLength !== undefined && { historyLength }) }) };
  }

  async #sendStreaming(request: SendMessageRequest, terms: RequestTerms): Promise<EventStream> {
    const sent = await this.#give(request, terms);
    if ('message' in sent) return { events: only({ event: sent }) };
    return { taskId: sent.stored.id, events: await this.#components.tasks.follow(sent) };
  }

  async #give(request: SendMessageRequest, terms: RequestTerms): Promise<SendResult> {
    const { tasks, pushes, offer } = this.#components;
    const { principal, key, chain } = terms;
    const { configuration, tenant } = request;
    requireInputModes(request.message.parts, offer.inputModes);
    requireOutputModes(configuration?.acceptedOutputModes, offer.outputModes);
    const push = configuration?.taskPushNotificationConfig;
    if (push) requirePush(offer);
    // Checked before the task begins; a webhook that passes receives every event.
    if (push) await pushes.check(push.url);
    const prepare = push && ((taskId: string) => this.#addPush({ ...push, taskId }).then(() => {}));
    const sent = await tasks.send(principal.address, request, { agent: tenant, key, prepare, ...(chain && { chain }) });
    const { taskId } = request.message;
    if (push && taskId !== undefined) await this.#createPush(principal.address, { ...push, taskId });
    return sent;
  }

  async #createPush(
    owner: string,
    config: TaskPushNotificationConfig & { taskId: string },
  ): Promise<TaskPushNotificationConfig> {
    const others = (await this.#pushes(owner, config.taskId)).filter(({ id }) => id !== config.id);
    if (others.length >= MAX_PUSH_CONFIGS) {
      throw new EclipticError('QUEUE_FULL', `a task has at most ${MAX_PUSH_CONFIGS} push configurations`);
    }
    await this.#components.pushes.check(config.url);
    return this.#addPush(config);
  }

  async #addPush(config: TaskPushNotificationConfig & { taskId: string }): Promise<TaskPushNotificationConfig> {
    const { runtime, pushes } = this.#components;
    const made = { ...config, id: config.id ?? runtime.id() };
    await pushes.add(config.taskId, made);
    return made;
  }

  async #pushes(owner: string, taskId: string): Promise<(TaskPushNotificationConfig & { id: string })[]> {
    await this.#components.tasks.get(owner, taskId);
    return (await this.#components.records.pushes(taskId)).map(({ config }) => config);
  }
}

async function* only<T>(value: T): AsyncGenerator<T> {
  yield value;
}
