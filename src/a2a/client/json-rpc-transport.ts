import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type Method, methodName } from '../protocol/methods.js';
import { answer, takeStreamResponse } from '../protocol/read-responses.js';
import type { ProtocolVersion } from '../protocol/version.js';
import { fromV03Result, toV03Params } from '../v03/requests.js';
import type { EndpointRequest, RemoteEndpoint } from './remote-endpoint.js';
import { remoteError } from './remote-errors.js';
import { isSend, type StreamedEvent, type Terms, type Transport } from './transport.js';

/** A2A over JSON-RPC, in either version. */
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
      params: this.#version === '0.3' ? toV03Params(method, full) : full,
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
    return this.#version === '0.3' ? answer((old) => fromV03Result(method, old))(result) : result;
  }
}

function malformed(origin: string, what: string): EclipticError {
  return new EclipticError('INVALID_AGENT_RESPONSE', `${origin} gave ${what} for a JSON-RPC response`, { origin });
}
