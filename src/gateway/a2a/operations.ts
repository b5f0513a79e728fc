import { requireOutputModes } from '../../a2a-protocol/capability-gate.js';
import type { DelegationChain } from '../../a2a-protocol/delegation.js';
import type { Method } from '../../a2a-protocol/methods.js';
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
} from '../../a2a-protocol/read-requests.js';
import { taskNotFound } from '../../a2a-protocol/task-access.js';
import { viewTask } from '../../a2a-protocol/task-list.js';
import type {
  AgentCard,
  SendMessageRequest,
  StreamResponse,
  TaskPushNotificationConfig,
} from '../../a2a-protocol/types.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { PushSender } from './push-sender.js';
import type { Sent, TaskDesk } from './task-desk.js';
import type { TaskRecords } from './task-records.js';

/** Who asks, and what comes with every request. */
export interface RequestTerms {
  readonly owner: string;
  readonly signal: AbortSignal;
  /** An agent that the request names besides its body: by its path. */
  readonly tenant?: string | undefined;
  readonly key?: string | undefined;
  readonly chain?: DelegationChain | undefined;
  /** The number of the last event that a broken stream has seen, given the task that it is of. */
  readonly after?: ((taskId: string) => number | undefined) | undefined;
}

/** One event of a stream; its number and task where it has some, so that a reader can go on from it. */
export interface Streamed {
  readonly event: StreamResponse;
  readonly taskId?: string;
  readonly sequence?: number;
}

export type Outcome = { readonly result: unknown } | { readonly stream: AsyncIterable<Streamed> };

export interface OperationsComponents {
  runtime: Runtime;
  desk: TaskDesk;
  records: TaskRecords;
  pushes: PushSender;
  /** The card for those who have proven who they are. */
  extendedCard: (tenant: string | undefined) => AgentCard;
}

const OUTPUT_MODES = ['text/plain', 'application/json'];
const MAX_PUSH_CONFIGS = 32;

/** The operations of A2A 1.0, apart from any binding: parameters in, result or stream out. */
export class Operations {
  readonly #components: OperationsComponents;

  constructor(components: OperationsComponents) {
    this.#components = components;
  }

  async perform(method: Method, params: unknown, terms: RequestTerms): Promise<Outcome> {
    const { desk } = this.#components;
    const { owner } = terms;
    switch (method) {
      case 'SendMessage':
        return { result: await this.#send(readSendMessageRequest(params), terms) };
      case 'SendStreamingMessage':
        return { stream: await this.#sendStreaming(readSendMessageRequest(params), terms) };
      case 'GetTask': {
        const { id, historyLength } = readGetTaskRequest(params);
        const { model } = await desk.get(owner, id);
        return { result: viewTask(model.task, { ...(historyLength !== undefined && { historyLength }) }) };
      }
      case 'ListTasks':
        return { result: await desk.list(owner, readListTasksRequest(params)) };
      case 'CancelTask':
        return { result: await desk.cancel(owner, readCancelTaskRequest(params).id) };
      case 'SubscribeToTask': {
        const { id } = readSubscribeToTaskRequest(params);
        const subscription = await desk.subscribe(owner, id, terms.after?.(id));
        return { stream: numbered(id, subscription) };
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
        await desk.get(owner, taskId);
        await this.#components.records.removePush(taskId, id);
        return { result: {} };
      }
      case 'GetExtendedAgentCard': {
        const { tenant } = readGetExtendedAgentCardRequest(params);
        return { result: this.#components.extendedCard(terms.tenant ?? tenant) };
      }
    }
  }

  async #send(request: SendMessageRequest, terms: RequestTerms): Promise<object> {
    const sent = await this.#give(request, terms);
    if ('message' in sent) return sent;
    const { returnImmediately, historyLength } = request.configuration ?? {};
    const task = returnImmediately ? sent.live.task : await sent.live.settled(terms.signal);
    return { task: viewTask(task, { ...(historyLength !== undefined && { historyLength }) }) };
  }

  async #sendStreaming(request: SendMessageRequest, terms: RequestTerms): Promise<AsyncIterable<Streamed>> {
    const sent = await this.#give(request, terms);
    if ('message' in sent) return only({ event: sent });
    const { id } = sent.live;
    // A task that has ended by now still has its events.
    return numbered(id, await this.#components.desk.subscribe(terms.owner, id, 0));
  }

  async #give(request: SendMessageRequest, terms: RequestTerms): Promise<Sent> {
    const { desk } = this.#components;
    const { owner, tenant = request.tenant, key, chain } = terms;
    const { configuration } = request;
    requireOutputModes(configuration?.acceptedOutputModes, OUTPUT_MODES);
    const sent = await desk.send(owner, request, { agent: tenant, key, ...(chain && { chain }) });
    const push = configuration?.taskPushNotificationConfig;
    if (push && 'live' in sent) await this.#createPush(owner, { ...push, taskId: sent.live.id });
    return sent;
  }

  async #createPush(
    owner: string,
    config: TaskPushNotificationConfig & { taskId: string },
  ): Promise<TaskPushNotificationConfig> {
    const { runtime, records, pushes } = this.#components;
    const { taskId } = config;
    if ((await this.#pushes(owner, taskId)).length >= MAX_PUSH_CONFIGS) {
      throw new EclipticError('QUEUE_FULL', `a task has at most ${MAX_PUSH_CONFIGS} push configurations`);
    }
    await pushes.check(config.url);
    const made = { ...config, id: config.id ?? runtime.id() };
    await records.savePush(taskId, made);
    return made;
  }

  async #pushes(owner: string, taskId: string): Promise<(TaskPushNotificationConfig & { id: string })[]> {
    await this.#components.desk.get(owner, taskId);
    return this.#components.records.pushes(taskId);
  }
}

async function* numbered(
  taskId: string,
  events: AsyncIterable<{ sequence: number; event: StreamResponse }>,
): AsyncGenerator<Streamed> {
  for await (const { sequence, event } of events) yield { event, taskId, sequence };
}

async function* only(streamed: Streamed): AsyncGenerator<Streamed> {
  yield streamed;
}
