import { type Exchange, type Route, readBody, sendJson } from '../../http/server/http-server.js';
import { EclipticError } from '../../runtime/errors.js';
import { parseJson } from '../protocol/json-rpc.js';
import { writeTimestamp } from '../protocol/reading.js';
import { projectTask, readTaskSend } from '../protocol/simple.js';
import type { BindingComponents } from './json-rpc-binding.js';
import { contextOf } from './request-context.js';
import type { TaskRecord } from './task-records.js';
import type { TaskService } from './task-service.js';

/** `POST /a2a/tasks/send` and `GET /a2a/tasks/ID`: the simple interface, whose clients poll a task until it is done. */
export class SimpleRoutes implements Route {
  readonly path = '/a2a/tasks';
  readonly scope = 'tasks';
  readonly #components: Omit<BindingComponents, 'operations'>;
  readonly #tasks: TaskService;

  constructor(components: Omit<BindingComponents, 'operations'>, tasks: TaskService) {
    this.#components = components;
    this.#tasks = tasks;
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, response, path, principal } = exchange;
    const [, id] = /^\/a2a\/tasks\/([^/]+)$/.exec(path) ?? [];
    if (request.method === 'POST' && id === 'send') return this.#send(exchange);
    if (request.method !== 'GET' || id === undefined) {
      throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${request.method} ${path}`);
    }
    try {
      sendJson(response, 200, simple(await this.#tasks.get(principal.address, id)));
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'TASK_NOT_FOUND') throw error;
      sendJson(response, 404, { error: 'Task not found', code: error.code });
    }
  }

  async #send(exchange: Exchange): Promise<void> {
    const body = parseJson((await readBody(exchange.request)).toString());
    const { message: text, skill, timeoutMs } = readTaskSend(body);
    const { terms } = contextOf(exchange, this.#components.extensions, undefined);
    const message = { messageId: this.#components.runtime.id(), role: 'ROLE_USER' as const, parts: [{ text }] };
    const request = {
      message,
      configuration: { returnImmediately: true },
      ...(skill !== undefined && { metadata: { skill } }),
    };
    const { principal, key, chain } = terms;
    const sent = await this.#tasks.send(principal.address, request, { key, timeoutMs, ...(chain && { chain }) });
    if ('message' in sent) throw new EclipticError('HANDLER_FAILED', 'the agent answered without a task');
    sendJson(exchange.response, 200, simple(sent.stored.record));
  }
}

export function simple({ model, sessionId, createdAt }: TaskRecord): ReturnType<typeof projectTask> {
  return projectTask(model.task, { sessionId, createdAt: writeTimestamp(createdAt) });
}
