import { type Exchange, type Route, readBody, requireJsonBody, sendJson } from '../../http/server/http-server.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import {
  idOf,
  type JsonRpcId,
  type JsonRpcRequest,
  jsonRpcError,
  jsonRpcResult,
  type Method,
  methodOf,
  parseJson,
  readJsonRpcRequest,
} from '../protocol/json-rpc.js';
import type { AgentExtension, Metadata } from '../protocol/types.js';
import { toV03Error } from '../v03/dialect.js';
import { v03JsonRpc } from '../v03/json-rpc.js';
import { streamEvents } from './event-stream.js';
import { type Operations, type Outcome, tenantIn } from './operations.js';
import { contextOf, speaksV03, versionOf } from './request-context.js';

export interface BindingComponents {
  runtime: Runtime;
  operations: Operations;
  /** The extensions that the agent offers; without one, the node. */
  extensionsOf: (agent: string | undefined) => readonly AgentExtension[];
}

interface Performed {
  readonly method: Method;
  readonly old: boolean;
  readonly outcome: Outcome | Promise<Outcome>;
}

/** A2A over JSON-RPC. Every fault of a request is answered as a JSON-RPC error, with status 200. */
export class JsonRpcBinding implements Route {
  readonly path = '/a2a/rpc';
  readonly scope = 'tasks';
  readonly #components: BindingComponents;

  constructor(components: BindingComponents) {
    this.#components = components;
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, response } = exchange;
    if (request.method !== 'POST') throw new EclipticError('METHOD_NOT_FOUND', 'JSON-RPC requests must use POST');
    let body: unknown;
    try {
      requireJsonBody(request.headers);
      body = parseJson((await readBody(request)).toString());
      const call = readJsonRpcRequest(body);
      if (call.id === undefined) return this.#notify(exchange, call);
      const performed = this.#perform(exchange, call);
      // An answer that is there goes out in the same turn: each promise on the way costs about a microsecond.
      const outcome = performed.outcome instanceof Promise ? await performed.outcome : performed.outcome;
      const streaming = this.#answer(exchange, call.id, performed, outcome);
      if (streaming) await streaming;
    } catch (error) {
      if (response.headersSent) {
        response.destroy();
        return;
      }
      // The rest of an oversized body is not read.
      if (!request.complete) response.always.Connection = 'close';
      const id = idOf(body);
      const refused = error instanceof EclipticError && error.code === 'UNSUPPORTED_MEDIA_TYPE';
      sendJson(
        response,
        refused ? 415 : 200,
        speaksV03(exchange) ? { jsonrpc: '2.0', id, error: toV03Error(error) } : jsonRpcError(id, error),
      );
    }
  }

  #answer(
    { response }: Exchange,
    id: JsonRpcId,
    { method, old }: Pick<Performed, 'method' | 'old'>,
    outcome: Outcome,
  ): Promise<void> | undefined {
    const shown = (result: unknown) => jsonRpcResult(id, old ? v03JsonRpc.toResult(method, result) : result);
    if ('stream' in outcome) return streamEvents(this.#components.runtime, response, outcome.stream, shown);
    sendJson(response, 200, shown(outcome.result));
    return undefined;
  }

  /** A notification is performed and never answered, not even with an error. */
  #notify(exchange: Exchange, call: JsonRpcRequest): void {
    const { logger } = this.#components.runtime;
    const perform = async () => this.#perform(exchange, call).outcome;
    perform().then(
      (outcome) => void ('stream' in outcome && outcome.stream.events.return?.()),
      (error) => logger.debug({ method: call.method, reason: describeError(error) }, 'JSON-RPC notification failed'),
    );
    exchange.response.writeHead(204);
    exchange.response.end();
  }

  #perform(exchange: Exchange, { method: name, params }: JsonRpcRequest): Performed {
    const { operations, extensionsOf } = this.#components;
    const old = versionOf(exchange) === '0.3';
    const method = methodOf(name, old ? '0.3' : '1.0');
    const rest = exchange.path.slice(this.path.length);
    const said = old ? v03JsonRpc.fromParams(method, params ?? {}) : (params ?? {});
    // In 0.3 the tenant is the path segment after the endpoint's.
    const read = rest.length > 1 ? { ...(said as object), tenant: rest.slice(1) } : said;
    const { terms } = contextOf(exchange, extensionsOf(tenantIn(read)), metadataIn(read));
    return { method, old, outcome: operations.perform(method, read, terms) };
  }
}

/** A request's metadata is beside its message, or in it. */
export function metadataIn(params: unknown): Metadata | undefined {
  const { metadata, message } = (params ?? {}) as { metadata?: Metadata; message?: { metadata?: Metadata } };
  return message?.metadata && metadata ? { ...message.metadata, ...metadata } : (metadata ?? message?.metadata);
}
