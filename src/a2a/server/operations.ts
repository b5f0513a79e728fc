import type { Party } from '../../mesh/policy.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { DelegationChain } from '../protocol/delegation.js';
import { activateExtensions } from '../protocol/headers.js';
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
import { withJsonNames, writeTimestamp } from '../protocol/reading.js';
import { projectTask, readTaskSend } from '../protocol/simple.js';
import { viewTask } from '../protocol/task-list.js';
import { sendFacts, taskNotFound } from '../protocol/task-rules.js';
import type { AgentCard, SendMessageRequest, Task, TaskPushNotificationConfig } from '../protocol/types.js';
import type { EventStream } from './event-stream.js';
import {
  type A2AOffer,
  type Offers,
  requireExtendedCard,
  requireInputModes,
  requireOutputModes,
  requirePush,
  requireStreaming,
} from './offer.js';
import type { PushSender } from './push-sender.js';
import type { TaskRecord, TaskRecords } from './task-records.js';
import type { AgentRequest, TaskService } from './task-service.js';
import type { SendResult } from './task-terms.js';

/** The caller, and the headers of a request. */
export interface RequestTerms {
  readonly principal: Party;
  /** Calls back if the caller disconnects. Returns a function that ends the subscription. */
  readonly onGone: (callback: () => void) => () => void;
  readonly key?: string | undefined;
  /** The extensions that the caller names; undefined where another node has checked them. */
  readonly extensions?: readonly string[] | undefined;
  readonly chain?: DelegationChain;
  /** The agent that another node has chosen for the task. */
  readonly agent?: string | undefined;
  /** The number of the last event that a resumed stream of that task has seen. */
  readonly after?: (taskId: string) => number | undefined;
  /** Adds a header to the response. */
  readonly announce?: ((name: string, value: string) => void) | undefined;
}

/** An operation of A2A, or of the simple interface. */
export type Operation = Method | 'GetSimpleTask' | 'SendSimpleTask';

export type Outcome = { readonly result: unknown } | { readonly stream: EventStream };

/** The owner's other nodes, which keep tasks too. */
export interface OtherNodes {
  /** Undefined for an operation that this node performs alone. */
  perform(operation: Operation, params: unknown, terms: RequestTerms): Promise<Outcome> | undefined;
}

/** The agent that a request names. */
export function tenantIn(params: unknown): string | undefined {
  const { tenant } = (params ?? {}) as { tenant?: unknown };
  return typeof tenant === 'string' && tenant !== '' ? tenant : undefined;
}

export interface OperationsComponents {
  runtime: Runtime;
  tasks: TaskService;
  records: TaskRecords;
  pushes: PushSender;
  extendedCard: (agent: string | undefined, viewer: Party) => AgentCard;
  offers: Offers;
  chooseAgent: (wanted: AgentRequest) => string;
  otherNodes?: OtherNodes | undefined;
}

