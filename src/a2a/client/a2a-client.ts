import { backoffMs } from '../../runtime/backoff.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { Connections } from '../../system/fetch/exchange.js';
import { readCard } from '../protocol/card-fields.js';
import {
  DELEGATION_HEADER,
  type DelegationChain,
  extendDelegation,
  withDelegation,
  writeDelegationHeader,
} from '../protocol/delegation.js';
import {
  activateExtensions,
  EXTENSION_URIS,
  EXTENSIONS_HEADER,
  LEGACY_EXTENSIONS_HEADER,
  VERSION_HEADER,
  writeExtensions,
} from '../protocol/headers.js';
import type { Method } from '../protocol/json-rpc.js';
import {
  takeListPushConfigsResponse,
  takeListTasksResponse,
  takePushConfig,
  takeSendMessageResponse,
  takeTask,
} from '../protocol/read-responses.js';
import { compact } from '../protocol/reading.js';
import { settlesSend } from '../protocol/task-rules.js';
import type {
  AgentCard,
  ListPushConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  Metadata,
  SendMessageRequest,
  SendMessageResponse,
  StreamResponse,
  Task,
  TaskPushNotificationConfig,
} from '../protocol/types.js';
import { takeAgentCard } from '../v03/card.js';
import { CallLimits, type CallOptions } from './call-limits.js';
import { baseUrl, CardSource, checkSignatures, type FetchedCard, type SignatureVerdict } from './card-source.js';
import type { A2AClientComponents, A2AClientInit, Bound, Outgoing } from './client-init.js';
import { credentialsFor, credentialsForGrpc, currentCredentials } from './credentials.js';
import { GrpcTransport, speaksGrpc } from './grpc-transport.js';
import { isBroken, mayHaveArrived, RemoteEndpoint, wasNotSent } from './remote-endpoint.js';
import { type FollowerInit, TaskFollower } from './task-follower.js';
import {
  type ChosenInterface,
  chooseInterface,
  HttpTransport,
  isSend,
  JsonRpcTransport,
  SimpleTransport,
  type StreamedEvent,
  type Terms,
  type Transport,
} from './transports.js';

/** For calls that need no work of the agent. */
const QUICK_MS = 30_000;
/** Silence allowed during a blocking send. */
const SEND_MS = 300_000;
const FOLLOW_SILENCE_MS = 3_600_000;
const CANCEL_MS = 5_000;
const ATTEMPTS = 3;
const FIRST_PAUSE_MS = 250;

/** A client of one remote agent, over the best interface that its card offers. */
export class A2AClient {
  readonly chosen: ChosenInterface;
  readonly #runtime: Runtime;
  readonly #init: A2AClientInit;
  readonly #fetched: FetchedCard;
  readonly #connections: Connections;
  readonly #transport: Transport;
  readonly #chain: DelegationChain | undefined;
  readonly #headers: Readonly<Record<string, string>>;
  #verdict: Promise<SignatureVerdict> | undefined;

  private constructor(runtime: Runtime, init: A2AClientInit, fetched: FetchedCard, bound?: Bound) {
    this.#runtime = runtime;
    this.#init = init;
    this.#fetched = fetched;
    this.chosen = bound?.chosen ?? chooseInterface(fetched.card, init);
    this.#chain = init.agent === undefined ? init.chain : extendDelegation(init.chain ?? [], init.agent);
    this.#headers = this.#commonHeaders();
    this.#connections = new Connections();
    this.#transport = bound ? bound.connect(this.#headers) : this.#connect();
  }

  /** Fetches the card and chooses an interface. A missing card is an error of `CardSource.fetch`. */
  static connect(
    { runtime, cards = new CardSource(runtime) }: A2AClientComponents,
    init: A2AClientInit,
    options: CallOptions = {},
  ): Promise<A2AClient> {
    return limited(runtime, options, QUICK_MS, async (limits) => {
      const credentials = await currentCredentials(init.credentials);
      const fetched = await limits.race(cards.fetch(init.url, { ...init, credentials }));
      const offersGrpc = fetched.card.supportedInterfaces.some((one) => one.protocolBinding === 'GRPC');
      const withoutGrpc = init.binding === undefined && offersGrpc && !(await speaksGrpc());
      const client = new A2AClient(runtime, withoutGrpc ? { ...init, withoutGrpc } : init, fetched);
      if (!init.requireSignature) return client;
      const verdict = await limits.race(client.verdict());
      if (verdict.verified) return client;
      const why = verdict.signed ? verdict.reasons.join('; ') : 'it has no signature';
      throw new EclipticError('CARD_REFUSED', `the card of ${fetched.card.name} is not verified: ${why}`);
    });
  }

