import type { ServerResponse } from 'node:http';
import { type CallOptions, isWanted, needsInput } from '../../mcp/call.js';
import type { ToolDefinition } from '../../mcp/definitions.js';
import { callFailure, failureData, protocolCode } from '../../mcp/failure.js';
import {
  contradiction,
  HEADER_MISMATCH,
  headerValue,
  type Mismatch,
  mismatchMessage,
} from '../../mcp/param-headers.js';
import { withWordsSeen } from '../../mcp/result-text.js';
import type { McpService } from '../../mcp/service.js';
import { isTaskTool, modernTask } from '../../mcp/task-protocol.js';
import type { ToolTasks } from '../../mcp/tool-tasks.js';
import type { NameStyle } from '../../mcp/wire-names.js';
import { type EclipticError, toEclipticError } from '../../runtime/errors.js';
import { type Exchange, sendJson } from '../server/http-server.js';

export interface QuickCallInit {
  service: McpService;
  tasks: ToolTasks;
  style: NameStyle;
  name: string;
  version: string;
}

const REVISION = '2026-07-28';
const KEY = 'io.modelcontextprotocol/';

interface CallRequest {
  readonly id: string | number;
  readonly name: string;
  readonly arguments: Record<string, unknown>;
  readonly meta: Record<string, unknown>;
  readonly answers: Record<string, unknown> | undefined;
  readonly state: string | undefined;
}

/**
 * Serves an ordinary `tools/call` of MCP 2026-07-28 without the SDK, whose web requests and responses cost ten times as
 * much. Returns false, without any effect, for a request that is not plainly valid: the SDK then reports the fault.
 */
export async function serveQuickly(init: QuickCallInit, exchange: Exchange, body: Buffer): Promise<boolean> {
  const { request, response, principal } = exchange;
  const { headers } = request;
  const plain =
    headers['mcp-protocol-version'] === REVISION &&
    headers['mcp-method'] === 'tools/call' &&
    headers['content-type']?.startsWith('application/json') === true;
  const call = plain ? readCall(body) : undefined;
  if (!call || headerValue(headers['mcp-name']) !== call.name) return false;
  const { service, style } = init;
  const answer = new Answer(init, response, call);
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  try {
    const entry = service.find('tool', call.name, principal, style);
    const contrary = contradiction(entry.definition as ToolDefinition, call.arguments, (name) => headers[name]);
    if (contrary) return answer.mismatch(contrary);
    const ask = { kind: 'tool', name: entry.key, arguments: call.arguments } as const;
    const token = call.meta.progressToken;
    const level = call.meta[`${KEY}logLevel`];
    const options: CallOptions = {
      caller: principal,
      signal: gone.signal,
      capabilities: call.meta[`${KEY}clientCapabilities`] as object,
      ...(call.answers && { answers: call.answers }),
      ...(call.state !== undefined && { state: call.state }),
      meta: ownMeta(call.meta),
      onProgress: (progress) => {
        if (token !== undefined) answer.notify('notifications/progress', { ...progress, progressToken: token });
      },
      onLog: (entry) => {
        // Without a level, a client wants no logs.
        if (isWanted(entry.level, level)) answer.notify('notifications/message', { ...entry });
      },
    };
    const task = isTaskTool(entry) && (await modernTask(init.tasks, entry, ask, options));
    if (task) {
      answer.result(task);
      return true;
    }
    const result = await service.call(entry, ask, options);
    const seen = () => withWordsSeen(result as object, entry.definition as ToolDefinition);
    answer.result(needsInput(result) ? result : { ...seen(), resultType: 'complete' });
  } catch (error) {
    const failure = toEclipticError(error, 'HANDLER_FAILED');
    if (protocolCode(failure) === undefined) answer.result({ ...callFailure(failure), resultType: 'complete' });
    else answer.failure(failure);
  }
  return true;
}

/** A JSON body, or a stream of events if notifications come first. */
class Answer {
  readonly #init: QuickCallInit;
  readonly #response: ServerResponse;
  readonly #call: CallRequest;
  #streaming = false;

  constructor(init: QuickCallInit, response: ServerResponse, call: CallRequest) {
    this.#init = init;
    this.#response = response;
    this.#call = call;
  }

  notify(method: string, params: object): void {
    if (!this.#streaming) {
      this.#streaming = true;
      const headers = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' };
      this.#response.writeHead(200, headers);
    }
    this.#event({ jsonrpc: '2.0', method, params });
  }

  result(result: object): void {
    const { name, version } = this.#init;
    const _meta = { ...(result as { _meta?: object })._meta, [`${KEY}serverInfo`]: { name, version } };
    this.#end(200, { jsonrpc: '2.0', id: this.#call.id, result: { ...result, _meta } });
  }

  failure(failure: EclipticError): void {
    const code = protocolCode(failure)!;
    const status = code === -32021 ? 400 : 200;
    const error = { code, message: failure.message, data: failureData(failure) };
    this.#end(status, { jsonrpc: '2.0', id: this.#call.id, error });
  }

  mismatch(mismatch: Mismatch): true {
    const error = { code: HEADER_MISMATCH, message: mismatchMessage(mismatch), data: { mismatch } };
    this.#end(400, { jsonrpc: '2.0', id: this.#call.id, error });
    return true;
  }

  #end(status: number, message: object): void {
    if (this.#streaming) {
      this.#event(message);
      this.#response.end();
      return;
    }
    sendJson(this.#response, status, message);
  }

  #event(message: object): void {
    this.#response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }
}

/** Undefined unless the request is valid in every respect. */
function readCall(body: Buffer): CallRequest | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return undefined;
  }
  if (!isObject(value) || value.jsonrpc !== '2.0' || value.method !== 'tools/call') return undefined;
  const { id, params } = value;
  if ((typeof id !== 'string' && !Number.isInteger(id)) || !isObject(params)) return undefined;
  const { name, arguments: args = {}, _meta: meta, inputResponses, requestState } = params;
  if (typeof name !== 'string' || !isObject(args) || !isObject(meta)) return undefined;
  const client = meta[`${KEY}clientInfo`];
  const known =
    meta[`${KEY}protocolVersion`] === REVISION &&
    isObject(meta[`${KEY}clientCapabilities`]) &&
    (client === undefined ||
      (isObject(client) && typeof client.name === 'string' && typeof client.version === 'string'));
  const answered =
    inputResponses === undefined || (isObject(inputResponses) && Object.values(inputResponses).every(isBare));
  const remembered = requestState === undefined || typeof requestState === 'string';
  const token = meta.progressToken;
  const tracked = token === undefined || typeof token === 'string' || Number.isInteger(token);
  if (!known || !answered || !remembered || !tracked) return undefined;
  const answers = inputResponses as Record<string, unknown> | undefined;
  return { id: id as string | number, name, arguments: args, meta, answers, state: requestState };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An answer that is not wrapped together with its question. */
function isBare(value: unknown): boolean {
  return isObject(value) && !('method' in value);
}

/** Metadata of the request, such as trace context, without the protocol's own. */
function ownMeta(meta: Record<string, unknown>): Record<string, unknown> {
  const own: Record<string, unknown> = {};
  for (const key in meta) if (!key.startsWith(KEY) && key !== 'progressToken') own[key] = meta[key];
  return own;
}
