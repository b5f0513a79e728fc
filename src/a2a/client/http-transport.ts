import { EclipticError } from '../../runtime/errors.js';
import type { Method } from '../protocol/methods.js';
import { answer, takeStreamResponse } from '../protocol/read-responses.js';
import { ExternalServiceError } from '../protocol/service-errors.js';
import type { ProtocolVersion } from '../protocol/version.js';
import { fromV03RestResult, toV03RestParams } from '../v03/rest.js';
import type { EndpointRequest, RemoteEndpoint } from './remote-endpoint.js';
import { isSend, type StreamedEvent, type Terms, type Transport } from './transport.js';

type Params = Readonly<Record<string, unknown>>;

interface Place {
  readonly verb: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** Parameters that the path says already. */
  readonly said?: readonly string[];
}

/** A2A over HTTP and JSON, in either version: each operation has a verb and a path. */
export class HttpTransport implements Transport {
  readonly #endpoint: RemoteEndpoint;
  readonly #version: ProtocolVersion;
  readonly #prefix: string;
  /** The protocol's texts have POST and GET for subscriptions; GET once the agent turned down the other. */
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
    const shaped = old ? (toV03RestParams(method, params) as Params) : params;
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
    return this.#version === '0.3' ? answer((old) => fromV03RestResult(method, old))(value) : value;
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

/** An id as one segment of a path, whatever is in it. */
function segment(id: unknown): string {
  const text = String(id ?? '');
  if (text === '.' || text === '..') throw new EclipticError('INVALID_PARAMS', 'that is no id', { field: 'id' });
  return encodeURIComponent(text);
}
