import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type AuthenticatedCaller, OPERATOR } from '../auth/caller-auth.js';
import { type Exchange, type Route, readBody, requireJsonBody, sendJson } from '../server/http-server.js';
import { EventFeed } from './event-feed.js';
import type { DashboardSource } from './facts.js';
import { cookieOf, KEY_HEADER, type PageSessions, requireOwnOrigin, SESSION_MS } from './page-sessions.js';

export interface DataApiComponents {
  runtime: Runtime;
  sessions: PageSessions;
  /** Resolves when the node has started; requests wait for it. */
  source: Promise<DashboardSource>;
}

const MAX_BODY = 65_536;
const DEFAULT_MESSAGES = 100;
const MAX_MESSAGES = 500;

const LinkSchema = z.strictObject({ token: z.string().min(1).max(256) });
const AnswerSchema = z.strictObject({
  action: z.string().min(1).max(64),
  text: z.string().min(1).max(32_768).optional(),
});

/** `/api/`: the reads and answers of the owner's page. Only the owner is served, by page session or bearer token. */
export class DataApi {
  readonly #components: DataApiComponents;
  readonly #cookie: string;
  #feed: EventFeed | undefined;
  #closed = false;

  constructor(components: DataApiComponents, init: { cookie: string }) {
    this.#components = components;
    this.#cookie = init.cookie;
  }

  get routes(): readonly Route[] {
    const session: Route = { path: '/api/session', exact: true, public: true, serve: (one) => this.#openSession(one) };
    const admit = (request: IncomingMessage) => this.#admit(request);
    const serve = (exchange: Exchange) => this.#serve(exchange);
    // Exact, because cards of agents are below `/api/agents`.
    const reads = ['/api/agents', '/api/messages', '/api/events'].map((path) => ({ path, exact: true, admit, serve }));
    return [session, { path: '/api/waiting', admit, serve }, ...reads];
  }

  close(): void {
    this.#closed = true;
    this.#feed?.close();
  }

  /** The owner by a page session; undefined for a request without one. */
  #admit({ headers, method }: IncomingMessage): AuthenticatedCaller | undefined {
    const cookie = cookieOf(headers, this.#cookie);
    if (headers.authorization !== undefined || cookie === undefined) return undefined;
    requireOwnOrigin(headers);
    const key = headers[KEY_HEADER];
    const id = typeof key === 'string' ? this.#components.sessions.find(cookie, key) : undefined;
    if (id === undefined) {
      const message = `the page’s session has ended, or ${method} came without its key; get another link: ecliptic open`;
      throw new EclipticError('TOKEN_REQUIRED', message);
    }
    return { principal: OPERATOR, token: id };
  }

  async #openSession({ request, response }: Exchange): Promise<void> {
    requireMethod(request, 'POST');
    requireOwnOrigin(request.headers);
    const { token } = await readJson(request, LinkSchema);
    const { cookie, key } = this.#components.sessions.open(token);
    // Not `Secure`: a node serves loopback without TLS.
    const attributes = `Path=/api; HttpOnly; SameSite=Strict; Max-Age=${SESSION_MS / 1_000}`;
    response.always['Set-Cookie'] = `${this.#cookie}=${cookie}; ${attributes}`;
    response.always['Cache-Control'] = 'no-store';
    sendJson(response, 200, { key });
  }

  async #serve(exchange: Exchange): Promise<void> {
    const { request, response, path, principal } = exchange;
    if (principal !== OPERATOR) {
      throw new EclipticError('SCOPE_REQUIRED', 'only the owner of the node is served here', { scope: 'owner' });
    }
    response.always['Cache-Control'] = 'no-store';
    const source = await this.#components.source;
    if (path.startsWith('/api/waiting/')) return this.#answer(exchange, source);
    requireMethod(request, 'GET');
    switch (path) {
      case '/api/waiting':
        return sendJson(response, 200, await source.waiting());
      case '/api/agents':
        return sendJson(response, 200, { agents: await source.agents() });
      case '/api/messages':
        return sendJson(response, 200, { messages: await source.messages(limitOf(exchange)) });
      case '/api/events': {
        if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
        this.#feed ??= new EventFeed(this.#components.runtime, source);
        const last = request.headers['last-event-id'];
        return this.#feed.open(response, typeof last === 'string' ? last : undefined);
      }
      default:
        throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${path}`);
    }
  }

  async #answer({ request, response, path }: Exchange, source: DashboardSource): Promise<void> {
    requireMethod(request, 'POST');
    const id = decoded(path.slice('/api/waiting/'.length));
    const { action, text } = await readJson(request, AnswerSchema);
    const answered = await source.answer(id, action, text);
    sendJson(response, 200, answered);
    await this.#feed?.refresh();
  }
}

function requireMethod({ method }: IncomingMessage, wanted: 'GET' | 'POST'): void {
  if (method === wanted) return;
  throw new EclipticError('METHOD_NOT_FOUND', `${method} is not served here; use ${wanted}`);
}

function limitOf({ query }: Exchange): number {
  const given = query.get('limit');
  if (given === null) return DEFAULT_MESSAGES;
  const limit = Number(given);
  if (/^\d{1,6}$/.test(given) && limit > 0) return Math.min(limit, MAX_MESSAGES);
  throw new EclipticError('INVALID_PARAMS', '"limit" must be a whole number above 0');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    throw new EclipticError('INVALID_PARAMS', 'the id in the path is not encoded correctly', {}, error);
  }
}

async function readJson<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  requireJsonBody(request.headers);
  const body = await readBody(request, MAX_BODY);
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new EclipticError('INVALID_JSON', 'the body is not JSON', {}, error);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new EclipticError('INVALID_PARAMS', `${path.join('.') || 'the body'}: ${message}`);
}
