import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { type AuthenticatedCaller, OPERATOR } from '../auth/caller-auth.js';
import type { Scope } from '../auth/tokens.js';
import { type Exchange, type Route, readBody, requireJsonBody, sendJson } from '../server/http-server.js';
import { EventFeed, type FeedRead } from './event-feed.js';
import type { DashboardSource, PageOperation, Viewer } from './facts.js';
import { openApi } from './open-api.js';
import { cookiesOf, KEY_HEADER, type PageSessions, requireOwnOrigin, SESSION_MS } from './page-sessions.js';

export interface DataApiComponents {
  runtime: Runtime;
  sessions: PageSessions;
  /** Resolves when the node has started; requests wait for it. */
  source: Promise<DashboardSource>;
}

export interface DataApiInit {
  /** The name of the session's cookie. */
  cookie: string;
  operations: readonly PageOperation[];
}

const MAX_BODY = 1_048_576;
const MAX_READS = 16;
const MAX_COOKIES = 8;
const MAX_KEY_CHARS = 1_024;

/** Parameters of the stream of events. */
const FOLLOW_NAMES: ReadonlySet<string> = new Set(['read', 'agent', 'refused']);

const LinkSchema = z.strictObject({ token: z.string().min(1).max(256) });
const ParamsSchema = z.record(z.string(), z.unknown());

/**
 * `/api/`: operations of the control API over HTTP, and the stream of events. The owner comes by page session or bearer
 * token; other tokens may use the shared reads only.
 */
export class DataApi {
  readonly #components: DataApiComponents;
  readonly #init: DataApiInit;
  readonly #operations: ReadonlyMap<string, PageOperation>;
  #feed: EventFeed | undefined;
  #closed = false;

  constructor(components: DataApiComponents, init: DataApiInit) {
    this.#components = components;
    this.#init = init;
    this.#operations = new Map(init.operations.map((operation) => [operation.name, operation]));
  }

