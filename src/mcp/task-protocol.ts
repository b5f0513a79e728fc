import type { InputRequest, JSONRPCRequest, Result, Server, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Party } from '../mesh/policy.js';
import { EclipticError } from '../runtime/errors.js';
import type { Ask, CallOptions } from './call.js';
import type { Entry } from './catalogue.js';
import { beginsTask, isOver, needsTasks, TASKS_EXTENSION, type TaskView, taskSupport } from './tool-task.js';
import type { ToolTasks } from './tool-tasks.js';

/** Clients without notifications ask this often. */
const POLL_MS = 1_000;
const METHOD_NOT_FOUND = -32601;
const RELATED = 'io.modelcontextprotocol/related-task';

type ToolAsk = Extract<Ask, { kind: 'tool' }>;
type Sdk = typeof import('@modelcontextprotocol/server');
type Guarded = <T>(act: () => T | Promise<T>) => Promise<T>;

/** The two generations of tasks: the extension of 2026-07-28, and the experiment of 2025-11-25. */
export const TASK_CAPABILITIES = {
  modern: { extensions: { [TASKS_EXTENSION]: {} } },
  legacy: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
};

/** Begins a task for a client of 2026-07-28. Undefined where the call is an ordinary one. */
export async function modernTask(
  tasks: ToolTasks,
  entry: Entry,
  ask: ToolAsk,
  options: CallOptions,
): Promise<Result | undefined> {
  const support = taskSupport(entry);
  if (support === undefined) return undefined;
  if (!declaresTasks(options.capabilities)) {
    if (support === 'required') throw needsTasks(entry);
    return undefined;
  }
  if (!beginsTask(entry, options)) return undefined;
  return { ...shown(await tasks.begin(entry, ask, options)), resultType: 'task' };
}

export function declaresTasks(capabilities: object | undefined): boolean {
  const { extensions } = (capabilities ?? {}) as { extensions?: Record<string, unknown> };
  return extensions?.[TASKS_EXTENSION] !== undefined;
}

export function isTaskTool(entry: Entry): boolean {
  return taskSupport(entry) !== undefined;
}

export interface TaskProtocolInit {
  tasks: ToolTasks;
  principal: Party;
  tell?: 'legacy' | 'modern' | undefined;
  /** Whether the client of a lasting connection can be asked at any time. Default: yes. */
  listening?: (() => boolean) | undefined;
}

/** Tasks of one connection. */
export class TaskProtocol {
  readonly #sdk: Sdk;
  readonly #server: Server;
  readonly #init: TaskProtocolInit;
  readonly #guarded: Guarded;
  /** Tasks of 2025 that this connection began, with the question that it was last asked. */
  readonly #begun = new Map<string, string>();

  constructor(sdk: Sdk, server: Server, init: TaskProtocolInit, guarded: Guarded) {
    this.#sdk = sdk;
    this.#server = server;
    this.#init = init;
    this.#guarded = guarded;
  }

  /** Undefined where the call is an ordinary one. */
  async begin(entry: Entry, request: JSONRPCRequest, ctx: ServerContext, options: CallOptions) {
    const { tasks } = this.#init;
    const { arguments: args = {}, task } = (request.params ?? {}) as {
      arguments?: ToolAsk['arguments'];
      task?: unknown;
    };
    const ask: ToolAsk = { kind: 'tool', name: entry.key, arguments: args };
    if (ctx.mcpReq.envelope) return modernTask(tasks, entry, ask, options);
    const support = taskSupport(entry);
    if (task === undefined && support !== 'required') return undefined;
    if (task === undefined || support === undefined) {
      const problem = support === undefined ? 'cannot be called as a task' : 'is called as a task only';
      throw new this.#sdk.ProtocolError(METHOD_NOT_FOUND, `${entry.fullName} ${problem}`);
    }
    const view = await tasks.begin(entry, ask, options);
    this.#begun.set(view.row.id, '');
    return { task: shownAs2025(view) };
  }

