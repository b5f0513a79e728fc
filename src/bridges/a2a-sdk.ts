/** Entry `ecliptic/a2a-sdk`: the client of the official A2A SDK, `@a2a-js/sdk`, over the mesh. */

import type * as Sdk from '@a2a-js/sdk';
import type { RequestOptions, Transport, TransportFactory } from '@a2a-js/sdk/client';
import type * as SdkErrors from '@a2a-js/sdk/errors';
import { CallLimits } from '../a2a/client/call-limits.js';
import { MESH_BINDING, nodeOfUrl } from '../a2a/mesh/mesh-protocol.js';
import type { MeshTransport, MeshTransportInit } from '../a2a/mesh/mesh-transport.js';
import { toJsonRpcError } from '../a2a/protocol/errors.js';
import type { Method } from '../a2a/protocol/json-rpc.js';
import type { AgentCard } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';

/** The part of a node that the transport uses. */
export interface MeshNode {
  a2a(agent: string, options?: { readonly as?: string }): Promise<{ readonly card: AgentCard }>;
  /** @internal */
  a2aTransport(target: MeshTransportInit['target'], as?: string, awayMs?: number): MeshTransport;
  /** @internal */
  readonly runtime: Runtime;
}

export interface MeshTransportOptions {
  /** The agent of the node that asks. Default: the owner. */
  readonly as?: string;
  /** How long a request waits for a node that is away. Default 60 s. */
  readonly awayMs?: number;
}

/** Silence allowed while an agent works. */
const SILENCE_MS = 3_600_000;

interface Packages {
  readonly sdk: typeof Sdk;
  readonly errors: typeof SdkErrors;
}

async function loadSdk(): Promise<Packages> {
  try {
    const [sdk, errors] = await Promise.all([import('@a2a-js/sdk'), import('@a2a-js/sdk/errors')]);
    return { sdk, errors };
  } catch (error) {
    const message = 'the client of the official SDK needs one package more: npm install @a2a-js/sdk';
    throw new EclipticError('PACKAGE_REQUIRED', message, { packages: ['@a2a-js/sdk'] }, error);
  }
}

/**
 * Makes clients of `ClientFactory` speak the mesh binding:
 *
 *     const mesh = new MeshTransportFactory(node, { as: 'sun' });
 *     const factory = new ClientFactory({ transports: [mesh] });
 *     const client = await factory.createFromAgentCard(await mesh.card('mars@desktop'));
 */
export class MeshTransportFactory implements TransportFactory {
  readonly #node: MeshNode;
  readonly #options: MeshTransportOptions;

  constructor(node: MeshNode, options: MeshTransportOptions = {}) {
    this.#node = node;
    this.#options = options;
  }

  get protocolName(): string {
    return MESH_BINDING;
  }

  /** The card of an agent, `mars@desktop`, as its node presents and signs it. */
  async card(agent: string): Promise<Sdk.AgentCard> {
    const { sdk } = await loadSdk();
    const { card } = await this.#node.a2a(agent, this.#options);
    return sdk.AgentCard.fromJSON(card);
  }

  async create(url: string): Promise<Transport> {
    const { as, awayMs } = this.#options;
    const transport = this.#node.a2aTransport({ node: nodeOfUrl(url), agent: undefined }, as, awayMs);
    return new SdkTransport(await loadSdk(), this.#node.runtime, transport);
  }
}

/** A message of the SDK, in JSON and back. */
interface Codec<T> {
  fromJSON(value: unknown): T;
  toJSON(value: T): unknown;
}

class SdkTransport implements Transport {
  readonly #packages: Packages;
  readonly #runtime: Runtime;
  readonly #transport: MeshTransport;

  constructor(packages: Packages, runtime: Runtime, transport: MeshTransport) {
    this.#packages = packages;
    this.#runtime = runtime;
    this.#transport = transport;
  }

  get protocolName(): string {
    return MESH_BINDING;
  }

  get protocolVersion(): string {
    return '1.0';
  }

  async sendMessage(params: Sdk.SendMessageRequest, options?: RequestOptions): Promise<Sdk.Message | Sdk.Task> {
    const { SendMessageRequest, SendMessageResponse } = this.#packages.sdk;
    const { payload } = await this.#call('SendMessage', SendMessageRequest, params, SendMessageResponse, options);
    if (payload) return payload.value;
    throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent answered with neither a task nor a message');
  }

  sendMessageStream(params: Sdk.SendMessageRequest, options?: RequestOptions) {
    return this.#stream('SendStreamingMessage', this.#packages.sdk.SendMessageRequest, params, options);
  }