  get routes(): readonly Route[] {
    const admit = (request: IncomingMessage) => this.#admit(request);
    const at = (path: string, serve: Route['serve'], scope?: Scope): Route => {
      return { path: `/api/${path}`, exact: true, admit, serve, scope };
    };
    return [
      { path: '/api/session', exact: true, public: true, serve: (exchange) => this.#openSession(exchange) },
      at('openapi.json', ({ response }) => sendJson(response, 200, openApi(this.#init.operations))),
      at('events', (exchange) => this.#follow(exchange), 'tasks'),
      ...this.#init.operations.map((one) => at(one.name, (exchange) => this.#run(one, exchange), scopeOf(one))),
    ];
  }

  close(): void {
    this.#closed = true;
    this.#feed?.close();
  }

  /** The owner by a page session; undefined for a request without one. */
  #admit({ headers, method }: IncomingMessage): AuthenticatedCaller | undefined {
    const cookies = cookiesOf(headers, this.#init.cookie).slice(0, MAX_COOKIES);
    if (headers.authorization !== undefined || cookies.length === 0) return undefined;
    requireOwnOrigin(headers);
    const key = String(headers[KEY_HEADER] ?? '');
    const [id] = cookies.flatMap((cookie) => this.#components.sessions.find(cookie, key) ?? []);
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
    response.always['Set-Cookie'] = `${this.#init.cookie}=${cookie}; ${attributes}`;
    response.always['Cache-Control'] = 'no-store';
    sendJson(response, 200, { key });
  }

  async #run(operation: PageOperation, exchange: Exchange): Promise<void> {
    const { request, response, query } = exchange;
    const viewer = viewerOf(exchange);
    requireShared(operation, viewer);
    requireMethod(request, operation.kind === 'read' ? 'GET' : 'POST');
    const params = operation.kind === 'read' ? paramsOf(operation, query) : await readJson(request, ParamsSchema);
    requireKnown(operation, Object.keys(params));
    const source = await this.#components.source;
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const result = await source.run(operation.name, params, gone.signal, viewer);
    response.always['Cache-Control'] = 'no-store';
    sendJson(response, 200, result ?? null);
    if (operation.kind === 'action') await this.#feed?.refresh();
  }

  async #follow(exchange: Exchange): Promise<void> {
    const { request, response, query } = exchange;
    requireMethod(request, 'GET');
    const viewer = viewerOf(exchange);
    for (const name of query.keys()) {
      if (!FOLLOW_NAMES.has(name)) throw new EclipticError('INVALID_PARAMS', `there is no parameter "${cut(name)}"`);
    }
    const refused = query.get('refused') ?? 'false';
    if (refused !== 'true' && refused !== 'false') {
      throw new EclipticError('INVALID_PARAMS', '"refused" must be true or false');
    }
    const keys = [...new Set(query.getAll('read'))];
    if (keys.length > MAX_READS) {
      throw new EclipticError('INVALID_PARAMS', `one stream follows at most ${MAX_READS} reads`);
    }
    const reads = keys.map((key) => this.#read(key, viewer));
    const source = await this.#components.source;
    if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
    this.#feed ??= new EventFeed(this.#components.runtime, source);
    const last = request.headers['last-event-id'];
    await this.#feed.open(response, {
      lastEventId: typeof last === 'string' ? last : undefined,
      reads,
      // Messages are the owner's to see.
      messages: viewer ? undefined : { agent: query.get('agent'), refused: refused === 'true' },
      viewer: viewer?.address,
    });
  }

  /** A read to follow: the name of an operation with its query. */
  #read(key: string, viewer: Viewer | undefined): FeedRead {
    const mark = key.indexOf('?');
    const name = mark < 0 ? key : key.slice(0, mark);
    const operation = this.#operations.get(name);
    if (operation?.kind !== 'read' || key.length > MAX_KEY_CHARS) {
      throw new EclipticError('INVALID_PARAMS', `"${key.slice(0, 100)}" cannot be followed: there is no such read`);
    }
    requireShared(operation, viewer);
    if (viewer && scopeOf(operation) !== 'tasks') {
      throw new EclipticError('SCOPE_REQUIRED', `only the owner of the node may follow "${name}"`, { scope: 'owner' });
    }
    const params = paramsOf(operation, new URLSearchParams(mark < 0 ? '' : key.slice(mark + 1)));
    requireKnown(operation, Object.keys(params));
    return { key, name, params, viewer };
  }
}

/** Undefined for the owner. */
function viewerOf({ principal }: Exchange): Viewer | undefined {
  return principal === OPERATOR ? undefined : principal;
}

function requireShared({ name, shared }: PageOperation, viewer: Viewer | undefined): void {
  if (shared || !viewer) return;
  throw new EclipticError('SCOPE_REQUIRED', `only the owner of the node may use "${name}"`, { scope: 'owner' });
}

function requireMethod({ method }: IncomingMessage, wanted: 'GET' | 'POST'): void {
  if (method === wanted) return;
  throw new EclipticError('METHOD_NOT_FOUND', `${method} is not served here; use ${wanted}`);
}

/** The parameters of a query; numbers and booleans as the operation's schema says. */
function paramsOf({ params }: PageOperation, query: URLSearchParams): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const [name, text] of query) {
    if (Object.hasOwn(given, name)) {
      throw new EclipticError('INVALID_PARAMS', `the parameter "${cut(name)}" is given twice`);
    }
    const type = params.properties?.[name]?.type;
    if (type === 'number' || type === 'integer') given[name] = text.trim() === '' ? text : Number(text);
    else if (type === 'boolean' && (text === 'true' || text === 'false')) given[name] = text === 'true';
    else given[name] = text;
  }
  return given;
}

function requireKnown({ params }: PageOperation, names: readonly string[]): void {
  const unknown = names.find((name) => !Object.hasOwn(params.properties ?? {}, name));
  if (unknown === undefined) return;
  throw new EclipticError('INVALID_PARAMS', `there is no parameter "${cut(unknown)}"`);
}

/** Tools are for tokens that may use MCP, the other shared reads for those that may use A2A. */
function scopeOf({ name }: PageOperation): Scope {
  return name === 'tools' ? 'tools' : 'tasks';
}

function cut(name: string): string {
  return cutText(name, 100);
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
