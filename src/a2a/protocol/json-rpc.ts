import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { type JsonRpcErrorBody, toJsonRpcError } from './errors.js';
import type { ProtocolVersion } from './headers.js';

/** The operations of the protocol, by their names in JSON-RPC and gRPC 1.0. */
export const METHODS = [
  'SendMessage',
  'SendStreamingMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
  'GetExtendedAgentCard',
] as const;

export type Method = (typeof METHODS)[number];

/** 0.3 had no operation to list tasks. */
const V03_METHODS: Readonly<Record<string, Exclude<Method, 'ListTasks'>>> = {
  'message/send': 'SendMessage',
  'message/stream': 'SendStreamingMessage',
  'tasks/get': 'GetTask',
  'tasks/cancel': 'CancelTask',
  'tasks/resubscribe': 'SubscribeToTask',
  'tasks/pushNotificationConfig/set': 'CreateTaskPushNotificationConfig',
  'tasks/pushNotificationConfig/get': 'GetTaskPushNotificationConfig',
  'tasks/pushNotificationConfig/list': 'ListTaskPushNotificationConfigs',
  'tasks/pushNotificationConfig/delete': 'DeleteTaskPushNotificationConfig',
  'agent/getAuthenticatedExtendedCard': 'GetExtendedAgentCard',
};

const v1: ReadonlySet<string> = new Set(METHODS);
const toV03: ReadonlyMap<Method, string> = new Map(Object.entries(V03_METHODS).map(([old, method]) => [method, old]));

export function methodOf(name: string, version: ProtocolVersion): Method {
  if (version === '1.0' && v1.has(name)) return name as Method;
  if (version === '0.3' && Object.hasOwn(V03_METHODS, name)) return V03_METHODS[name]!;
  const shown = cutText(name, 64);
  // A client that sends no version speaks 0.3 by the protocol's rules; most of them mean 1.0.
  const hint = v1.has(name) ? '; send the header A2A-Version: 1.0' : '';
  throw new EclipticError('METHOD_NOT_FOUND', `A2A ${version} has no method "${shown}"${hint}`, {
    method: shown,
    version,
  });
}

/** The JSON-RPC name of an operation in that version, if it has one. */
export function methodName(method: Method, version: ProtocolVersion): string | undefined {
  return version === '1.0' ? method : toV03.get(method);
}

export function isStreaming(method: Method): boolean {
  return method === 'SendStreamingMessage' || method === 'SubscribeToTask';
}

export type JsonRpcId = string | number | null;

export interface JsonRpcRequest {
  /** Undefined for a notification, which gets no answer. */
  readonly id: JsonRpcId | undefined;
  readonly method: string;
  readonly params: unknown;
}

export type JsonRpcResponse =
  | { readonly jsonrpc: '2.0'; readonly id: JsonRpcId; readonly result: unknown }
  | { readonly jsonrpc: '2.0'; readonly id: JsonRpcId; readonly error: JsonRpcErrorBody };

/** Longest id or method name. */
const MAX_CHARS = 256;

export function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new EclipticError('INVALID_JSON', 'the body is not JSON');
  }
}

/** Throws `INVALID_REQUEST` for anything but one JSON-RPC 2.0 request; A2A has no batches. */
export function readJsonRpcRequest(value: unknown): JsonRpcRequest {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw malformed('', Array.isArray(value) ? 'must be one request; batches are not taken' : 'must be an object');
  }
  const { jsonrpc, id, method, params } = value as Record<string, unknown>;
  if (jsonrpc !== '2.0') throw malformed('jsonrpc', 'must be "2.0"');
  if (id !== undefined && !isId(id)) throw malformed('id', 'must be a string, a whole number or null');
  if (typeof method !== 'string' || method === '' || method.length > MAX_CHARS) {
    throw malformed('method', 'must be the name of a method');
  }
  if (params !== undefined && (typeof params !== 'object' || params === null || Array.isArray(params))) {
    throw new EclipticError('INVALID_PARAMS', 'params must be an object', {
      field: 'params',
      problem: 'must be an object',
    });
  }
  return { id, method, params };
}

/** The id to answer with, even if the rest of the request is invalid. */
export function idOf(value: unknown): JsonRpcId {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { id } = value as Record<string, unknown>;
  return isId(id) ? id : null;
}

export function jsonRpcResult(id: JsonRpcId, result: unknown): JsonRpcResponse {
  return { jsonrpc: '2.0', id, result };
}

export function jsonRpcError(id: JsonRpcId, error: unknown): JsonRpcResponse {
  return { jsonrpc: '2.0', id, error: toJsonRpcError(error) };
}

function isId(value: unknown): value is JsonRpcId {
  if (typeof value === 'string') return value.length <= MAX_CHARS;
  return value === null || Number.isSafeInteger(value);
}

function malformed(field: string, problem: string): EclipticError {
  return new EclipticError('INVALID_REQUEST', `${field === '' ? 'a JSON-RPC request' : field} ${problem}`, {
    ...(field === '' ? {} : { field }),
    problem,
  });
}