const MAX_PUSH_CONFIGS = 32;
const STREAMING: ReadonlySet<Operation> = new Set(['SendStreamingMessage', 'SubscribeToTask']);
const PUSH: ReadonlySet<Operation> = new Set([
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

  /** Performs an operation here, or at the node that keeps the task. Throws or rejects with a refusal. */
  perform(operation: Operation, asked: unknown, terms: RequestTerms): Outcome | Promise<Outcome> {
    const { otherNodes } = this.#components;
    const params = withJsonNames(asked);
    this.#requireCapability(operation, params, terms);
    return otherNodes?.perform(operation, params, terms) ?? this.#performHere(operation, params, terms);
  }

  /** Performs an operation at this node, whatever node the task id names. */
  async performHere(operation: Operation, asked: unknown, terms: RequestTerms): Promise<Outcome> {
    const params = withJsonNames(asked);
    this.#requireCapability(operation, params, terms);
    return this.#performHere(operation, params, terms);
  }

  #requireCapability(operation: Operation, params: unknown, { agent }: RequestTerms): void {
    const isStream = STREAMING.has(operation);
    if (!isStream && !PUSH.has(operation)) return;
    const offer = this.#components.offers.of(agent ?? tenantIn(params));
    if (isStream) requireStreaming(offer);
    else requirePush(offer);
  }

  /** Throws if this node does not offer what a send asks for. */
  requireOffered(operation: Operation, params: unknown): void {
    if (operation === 'SendSimpleTask') readTaskSend(params);
    else {
      const request = readSendMessageRequest(params);
      this.#requireOffered(request, this.#components.offers.of(request.tenant));
    }
  }

  #requireOffered({ message, configuration }: SendMessageRequest, offer: A2AOffer): void {
    requireInputModes(message.parts, offer.inputModes);
    requireOutputModes(configuration?.acceptedOutputModes, offer.outputModes);
    if (configuration?.taskPushNotificationConfig) requirePush(offer);
  }

  /** An answer that is there at once is returned without a promise: each costs a blocking send about a microsecond. */
  #performHere(operation: Operation, params: unknown, terms: RequestTerms): Outcome | Promise<Outcome> {
    if (operation === 'SendMessage') return this.#send(readSendMessageRequest(params), terms);
    return this.#performLater(operation, params, terms);
  }

  async #performLater(
    operation: Exclude<Operation, 'SendMessage'>,
    params: unknown,
    terms: RequestTerms,
  ): Promise<Outcome> {
    const { tasks } = this.#components;
    const { address: owner } = terms.principal;
    switch (operation) {
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
        requireStreaming(await this.#offerOfTask(owner, id));
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
        const { model } = await tasks.get(owner, taskId);
        await this.#components.pushes.remove(model.task.id, id);
        return { result: {} };
      }
      case 'GetExtendedAgentCard': {
        const { tenant } = readGetExtendedAgentCardRequest(params);
        const { extendedCard, offers } = this.#components;
        return { result: requireExtendedCard(offers.of(tenant), extendedCard(tenant, terms.principal)) };
      }
      case 'GetSimpleTask':
        return { result: simple(await tasks.get(owner, readGetTaskRequest(params).id)) };
      case 'SendSimpleTask':
        return { result: await this.#sendSimple(params, terms) };
    }
  }

  async #sendSimple(params: unknown, asked: RequestTerms): Promise<object> {
    const { runtime, tasks } = this.#components;
    const { principal, key, chain, agent } = asked;
    const { message: text, skill, timeoutMs } = readTaskSend(params);
    requireExtensions(this.#offerOfAgent({ agent, skill }), asked);
    const request = {
      message: { messageId: runtime.id(), role: 'ROLE_USER' as const, parts: [{ text }] },
      configuration: { returnImmediately: true },
      ...(skill !== undefined && { metadata: { skill } }),
    };
    const terms = { key, timeoutMs, agent, sandbox: principal.sandboxId, ...(chain && { chain }) };
    const sent = await tasks.send(principal.address, request, terms);
    if ('message' in sent) throw new EclipticError('HANDLER_FAILED', 'the agent answered without a task');
    return simple(sent.stored.record);
  }

  #send(request: SendMessageRequest, terms: RequestTerms): Outcome | Promise<Outcome> {
    const sent = this.#give(request, terms);
    return sent instanceof Promise
      ? sent.then((sent) => this.#sent(request, terms, sent))
      : this.#sent(request, terms, sent);
  }

  #sent({ configuration }: SendMessageRequest, terms: RequestTerms, sent: SendResult): Outcome | Promise<Outcome> {
    if ('message' in sent) return { result: sent };
    const shown = (task: Task) => ({ result: { task: viewTask(task, configuration ?? {}) } });
    if (configuration?.returnImmediately) return shown(sent.stored.task);
    const settled = sent.stored.settled(terms.onGone);
    return settled instanceof Promise ? settled.then(shown) : shown(settled);
  }

  async #sendStreaming(request: SendMessageRequest, terms: RequestTerms): Promise<EventStream> {
    const sent = await this.#give(request, terms, true);
    if ('message' in sent) return { events: only({ event: sent }) };
    return { taskId: sent.stored.id, events: await this.#components.tasks.follow(sent) };
  }

  #give(request: SendMessageRequest, terms: RequestTerms, streams = false): SendResult | Promise<SendResult> {
    const { offers } = this.#components;
    if (offers.isUniform) return this.#giveTo(offers.node, request, terms);
    const give = (offer: A2AOffer) => {
      if (streams) requireStreaming(offer);
      requireExtensions(offer, terms);
      return this.#giveTo(offer, request, terms);
    };
    const { message, tenant } = request;
    if (message.taskId !== undefined) return this.#offerOfTask(terms.principal.address, message.taskId).then(give);
    const { skill } = sendFacts(request, tenant);
    return give(this.#offerOfAgent({ agent: terms.agent ?? tenant, skill, caller: terms.principal.address }));
  }

  /** The offer of the agent that a task would go to. */
  #offerOfAgent(wanted: AgentRequest): A2AOffer {
    const { offers, chooseAgent } = this.#components;
    return offers.isUniform ? offers.node : offers.of(chooseAgent(wanted));
  }

  async #offerOfTask(owner: string, id: string): Promise<A2AOffer> {
    const { offers, tasks } = this.#components;
    return offers.isUniform ? offers.node : offers.of((await tasks.get(owner, id)).agent);
  }

  #giveTo(offer: A2AOffer, request: SendMessageRequest, terms: RequestTerms): SendResult | Promise<SendResult> {
    const { principal, key, chain } = terms;
    this.#requireOffered(request, offer);
    const push = request.configuration?.taskPushNotificationConfig;
    if (push) return this.#giveWithPush(request, terms, push);
    const { address, sandboxId: sandbox } = principal;
    const agent = terms.agent ?? request.tenant;
    return this.#components.tasks.send(address, request, { agent, key, sandbox, ...(chain && { chain }) });
  }

  async #giveWithPush(
    request: SendMessageRequest,
    { principal, key, chain, agent = request.tenant }: RequestTerms,
    push: TaskPushNotificationConfig,
  ): Promise<SendResult> {
    const { tasks, pushes } = this.#components;
    // Checked before the task begins; a webhook that passes receives every event.
    await pushes.check(push.url);
    const prepare = (taskId: string) => this.#addPush({ ...push, taskId }).then(() => {});
    const { address, sandboxId: sandbox } = principal;
    const sent = await tasks.send(address, request, { agent, key, sandbox, prepare, ...(chain && { chain }) });
    const { taskId } = request.message;
    if (taskId !== undefined) await this.#createPush(address, { ...push, taskId });
    return sent;
  }

  async #createPush(
    owner: string,
    config: TaskPushNotificationConfig & { taskId: string },
  ): Promise<TaskPushNotificationConfig> {
    const { model, agent } = await this.#components.tasks.get(owner, config.taskId);
    requirePush(this.#components.offers.of(agent));
    const { id: taskId } = model.task;
    const others = (await this.#pushes(owner, taskId)).filter(({ id }) => id !== config.id);
    if (others.length >= MAX_PUSH_CONFIGS) {
      throw new EclipticError('QUEUE_FULL', `a task has at most ${MAX_PUSH_CONFIGS} push configurations`);
    }
    await this.#components.pushes.check(config.url);
    return this.#addPush({ ...config, taskId });
  }

  async #addPush(config: TaskPushNotificationConfig & { taskId: string }): Promise<TaskPushNotificationConfig> {
    const { runtime, pushes } = this.#components;
    const made = { ...config, id: config.id ?? runtime.id() };
    await pushes.add(config.taskId, made);
    return made;
  }

  async #pushes(owner: string, taskId: string): Promise<(TaskPushNotificationConfig & { id: string })[]> {
    const { model } = await this.#components.tasks.get(owner, taskId);
    return (await this.#components.records.pushes(model.task.id)).map(({ config }) => config);
  }
}

function requireExtensions({ capabilities }: A2AOffer, { extensions }: RequestTerms): void {
  if (extensions) activateExtensions(extensions, capabilities.extensions);
}

export function simple({ model, sessionId, createdAt }: TaskRecord): ReturnType<typeof projectTask> {
  return projectTask(model.task, { sessionId, createdAt: writeTimestamp(createdAt) });
}

async function* only<T>(value: T): AsyncGenerator<T> {
  yield value;
}