  resubscribeTask(params: Sdk.SubscribeToTaskRequest, options?: RequestOptions) {
    return this.#stream('SubscribeToTask', this.#packages.sdk.SubscribeToTaskRequest, params, options);
  }

  getTask(params: Sdk.GetTaskRequest, options?: RequestOptions): Promise<Sdk.Task> {
    const { GetTaskRequest, Task } = this.#packages.sdk;
    return this.#call('GetTask', GetTaskRequest, params, Task, options);
  }

  cancelTask(params: Sdk.CancelTaskRequest, options?: RequestOptions): Promise<Sdk.Task> {
    const { CancelTaskRequest, Task } = this.#packages.sdk;
    return this.#call('CancelTask', CancelTaskRequest, params, Task, options);
  }

  listTasks(params: Sdk.ListTasksRequest, options?: RequestOptions): Promise<Sdk.ListTasksResponse> {
    const { ListTasksRequest, ListTasksResponse } = this.#packages.sdk;
    return this.#call('ListTasks', ListTasksRequest, params, ListTasksResponse, options);
  }

  getExtendedAgentCard(params: Sdk.GetExtendedAgentCardRequest, options?: RequestOptions): Promise<Sdk.AgentCard> {
    const { GetExtendedAgentCardRequest, AgentCard } = this.#packages.sdk;
    return this.#call('GetExtendedAgentCard', GetExtendedAgentCardRequest, params, AgentCard, options);
  }

  createTaskPushNotificationConfig(params: Sdk.TaskPushNotificationConfig, options?: RequestOptions) {
    const { TaskPushNotificationConfig } = this.#packages.sdk;
    const method = 'CreateTaskPushNotificationConfig';
    return this.#call(method, TaskPushNotificationConfig, params, TaskPushNotificationConfig, options);
  }

  getTaskPushNotificationConfig(params: Sdk.GetTaskPushNotificationConfigRequest, options?: RequestOptions) {
    const { GetTaskPushNotificationConfigRequest, TaskPushNotificationConfig } = this.#packages.sdk;
    const method = 'GetTaskPushNotificationConfig';
    return this.#call(method, GetTaskPushNotificationConfigRequest, params, TaskPushNotificationConfig, options);
  }

  listTaskPushNotificationConfig(params: Sdk.ListTaskPushNotificationConfigsRequest, options?: RequestOptions) {
    const { ListTaskPushNotificationConfigsRequest: Request, ListTaskPushNotificationConfigsResponse: Response } =
      this.#packages.sdk;
    return this.#call('ListTaskPushNotificationConfigs', Request, params, Response, options);
  }

  async deleteTaskPushNotificationConfig(
    params: Sdk.DeleteTaskPushNotificationConfigRequest,
    options?: RequestOptions,
  ): Promise<void> {
    const { DeleteTaskPushNotificationConfigRequest: Request } = this.#packages.sdk;
    const nothing: Codec<unknown> = { fromJSON: (value) => value, toJSON: (value) => value };
    await this.#call('DeleteTaskPushNotificationConfig', Request, params, nothing, options);
  }

  async #call<Asked, Answer>(
    method: Method,
    request: Codec<Asked>,
    params: Asked,
    response: Codec<Answer>,
    options: RequestOptions = {},
  ): Promise<Answer> {
    const limits = this.#limits(options);
    try {
      const terms = { limits, headers: options.serviceParameters, slow: method === 'SendMessage' };
      return response.fromJSON(await this.#transport.call(method, request.toJSON(params) as object, terms));
    } catch (error) {
      throw this.#asSdkError(error);
    } finally {
      limits.release();
    }
  }

  async *#stream<Asked>(
    method: Method,
    request: Codec<Asked>,
    params: Asked,
    options: RequestOptions = {},
  ): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    const limits = this.#limits(options);
    try {
      const terms = { limits, headers: options.serviceParameters };
      for await (const { event } of this.#transport.stream(method, request.toJSON(params) as object, terms)) {
        limits.heard();
        yield this.#packages.sdk.StreamResponse.fromJSON(event);
      }
    } catch (error) {
      throw this.#asSdkError(error);
    } finally {
      limits.release();
    }
  }

  #limits({ signal }: RequestOptions): CallLimits {
    return new CallLimits(this.#runtime, { ...(signal && { signal }) }, { silenceMs: SILENCE_MS });
  }

  #asSdkError(error: unknown): unknown {
    if (!(error instanceof EclipticError)) return error;
    const { code, message, data } = toJsonRpcError(error);
    const body = { jsonrpc: '2.0' as const, id: null, error: { code, message, data: [...data] } };
    return this.#packages.errors.fromJsonRpcErrorResponse(body as never);
  }
}
