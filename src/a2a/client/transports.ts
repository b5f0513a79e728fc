import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { ExternalServiceError } from '../protocol/errors.js';
import { PROTOCOL_VERSIONS, type ProtocolVersion, wireVersion } from '../protocol/headers.js';
import { type Method, methodName } from '../protocol/json-rpc.js';
import { A2A_LIMITS } from '../protocol/limits.js';
import { answer, takeStreamResponse } from '../protocol/read-responses.js';
import { readId, readList, readObject, readOptionalText, refuse } from '../protocol/reading.js';
import { type A2ATaskSendRequest, type A2ATaskState, SIMPLE_TIMEOUT, textOf } from '../protocol/simple.js';
import type { AgentCard, Message, SendMessageRequest, StreamResponse, Task, TaskState } from '../protocol/types.js';
import { v03JsonRpc } from '../v03/json-rpc.js';
import { v03Rest } from '../v03/rest.js';
import type { CallLimits } from './call-limits.js';
import { type EndpointRequest, type RemoteEndpoint, remoteError } from './remote-endpoint.js';

export interface Terms {
  readonly limits: CallLimits;
  readonly headers?: Readonly<Record<string, string>>;
  /** The answer comes when the agent is done. */
  readonly slow?: boolean;
}

export interface StreamedEvent {
  readonly event: StreamResponse;
  /** The SSE id to resume from; empty if the agent gives none. */
  readonly id: string;
}

/** A protocol binding. Parameters and results have the shape of 1.0, in whatever version the agent speaks. */
export interface Transport {
  /** The binding has this operation. */
  offers(method: Method): boolean;
  /** The unchecked result. */
  call(method: Method, params: object, terms: Terms): Promise<unknown>;
  stream(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent>;
  close?(): void;
}

/** A repetition could make the agent do the work twice. */
export function isSend(method: Method): boolean {
  return method === 'SendMessage' || method === 'SendStreamingMessage';
}

export type ClientBinding = 'JSONRPC' | 'HTTP+JSON' | 'GRPC' | 'simple';

export type ChosenInterface =
  | {
      /** One of the above, or the URI of a binding whose transport the caller brings. */
      readonly binding: Exclude<ClientBinding, 'simple'> | `urn:${string}`;
      readonly version: ProtocolVersion;
      readonly url: string;
      readonly tenant: string | undefined;
    }
  | { readonly binding: 'simple' };

export interface InterfacePreference {
  /** Use this binding or fail. */
  readonly binding?: ClientBinding;
  readonly version?: ProtocolVersion;
  /** The packages for gRPC are not there: another interface is taken if the card has one. Default false. */
  readonly withoutGrpc?: boolean;
}

/**
 * The best interface of a card: the newest version, then the card's order. An agent that declares no version of the
 * protocol has the simple routes.
 */
export function chooseInterface(
  card: AgentCard,
  { binding, version, withoutGrpc }: InterfacePreference = {},
): ChosenInterface {
  const offered = card.supportedInterfaces.flatMap((one) => {
    const spoken = PROTOCOL_VERSIONS.find((known) => known === wireVersion(one.protocolVersion));
    const { protocolBinding, url, tenant } = one;
    if (spoken === undefined || !isSpoken(protocolBinding)) return [];
    // gRPC is spoken in version 1.0 only.
    if (protocolBinding === 'GRPC' && spoken !== '1.0') return [];
    return [{ binding: protocolBinding, version: spoken, url, tenant }];
  });
  const wanted = offered.filter(
    (one) => (binding === undefined || one.binding === binding) && (version === undefined || one.version === version),
  );
  // 0.3's HTTP binding was never fully specified; its JSON-RPC works everywhere.
  const order = (one: (typeof offered)[number]) => (one.version === '1.0' ? 0 : one.binding === 'JSONRPC' ? 1 : 2);
  const sorted = wanted.toSorted((a, b) => order(a) - order(b));
  const best = (withoutGrpc && sorted.find((one) => one.binding !== 'GRPC')) || sorted[0];
  if (best) return best;
  if (binding === 'simple' || (card.supportedInterfaces.length === 0 && binding === undefined)) {
    return { binding: 'simple' };
  }
  throw new EclipticError('VERSION_NOT_SUPPORTED', `${card.name} offers no interface that this client supports`, {
    offered: card.supportedInterfaces.map((one) => `${one.protocolBinding} ${one.protocolVersion}`),
    supported: PROTOCOL_VERSIONS,
  });
}

function isSpoken(binding: string): binding is 'JSONRPC' | 'HTTP+JSON' | 'GRPC' {
  return binding === 'JSONRPC' || binding === 'HTTP+JSON' || binding === 'GRPC';
}

export class JsonRpcTransport implements Transport {
  readonly #runtime: Runtime;
  readonly #endpoint: RemoteEndpoint;
  readonly #version: ProtocolVersion;
  readonly #tenant: string | undefined;

