import { type Exchange, type Route, readBody, sendJson } from '../../http/server/http-server.js';
import { EclipticError } from '../../runtime/errors.js';
import { parseJson } from '../protocol/json-rpc.js';
import type { BindingComponents } from './json-rpc-binding.js';
import type { Outcome } from './operations.js';
import { contextOf, goneOf } from './request-context.js';

/** `POST /a2a/tasks/send` and `GET /a2a/tasks/ID`: the simple interface, whose clients poll a task until it is done. */
export class SimpleRoutes implements Route {
  readonly path = '/a2a/tasks';
  readonly scope = 'tasks';
  readonly #components: BindingComponents;

  constructor(components: BindingComponents) {
    this.#components = components;
  }

  async serve(exchange: Exchange): Promise<void> {
    const { operations, extensionsOf } = this.#components;
    const { request, response, path, principal } = exchange;
    const [, id] = /^\/a2a\/tasks\/([^/]+)$/.exec(path) ?? [];
    if (request.method === 'POST' && id === 'send') {
      const body = parseJson((await readBody(request)).toString());
      const { terms } = contextOf(exchange, extensionsOf(undefined), undefined);
      return send(response, await operations.perform('SendSimpleTask', body, terms));
    }
    if (request.method !== 'GET' || id === undefined) {
      throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${request.method} ${path}`);
    }
    try {
      send(response, await operations.perform('GetSimpleTask', { id }, { principal, onGone: goneOf(response) }));
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'TASK_NOT_FOUND') throw error;
      sendJson(response, 404, { error: 'Task not found', code: error.code });
    }
  }
}

function send(response: Exchange['response'], outcome: Outcome): void {
  if ('result' in outcome) sendJson(response, 200, outcome.result);
}