  /** For an agent without a card: the simple routes at its base URL. */
  static simple(runtime: Runtime, init: A2AClientInit): A2AClient {
    const card = readCard({ name: 'unknown', version: '0' });
    return new A2AClient(runtime, { ...init, binding: 'simple' }, { url: init.url, card, document: {} });
  }

  /** @internal Over a binding of another room, with a card that came over it. */
  static over(runtime: Runtime, init: Omit<A2AClientInit, 'url'>, card: AgentCard, bound: Bound): A2AClient {
    const { url } = bound.chosen;
    return new A2AClient(runtime, { ...init, url }, { url, card, document: { ...card } }, bound);
  }

  get card(): AgentCard {
    return this.#fetched.card;
  }

  verdict(): Promise<SignatureVerdict> {
    this.#verdict ??= checkSignatures(this.#runtime, this.#fetched, this.#init, this.#init.keys);
    return this.#verdict;
  }

  close(): void {
    this.#connections.close();
    this.#transport.close?.();
  }

  /**
   * Sends a message and waits until the task has ended or waits for its caller, or, with `returnImmediately`, until
   * there is an answer. A timeout or abort cancels the task if it can be found; `stream` knows its task from the first
   * event.
   */
  async send(outgoing: Outgoing, options: CallOptions = {}): Promise<SendMessageResponse> {
    const request = this.#sendRequest(outgoing);
    const wait = request.configuration?.returnImmediately !== true;
    const limits = new CallLimits(this.#runtime, options, wait ? { silenceMs: SEND_MS } : QUICK_MS);
    const follower = this.#follower(limits, 'new');
    const stop = this.#cancelOnEnd(limits, follower, request);
    try {
      const sent = takeSendMessageResponse(await this.#call('SendMessage', request, limits, wait));
      if (!wait || 'message' in sent || settlesSend(sent.task.status.state)) return sent;
      // Some agents, and all simple ones, answer at once even to a blocking send.
      for await (const _ of follower.follow(one(sent)));
      return { task: follower.view.task! };
    } catch (error) {
      if (limits.reason) await stop();
      throw error;
    } finally {
      limits.release();
    }
  }

  /**
   * Sends a message and yields the events of its task until that ends or waits for its caller. A reader that stops
   * leaves the task running; a timeout or abort cancels it.
   */
  async *stream(outgoing: Outgoing, options: CallOptions = {}): AsyncGenerator<StreamResponse> {
    const request = this.#sendRequest(outgoing);
    const limits = new CallLimits(this.#runtime, options, { silenceMs: FOLLOW_SILENCE_MS });
    const follower = this.#follower(limits, outgoing.taskId === undefined ? 'new' : 'answering');
    const stop = this.#cancelOnEnd(limits, follower, request);
    try {
      yield* follower.follow(this.#streams ? this.#sendStreaming(request, limits) : this.#sendAtOnce(request, limits));
    } catch (error) {
      if (limits.reason) await stop();
      throw error;
    } finally {
      limits.release();
    }
  }

  /** The task as it is and then its events, or the events after a known event id. */
  async *subscribe(id: string, options: CallOptions & { after?: string } = {}): AsyncGenerator<StreamResponse> {
    const limits = new CallLimits(this.#runtime, options, { silenceMs: FOLLOW_SILENCE_MS });
    try {
      yield* this.#follower(limits, 'observer').followId(id, options.after);
    } finally {
      limits.release();
    }
  }

  async getTask(id: string, options: CallOptions & { historyLength?: number } = {}): Promise<Task> {
    return takeTask(await this.#quick('GetTask', { id, historyLength: options.historyLength }, options));
  }

  async listTasks(
    filter: Omit<ListTasksRequest, 'tenant'> = {},
    options: CallOptions = {},
  ): Promise<ListTasksResponse> {
    return takeListTasksResponse(await this.#quick('ListTasks', filter, options));
  }

  async cancelTask(id: string, options: CallOptions & { metadata?: Metadata } = {}): Promise<Task> {
    return takeTask(await this.#quick('CancelTask', { id, metadata: options.metadata }, options));
  }

  async createPushConfig(
    config: Omit<TaskPushNotificationConfig, 'tenant'> & { taskId: string },
    options: CallOptions = {},
  ): Promise<TaskPushNotificationConfig> {
    return takePushConfig(await this.#quick('CreateTaskPushNotificationConfig', config, options));
  }

  async getPushConfig(taskId: string, id: string, options: CallOptions = {}): Promise<TaskPushNotificationConfig> {
    return takePushConfig(await this.#quick('GetTaskPushNotificationConfig', { taskId, id }, options));
  }

  async listPushConfigs(
    taskId: string,
    options: CallOptions & { pageSize?: number; pageToken?: string } = {},
  ): Promise<ListPushConfigsResponse> {
    const params = { taskId, pageSize: options.pageSize, pageToken: options.pageToken };
    return takeListPushConfigsResponse(await this.#quick('ListTaskPushNotificationConfigs', params, options));
  }

  async deletePushConfig(taskId: string, id: string, options: CallOptions = {}): Promise<void> {
    await this.#quick('DeleteTaskPushNotificationConfig', { taskId, id }, options);
  }

  async extendedCard(options: CallOptions = {}): Promise<AgentCard> {
    return takeAgentCard(await this.#quick('GetExtendedAgentCard', {}, options));
  }

  get #streams(): boolean {
    return this.chosen.binding !== 'simple' && this.card.capabilities.streaming === true;
  }

  #declares(uri: string): boolean {
    return this.card.capabilities.extensions?.some((extension) => extension.uri === uri) ?? false;
  }

  #connect(): Transport {
    const { chosen } = this;
    const { credentials, allowPrivate, ca, resolve } = this.#init;
    const url = chosen.binding === 'simple' ? baseUrl(this.#init.url) : chosen.url;
    const credentialsAt = chosen.binding === 'GRPC' ? credentialsForGrpc : credentialsFor;
    const headers = async () => ({
      ...credentialsAt(url, this.#fetched.url, await currentCredentials(credentials)),
      ...this.#headers,
    });
    const connections = this.#connections;
    if (chosen.binding === 'GRPC') {
      const { certificate } = this.#init;
      const { tenant } = chosen;
      return new GrpcTransport(this.#runtime, { url, tenant, headers, allowPrivate, ca, resolve, certificate });
    }
    const endpoint = new RemoteEndpoint(this.#runtime, { url, headers, connections, allowPrivate, ca, resolve });
    if (chosen.binding === 'simple') return new SimpleTransport(endpoint);
    const { version, tenant } = chosen;
    if (chosen.binding === 'JSONRPC') return new JsonRpcTransport(this.#runtime, endpoint, version, tenant);
    return new HttpTransport(endpoint, version, tenant);
  }

  /** Throws for an extension that the agent requires and this client does not support. */
  #commonHeaders(): Readonly<Record<string, string>> {
    const { chosen } = this;
    const chain = this.#chain ?? [];
    const delegation: Record<string, string> =
      chain.length > 0 ? { [DELEGATION_HEADER]: writeDelegationHeader(chain) } : {};
    if (chosen.binding === 'simple') return delegation;
    const kept = [...Object.values(EXTENSION_URIS), ...(this.#init.extensions ?? [])];
    const active = activateExtensions(kept, this.card.capabilities.extensions);
    const header = chosen.version === '0.3' ? LEGACY_EXTENSIONS_HEADER : EXTENSIONS_HEADER;
    return {
      [VERSION_HEADER]: chosen.version,
      ...(active.length > 0 && { [header]: writeExtensions(active) }),
      ...delegation,
    };
  }

  #sendRequest(outgoing: Outgoing): SendMessageRequest {
    const { message, taskId, contextId, skill, configuration, metadata, messageId = this.#runtime.id() } = outgoing;
    const said =
      typeof message === 'string' ? { parts: [{ text: message }] } : 'parts' in message ? message : { parts: message };
    const asked = skill === undefined ? metadata : { ...metadata, skill };
    const about = this.#chain?.length ? withDelegation(asked, this.#chain) : asked;
    return compact<SendMessageRequest>({
      message: { ...said, ...compact<Partial<Message>>({ taskId, contextId }), messageId, role: 'ROLE_USER' },
      configuration,
      metadata: about,
    });
  }

  #follower(limits: CallLimits, role: FollowerInit['role']): TaskFollower {
    return new TaskFollower({
      transport: this.#transport,
      terms: { limits },
      streams: this.#streams,
      resumes: this.#declares(EXTENSION_URIS.resume),
      role,
      pollsUntilTimeout: this.chosen.binding === 'simple',
    });
  }

  /** A stream that breaks before its first event is repeated only if the agent recognizes the repetition. */
  async *#sendStreaming(request: SendMessageRequest, limits: CallLimits): AsyncGenerator<StreamedEvent> {
    const headers = this.#sendHeaders(request);
    let sent = false;
    for (let attempt = 1; ; attempt++) {
      let begun = false;
      try {
        for await (const event of this.#transport.stream('SendStreamingMessage', request, { limits, headers })) {
          begun = true;
          yield event;
        }
        return;
      } catch (error) {
        sent ||= begun || !wasNotSent(error);
        if (begun || attempt === ATTEMPTS || !this.#mayRepeat('SendStreamingMessage', error)) {
          throw sent ? mayHaveArrived(error) : error;
        }
        await limits.pause(backoffMs(attempt - 1, FIRST_PAUSE_MS));
      }
    }
  }

  async *#sendAtOnce(request: SendMessageRequest, limits: CallLimits): AsyncGenerator<StreamedEvent> {
    yield* one(takeSendMessageResponse(await this.#call('SendMessage', immediately(request), limits, false)));
  }

  #sendHeaders({ message }: SendMessageRequest): Readonly<Record<string, string>> | undefined {
    return this.#declares(EXTENSION_URIS.idempotency) ? { 'idempotency-key': message.messageId } : undefined;
  }

  async #quick(method: Method, params: object, options: CallOptions): Promise<unknown> {
    return limited(this.#runtime, options, QUICK_MS, (limits) => this.#call(method, params, limits, false));
  }

  async #call(method: Method, params: object, limits: CallLimits, slow: boolean): Promise<unknown> {
    if (!this.#transport.offers(method)) {
      throw new EclipticError('OPERATION_NOT_SUPPORTED', `${this.card.name} cannot be asked for ${method}`, { method });
    }
    const headers = isSend(method) ? this.#sendHeaders(params as SendMessageRequest) : undefined;
    const terms: Terms = { limits, slow, headers };
    let sent = false;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#transport.call(method, params, terms);
      } catch (error) {
        if (limits.reason) throw limits.reason;
        sent ||= !wasNotSent(error);
        if (attempt === ATTEMPTS || !this.#mayRepeat(method, error)) throw sent ? mayHaveArrived(error) : error;
        await limits.pause(backoffMs(attempt - 1, FIRST_PAUSE_MS));
      }
    }
  }

  /** A request that may have arrived is repeated only if it creates nothing, or the agent recognizes the repetition. */
  #mayRepeat(method: Method, error: unknown): boolean {
    if (!isBroken(error)) return false;
    if (wasNotSent(error)) return true;
    if (method === 'CreateTaskPushNotificationConfig') return false;
    return !isSend(method) || this.#declares(EXTENSION_URIS.idempotency);
  }

  /** Cancels the task when the limits end the call. The call fails after that is done. */
  #cancelOnEnd(limits: CallLimits, follower: TaskFollower, request: SendMessageRequest): () => Promise<void> {
    let canceled: Promise<void> | undefined;
    const cancel = () => {
      if (follower.over) return Promise.resolve();
      canceled ??= follower.taskId === undefined ? this.#cancelSent(request) : this.#cancelTask(follower.taskId);
      return canceled;
    };
    limits.signal.addEventListener('abort', cancel);
    return cancel;
  }

  /**
   * The task of a message without an answer: an agent with the idempotency extension names it when the message is
   * repeated.
   */
  async #cancelSent(request: SendMessageRequest): Promise<void> {
    const { message } = request;
    if (message.taskId !== undefined) return this.#cancelTask(message.taskId);
    if (!this.#declares(EXTENSION_URIS.idempotency)) return;
    await this.#briefly(async (limits) => {
      const sent = takeSendMessageResponse(await this.#call('SendMessage', immediately(request), limits, false));
      if ('task' in sent) await this.#call('CancelTask', { id: sent.task.id }, limits, false);
    });
  }

  async #cancelTask(id: string): Promise<void> {
    if (!this.#transport.offers('CancelTask')) return;
    await this.#briefly((limits) => this.#call('CancelTask', { id }, limits, false));
  }

  /** Failures are only logged: the caller has given up already. */
  async #briefly(work: (limits: CallLimits) => Promise<unknown>): Promise<void> {
    try {
      await limited(this.#runtime, {}, CANCEL_MS, work);
    } catch (err) {
      this.#runtime.logger.debug({ err, agent: this.card.name }, 'remote task not canceled');
    }
  }
}

async function limited<T>(
  runtime: Runtime,
  options: CallOptions,
  ms: number,
  work: (limits: CallLimits) => Promise<T>,
): Promise<T> {
  const limits = new CallLimits(runtime, options, ms);
  try {
    return await work(limits);
  } finally {
    limits.release();
  }
}

function immediately(request: SendMessageRequest): SendMessageRequest {
  return { ...request, configuration: { ...request.configuration, returnImmediately: true } };
}

async function* one(event: SendMessageResponse): AsyncGenerator<StreamedEvent> {
  yield { event, id: '' };
}