  constructor(runtime: Runtime, endpoint: RemoteEndpoint, version: ProtocolVersion, tenant: string | undefined) {
    this.#runtime = runtime;
    this.#endpoint = endpoint;
    this.#version = version;
    this.#tenant = tenant;
  }

  offers(method: Method): boolean {
    return methodName(method, this.#version) !== undefined;
  }

  async call(method: Method, params: object, terms: Terms): Promise<unknown> {
    const { id, request } = this.#request(method, params, terms);
    return this.#result(method, id, await this.#endpoint.ask(request, terms.limits));
  }

  async *stream(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent> {
    const { id, request } = this.#request(method, params, terms);
    for await (const { data, id: eventId } of this.#endpoint.stream(request, terms.limits)) {
      yield { event: takeStreamResponse(this.#result(method, id, data)), id: eventId };
    }
  }

  #request(method: Method, params: object, terms: Terms): { id: string; request: EndpointRequest } {
    const name = methodName(method, this.#version);
    if (name === undefined) {
      throw new EclipticError('OPERATION_NOT_SUPPORTED', `A2A ${this.#version} has no ${method} over JSON-RPC`);
    }
    const id = this.#runtime.id();
    const full = this.#tenant === undefined ? params : { ...params, tenant: this.#tenant };
    const body = {
      jsonrpc: '2.0',
      id,
      method: name,
      params: this.#version === '0.3' ? v03JsonRpc.toParams(method, full) : full,
    };
    const headers = { 'content-type': 'application/json', ...terms.headers };
    const request = { verb: 'POST', headers, body: JSON.stringify(body), slow: terms.slow, fresh: isSend(method) };
    return { id, request };
  }

  #result(method: Method, id: string, value: unknown): unknown {
    const { origin } = this.#endpoint;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformed(origin, 'no object');
    const { id: answered, error, result } = value as Record<string, unknown>;
    if (error !== undefined && error !== null) throw remoteError(error, { origin });
    if (answered !== id) throw malformed(origin, 'an answer to something else');
    if (!Object.hasOwn(value, 'result')) throw malformed(origin, 'neither a result nor an error');
    return this.#version === '0.3' ? answer((old) => v03JsonRpc.fromResult(method, old))(result) : result;
  }
}

function malformed(origin: string, what: string): EclipticError {
  return new EclipticError('INVALID_AGENT_RESPONSE', `${origin} gave ${what} for a JSON-RPC response`, { origin });
}

type Params = Readonly<Record<string, unknown>>;

interface Place {
  readonly verb: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** Parameters that are part of the path. */
  readonly said?: readonly string[];
}

export class HttpTransport implements Transport {
  readonly #endpoint: RemoteEndpoint;
  readonly #version: ProtocolVersion;
  readonly #prefix: string;
  /** The protocol's texts say POST and GET for subscriptions; GET after the agent refused POST. */
  #subscribeVerb: 'POST' | 'GET' = 'POST';

  constructor(endpoint: RemoteEndpoint, version: ProtocolVersion, tenant: string | undefined) {
    this.#endpoint = endpoint;
    this.#version = version;
    this.#prefix = (version === '0.3' ? '/v1' : '') + (tenant === undefined ? '' : `/${encodeURIComponent(tenant)}`);
  }

  offers(_method: Method): boolean {
    return true;
  }

  async call(method: Method, params: object, terms: Terms): Promise<unknown> {
    const request = this.#request(method, params as Params, terms);
    return this.#result(method, (await this.#endpoint.ask(request, terms.limits)) ?? {});
  }

  async *stream(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent> {
    try {
      yield* this.#streamOnce(method, params, terms);
    } catch (error) {
      const turnedDown = error instanceof ExternalServiceError && error.status === 405;
      if (!turnedDown || method !== 'SubscribeToTask' || this.#subscribeVerb === 'GET') throw error;
      this.#subscribeVerb = 'GET';
      yield* this.#streamOnce(method, params, terms);
    }
  }

  async *#streamOnce(method: Method, params: object, terms: Terms): AsyncGenerator<StreamedEvent> {
    const request = this.#request(method, params as Params, terms);
    for await (const { data, id } of this.#endpoint.stream(request, terms.limits)) {
      yield { event: takeStreamResponse(this.#result(method, data)), id };
    }
  }

  #request(method: Method, params: Params, terms: Terms): EndpointRequest {
    const { verb, path, said = [] } = this.#place(method, params);
    const old = this.#version === '0.3' && verb === 'POST';
    const shaped = old ? (v03Rest.toParams(method, params) as Params) : params;
    const left = Object.entries(shaped).filter(([name, value]) => value !== undefined && !said.includes(name));
    const request = { verb, path: this.#prefix + path, slow: terms.slow, fresh: isSend(method) };
    if (verb !== 'POST') {
      return {
        ...request,
        headers: terms.headers,
        query: new URLSearchParams(left.map(([name, value]): [string, string] => [name, String(value)])),
      };
    }
    const type = this.#version === '0.3' ? 'application/json' : 'application/a2a+json';
    const body = JSON.stringify(Object.fromEntries(left));
    return { ...request, headers: { 'content-type': type, ...terms.headers }, body };
  }

  #result(method: Method, value: unknown): unknown {
    return this.#version === '0.3' ? answer((old) => v03Rest.fromResult(method, old))(value) : value;
  }

  #place(method: Method, params: Params): Place {
    const task = (name: 'id' | 'taskId') => `/tasks/${segment(params[name])}`;
    const pushes = `${task('taskId')}/pushNotificationConfigs`;
    switch (method) {
      case 'SendMessage':
        return { verb: 'POST', path: '/message:send' };
      case 'SendStreamingMessage':
        return { verb: 'POST', path: '/message:stream' };
      case 'GetTask':
        return { verb: 'GET', path: task('id'), said: ['id'] };
      case 'ListTasks':
        return { verb: 'GET', path: '/tasks' };
      case 'CancelTask':
        return { verb: 'POST', path: `${task('id')}:cancel`, said: ['id'] };
      case 'SubscribeToTask':
        return { verb: this.#subscribeVerb, path: `${task('id')}:subscribe`, said: ['id'] };
      case 'CreateTaskPushNotificationConfig':
        return { verb: 'POST', path: pushes, said: ['taskId'] };
      case 'GetTaskPushNotificationConfig':
        return { verb: 'GET', path: `${pushes}/${segment(params.id)}`, said: ['taskId', 'id'] };
      case 'ListTaskPushNotificationConfigs':
        return { verb: 'GET', path: pushes, said: ['taskId'] };
      case 'DeleteTaskPushNotificationConfig':
        return { verb: 'DELETE', path: `${pushes}/${segment(params.id)}`, said: ['taskId', 'id'] };
      case 'GetExtendedAgentCard':
        return { verb: 'GET', path: this.#version === '0.3' ? '/card' : '/extendedAgentCard' };
    }
  }
}

function segment(id: unknown): string {
  const text = String(id ?? '');
  if (text === '.' || text === '..')
    throw new EclipticError('INVALID_PARAMS', 'an id must not be . or ..', { field: 'id' });
  return encodeURIComponent(text);
}

const STATES: Readonly<Record<A2ATaskState, TaskState>> = {
  submitted: 'TASK_STATE_SUBMITTED',
  working: 'TASK_STATE_WORKING',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
};

/** The simple routes: a task is sent as text, and polled until it is done. */
export class SimpleTransport implements Transport {
  readonly #endpoint: RemoteEndpoint;

  constructor(endpoint: RemoteEndpoint) {
    this.#endpoint = endpoint;
  }

  offers(method: Method): boolean {
    return method === 'SendMessage' || method === 'GetTask';
  }

  async call(method: Method, params: object, terms: Terms): Promise<unknown> {
    if (method === 'SendMessage') return { task: await this.#send(params as SendMessageRequest, terms) };
    if (method !== 'GetTask') throw notOffered(method);
    const path = `/a2a/tasks/${encodeURIComponent((params as { id: string }).id)}`;
    return takeSimpleTask(await this.#endpoint.ask({ verb: 'GET', path, headers: terms.headers }, terms.limits));
  }

  // biome-ignore lint/correctness/useYield: there is no stream here
  async *stream(method: Method): AsyncGenerator<StreamedEvent> {
    throw notOffered(method);
  }

  async #send({ message, metadata }: SendMessageRequest, terms: Terms): Promise<Task> {
    if (message.taskId !== undefined) throw notOffered('a second message of a task');
    const { skill, timeoutMs } = { ...message.metadata, ...metadata };
    const body: A2ATaskSendRequest = {
      method: 'tasks/send',
      params: {
        message: textOf(message.parts),
        ...(typeof skill === 'string' && { skill }),
        ...(typeof timeoutMs === 'number' && { timeoutMs: within(timeoutMs) }),
      },
    };
    const headers = { 'content-type': 'application/json', ...terms.headers };
    const request = { verb: 'POST', path: '/a2a/tasks/send', headers, body: JSON.stringify(body), fresh: true };
    return takeSimpleTask(await this.#endpoint.ask(request, terms.limits));
  }
}

/** A simple task in the protocol's shape, with generated message ids. */
const takeSimpleTask = answer((value): Task => {
  const from = readObject(value, 'task');
  const id = readId(from, 'id', 'task');
  const { state } = from;
  if (typeof state !== 'string' || !Object.hasOwn(STATES, state)) {
    refuse('task.state', `must be one of ${Object.keys(STATES).join(', ')}`);
  }
  const messages = readList(from.messages ?? [], 'task.messages', A2A_LIMITS.historyMessages);
  const history = messages.map((message, index) => readSimpleMessage(message, index, id));
  return { id, contextId: '', status: { state: STATES[state as A2ATaskState] }, history };
});

function readSimpleMessage(value: unknown, index: number, taskId: string): Message {
  const place = `task.messages[${index}]`;
  const { role, parts } = readObject(value, place);
  if (role !== 'user' && role !== 'agent') refuse(`${place}.role`, 'must be user or agent');
  const list = readList(parts, `${place}.parts`, A2A_LIMITS.parts);
  return {
    messageId: `${taskId}-${index}`,
    role: role === 'user' ? 'ROLE_USER' : 'ROLE_AGENT',
    parts: list.map((part, at) => {
      const from = readObject(part, [`${place}.parts`, at]);
      return { text: readOptionalText(from, 'text', `${place}.parts`, A2A_LIMITS.contentChars) ?? '' };
    }),
  };
}

function within(timeoutMs: number): number {
  return Math.round(Math.min(Math.max(timeoutMs, SIMPLE_TIMEOUT.smallest), SIMPLE_TIMEOUT.largest));
}

function notOffered(what: string): EclipticError {
  return new EclipticError('OPERATION_NOT_SUPPORTED', `the agent has the simple routes only, without ${what}`);
}
