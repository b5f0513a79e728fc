import { EclipticError } from '../../runtime/errors.js';
import { type JsonRpcErrorBody, toJsonRpcError } from './errors.js';

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

/** Longer ids and method names are nobody's. */
const MAX_CHARS = 256;

/** The body of a request; throws `INVALID_JSON` where it is no JSON at all. */
export function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new EclipticError('INVALID_JSON', 'the body is not JSON');
  }
}

/** Throws `INVALID_REQUEST` for JSON that is no JSON-RPC 2.0 request; batches are none in A2A. */
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

/** The id to answer to, be the rest of the request ever so wrong. */
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