  /** Registers the methods of both generations. Returns a function that stops the notifications. */
  serve(): () => void {
    const { tasks, principal, tell } = this.#init;
    const named = { params: z.looseObject({ taskId: z.string() }) };
    const server = this.#server;
    const modernOnly = ({ mcpReq }: ServerContext) => {
      if (!mcpReq.envelope) throw new this.#sdk.ProtocolError(METHOD_NOT_FOUND, 'Method not found');
    };
    const on = <S extends { params: z.ZodType }>(
      method: string,
      schemas: S,
      act: (params: z.infer<S['params']>, ctx: ServerContext) => Promise<Result>,
    ) =>
      server.setRequestHandler(method, schemas, (params, ctx) =>
        this.#guarded(() => {
          this.#requireDeclared(ctx);
          return act(params as z.infer<S['params']>, ctx);
        }),
      );
    on('tasks/get', named, async ({ taskId }, { mcpReq }) => {
      const view = await tasks.get(taskId, principal);
      return mcpReq.envelope ? { ...shown(view), ...detailsOf(view) } : shownAs2025(view);
    });
    on('tasks/update', named, async ({ taskId, inputResponses }, ctx) => {
      modernOnly(ctx);
      const answers = ctx.mcpReq.inputResponses ?? inputResponses;
      await tasks.update(taskId, principal, (answers ?? {}) as Record<string, unknown>);
      return {};
    });
    on('tasks/cancel', named, async ({ taskId }, { mcpReq }) => {
      if (!mcpReq.envelope && isOver((await tasks.get(taskId, principal)).row.status)) {
        throw new EclipticError('INVALID_ARGUMENTS', 'the task has ended already');
      }
      const view = await tasks.cancel(taskId, principal);
      return mcpReq.envelope ? {} : shownAs2025(view);
    });
    on('tasks/result', named, ({ taskId }, ctx) => this.#result(taskId, ctx));
    on('tasks/list', { params: z.looseObject({ cursor: z.string().optional() }) }, async ({ cursor }) => {
      const { rows, nextCursor } = await tasks.list(principal, cursor);
      return { tasks: rows.map((row) => shownAs2025({ row })), ...(nextCursor && { nextCursor }) };
    });
    if (tell !== 'legacy') return () => {};
    return tasks.onChange((view) => {
      const { id, owner } = view.row;
      if (owner !== principal.address || !this.#begun.has(id)) return;
      const params = shownAs2025(view);
      server.notification({ method: 'notifications/tasks/status', params }).catch(() => {});
      if (isOver(view.row.status)) this.#begun.delete(id);
      else if (this.#init.listening?.() !== false) void this.#ask(view, (request) => server.request(request));
    });
  }

  #requireDeclared({ mcpReq }: ServerContext): void {
    const envelope = mcpReq.envelope as Record<string, unknown> | undefined;
    if (!envelope || declaresTasks(envelope['io.modelcontextprotocol/clientCapabilities'] as object)) return;
    const required = { extensions: { [TASKS_EXTENSION]: {} } };
    throw new EclipticError('CAPABILITY_REQUIRED', 'this needs a client that declares tasks', { required });
  }

  /** The result of 2025-11-25: waits for the end, and asks what the task wants to know meanwhile. */
  async #result(taskId: string, { mcpReq }: ServerContext): Promise<Result> {
    const { tasks, principal } = this.#init;
    for (;;) {
      const { row, requests, end } = await tasks.settled(taskId, principal, mcpReq.signal);
      if (mcpReq.signal.aborted) throw new EclipticError('CANCELLED', 'the caller left');
      if (!isOver(row.status)) {
        const asked = await this.#ask({ row, requests }, (request) => mcpReq.send(request));
        // Another stream of this client has the question.
        if (!asked) await tasks.changed(taskId, mcpReq.signal);
        continue;
      }
      if (end && 'result' in end) {
        const { _meta } = end.result as { _meta?: object };
        return { ...end.result, _meta: { ..._meta, [RELATED]: { taskId } } };
      }
      const { code, message, data } = (end?.error ?? { code: -32603, message: 'the task was cancelled' }) as RpcError;
      throw new this.#sdk.ProtocolError(code, message, data);
    }
  }

  /** Asks a client of 2025, once for each question. */
  async #ask({ row, requests = {} }: TaskView, send: (request: InputRequest) => Promise<unknown>): Promise<boolean> {
    const { tasks, principal } = this.#init;
    const question = Object.keys(requests).join(' ');
    if (row.status !== 'input_required' || question === '' || this.#begun.get(row.id) === question) return false;
    this.#begun.set(row.id, question);
    const keys = Object.keys(requests);
    try {
      for (const [key, request] of Object.entries(requests)) {
        const _meta = { ...request.params?._meta, [RELATED]: { taskId: row.id } };
        const answer = await send({ ...request, params: { ...request.params, _meta } } as InputRequest);
        // The rest of the question is not asked twice.
        keys.shift();
        this.#begun.set(row.id, keys.join(' '));
        await tasks.update(row.id, principal, { [key]: answer });
      }
    } catch {
      // A client that cannot answer would leave the task waiting.
      await tasks.cancel(row.id, principal).catch(() => {});
    }
    return true;
  }
}

interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** A task of 2026-07-28, without what belongs to its status. */
function shown({ row }: TaskView): Result {
  return {
    ...{ taskId: row.id, status: row.status },
    ...(row.message !== null && { statusMessage: row.message }),
    ...{ createdAt: iso(row.createdAt), lastUpdatedAt: iso(row.updatedAt) },
    ...{ ttlMs: Math.ceil(row.expiresAt - row.createdAt), pollIntervalMs: POLL_MS },
  };
}

function detailsOf({ row, requests, end }: TaskView): Result {
  if (row.status === 'input_required') return { inputRequests: requests ?? {} };
  return end && 'result' in end ? { result: { ...end.result, resultType: 'complete' } } : { ...end };
}

function shownAs2025({ row }: TaskView): Result {
  const { ttlMs, pollIntervalMs, ...rest } = shown({ row });
  return { ...rest, ttl: ttlMs, pollInterval: pollIntervalMs };
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
