import type { ServerResponse } from 'node:http';
import { type Exchange, type Route, readBody, requireJsonBody } from '../../http/server/http-server.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { toHttpError } from '../protocol/errors.js';
import { type Method, parseJson } from '../protocol/json-rpc.js';
import { paramsOfQuery } from '../protocol/reading.js';
import { toV03Error } from '../v03/dialect.js';
import { v03Rest } from '../v03/rest.js';
import { streamEvents } from './event-stream.js';
import { type BindingComponents, metadataIn } from './json-rpc-binding.js';
import { tenantIn } from './operations.js';
import { contextOf, speaksV03 } from './request-context.js';

interface Operation {
  readonly method: Method;
  readonly params: Record<string, unknown>;
  readonly tenant: string | undefined;
}

const PUSH = 'pushNotificationConfigs';

/** A2A over HTTP and JSON: each operation has a path and a verb. Errors are google.rpc.Status. */
export class HttpBinding implements Route {
  readonly path = '/a2a/v1';
  readonly scope = 'tasks';
  readonly #components: BindingComponents;

  constructor(components: BindingComponents) {
    this.#components = components;
  }

  async serve(exchange: Exchange): Promise<void> {
    const { runtime, operations, extensionsOf } = this.#components;
    const { request, query, path } = exchange;
    const { method, params: named, tenant } = operationAt(request.method ?? 'GET', path.slice(this.path.length));
    const body = request.method === 'POST' ? await readBody(request) : Buffer.alloc(0);
    if (body.length > 0) requireJsonBody(request.headers);
    const sent = body.length > 0 ? parseJson(body.toString()) : {};
    if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) {
      throw new EclipticError('INVALID_PARAMS', 'the body must be an object', { field: 'body', problem: 'no object' });
    }
    const { version, terms } = contextOf(exchange, extensionsOf(tenant ?? tenantIn(sent)), metadataIn(sent));
    const old = version === '0.3';
    const said = { ...paramsOfQuery(query), ...sent };
    // Path parameters have the same names in both versions.
    const read = old ? v03Rest.fromParams(method, said) : said;
    const params = { ...read, ...named, ...(tenant !== undefined && { tenant }) };
    const outcome = await operations.perform(method, params, terms);
    const shown = (result: unknown) => (old ? v03Rest.toResult(method, result) : result);
    if ('stream' in outcome) await streamEvents(runtime, exchange.response, outcome.stream, shown);
    else send(exchange.response, 200, shown(outcome.result));
  }

  refuse(response: ServerResponse, error: unknown): void {
    const { status, body } = toHttpError(error);
    const query = new URLSearchParams(response.req.url?.split('?', 2)[1]);
    // A client that names no version may well speak 1.0, so the body has the fields of both.
    send(response, status, speaksV03({ request: response.req, query }) ? { ...toV03Error(error), ...body } : body);
  }
}

/** The first segment may be a tenant. */
export function operationAt(verb: string, path: string): Operation {
  const segments = path
    .split('/')
    .filter((segment) => segment !== '')
    .map(decode);
  // Paths of 0.3 have a version segment.
  const version = segments.indexOf('v1');
  if (version === 0 || version === 1) segments.splice(version, 1);
  const found = match(verb, segments) ?? match(verb, segments.slice(1), segments[0]);
  if (found) return found;
  throw new EclipticError('METHOD_NOT_FOUND', `A2A has no operation ${verb} ${cutText(path, 200)}`);
}

function match(verb: string, segments: readonly string[], tenant?: string): Operation | undefined {
  const [first, second, third, fourth] = segments;
  const operation = (method: Method, params: Record<string, unknown> = {}) => ({ method, params, tenant });
  const is = (wanted: string, length: number) => verb === wanted && segments.length === length;
  if (first === 'message:send' && is('POST', 1)) return operation('SendMessage');
  if (first === 'message:stream' && is('POST', 1)) return operation('SendStreamingMessage');
  if ((first === 'extendedAgentCard' || first === 'card') && is('GET', 1)) return operation('GetExtendedAgentCard');
  if (first !== 'tasks') return undefined;
  if (is('GET', 1)) return operation('ListTasks');
  const [id = '', action] = second?.split(/:(?=[a-z]+$)/) ?? [];
  if (segments.length === 2 && action === 'cancel' && verb === 'POST') return operation('CancelTask', { id });
  if (segments.length === 2 && action === 'subscribe' && (verb === 'POST' || verb === 'GET')) {
    return operation('SubscribeToTask', { id });
  }
  if (is('GET', 2)) return operation('GetTask', { id: second });
  if (third !== PUSH) return undefined;
  if (is('POST', 3)) return operation('CreateTaskPushNotificationConfig', { taskId: second });
  if (is('GET', 3)) return operation('ListTaskPushNotificationConfigs', { taskId: second });
  if (is('GET', 4)) return operation('GetTaskPushNotificationConfig', { taskId: second, id: fourth });
  if (is('DELETE', 4)) return operation('DeleteTaskPushNotificationConfig', { taskId: second, id: fourth });
  return undefined;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function send(response: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  response.writeHead(status, { 'Content-Type': 'application/a2a+json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}
