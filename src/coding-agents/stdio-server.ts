import { asContent } from '../mcp/result-text.js';
import { type ErrorCode, toEclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import type { Id, Relay, RpcMessage } from './relay.js';
import type { Answer } from './tools/tool.js';

export interface Backend {
  call(tool: string, args: unknown, call: BackendCall): Promise<Answer>;
  /** Reports that the client called a tool of another agent, which also proves that it received earlier answers. */
  heard(evidence: Evidence): Promise<void>;
}

export interface Evidence {
  /** Ids of messages in answers that the client has received. */
  readonly seen: readonly string[];
  /** The client's own id of the calling session, if it sends one. */
  readonly thread?: string | undefined;
}

interface BackendCall extends Evidence {
  readonly number: number;
  readonly signal: AbortSignal;
}

export interface StdioServerInit {
  readonly tools: readonly { readonly name: string }[];
  readonly instructions: string;
  readonly version: string;
  /** Writes one line; calls `written` when the client has it. */
  readonly write: (line: string, written: () => void) => void;
  /** Joins the mesh; called when the client has introduced itself. */
  readonly join: (client: string, version: string | undefined) => Promise<Backend>;
  /** Carries requests for other agents' tools, where the client gets those too. */
  readonly relay?: Relay | undefined;
}

type Params = Readonly<Record<string, unknown>>;

const MODERN = '2026-07-28';
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const META = 'io.modelcontextprotocol/';
/** How long a client may cache the list of tools, which never changes. */
const LIST_TTL_MS = 3_600_000;
/** How long `tools/list` waits for the tools of other agents. */
const LIST_WAIT_MS = 500;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const UNSUPPORTED_VERSION = -32022;

/**
 * Speaks MCP, in both its eras, with the program that started this process: only the methods that tools need. Lists
 * are answered at once; only a call waits for the mesh.
 */
export class StdioServer {
  readonly #init: StdioServerInit;
  readonly #running = new Map<Id, AbortController>();
  /** Ids of requests that the relay answers. */
  readonly #passedOn = new Set<Id>();
  #backend: Promise<Backend> | undefined;
  #client = 'agent';
  #version: string | undefined;
  #number = 0;
  /** Ids of messages in answers that were written since the last call. */
  #seen: string[] = [];
  #onIdle: (() => void) | undefined;
  /** The client got a list without the tools of other agents. */
  #owesList = false;

  constructor(init: StdioServerInit) {
    this.#init = init;
    const { relay } = init;
    if (!relay) return;
    relay.onMessage = (message) => this.#write(message);
    relay.onReady = (again) => this.#tellOfChanges(again);
  }

  take(line: string): void {
    if (line.trim() === '') return;
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.#fail(null, PARSE_ERROR, 'Parse error');
      return;
    }
    if (typeof message !== 'object' || message === null || Array.isArray(message)) {
      this.#fail(null, INVALID_REQUEST, 'a message is one JSON object');
      return;
    }
    const { id, method, params } = message as RpcMessage;
    // A message without a method answers a request that came through the relay.
    if (typeof method !== 'string') this.#init.relay?.tell(message);
    else if (id === undefined) this.#notified({ ...message, params: fieldsOf(params) });
    else if (typeof id !== 'string' && typeof id !== 'number') {
      this.#fail(null, INVALID_REQUEST, 'the id of a request is a text or a number');
    } else this.#asked({ id, method, params: fieldsOf(params) });
  }

  /** Ids of messages that the client was given and that no call has proven yet. */
  get unproven(): readonly string[] {
    return this.#seen;
  }

  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      this.#checkIdle();
    });
  }

  #checkIdle(): void {
    if (this.#running.size + this.#passedOn.size === 0) this.#onIdle?.();
  }

  #notified(notification: RpcMessage): void {
    const { method, params } = notification;
    // The relay sends it to each node that it greets.
    if (method === 'notifications/initialized') return;
    const id = params?.requestId as Id;
    const running = method === 'notifications/cancelled' ? this.#running.get(id) : undefined;
    if (running) {
      running.abort();
      return;
    }
    this.#init.relay?.tell(notification);
    if (method !== 'notifications/cancelled') return;
    this.#init.relay?.forget(id);
    this.#passedOn.delete(id);
    this.#checkIdle();
  }

  #asked(request: RpcMessage & { id: Id; method: string; params: Params }): void {
    const { id, method, params } = request;
    const { relay, tools } = this.#init;
    const meta = fieldsOf(params._meta);
    const version = meta[`${META}protocolVersion`];
    const modern = version !== undefined;
    if (modern) {
      if (version !== MODERN) {
        const data = { supported: [MODERN, ...LEGACY], requested: version };
        this.#fail(id, UNSUPPORTED_VERSION, `protocol version ${shown(version)} is not supported`, data);
        return;
      }
      this.#meet(meta[`${META}clientInfo`]);
    }
    switch (method) {
      case 'initialize':
        if (relay) relay.greeting = params;
        this.#meet(params.clientInfo);
        this.#answer(id, this.#initialized(params.protocolVersion));
        break;
      case 'server/discover':
        this.#answer(id, {
          ...COMPLETE,
          supportedVersions: [MODERN, ...LEGACY],
          capabilities: this.#capabilities,
          instructions: this.#init.instructions,
          ...CACHED,
          _meta: { [`${META}serverInfo`]: this.#info },
        });
        break;
      case 'tools/list':
        if (!relay) this.#answer(id, { tools, ...(modern && { ...COMPLETE, ...CACHED }) });
        else if (tools.length > 0 && params.cursor === undefined) void this.#listAll(relay, request, modern);
        else void this.#passOn(relay, request);
        break;
      case 'tools/call':
        if (!relay || tools.some(({ name }) => name === params.name)) this.#call(id, params, modern);
        else {
          this.#prove(threadOf(params._meta));
          void this.#passOn(relay, request);
        }
        break;
      case 'ping':
        this.#answer(id, {});
        break;
      default:
        if (relay) void this.#passOn(relay, request);
        else this.#fail(id, METHOD_NOT_FOUND, `there is no method "${cutText(method, 100)}"`);
    }
  }

  #initialized(wanted: unknown): object {
    const protocolVersion = LEGACY.includes(wanted as string) ? wanted : LEGACY[0];
    const { instructions } = this.#init;
    return { protocolVersion, capabilities: this.#capabilities, serverInfo: this.#info, instructions };
  }

  get #capabilities(): object {
    return this.#init.relay ? EVERYTHING : { tools: {} };
  }

  async #passOn(relay: Relay, request: RpcMessage & { id: Id }): Promise<void> {
    this.#passedOn.add(request.id);
    this.#write(forModel(request.method, await relay.ask(request)));
    this.#passedOn.delete(request.id);
    this.#checkIdle();
  }

  /** Lists the mesh tools at once if the others do not come in time; the client is notified when they do. */
  async #listAll(relay: Relay, request: RpcMessage & { id: Id }, modern: boolean): Promise<void> {
    const { tools } = this.#init;
    const { result } = (await relay.askWithin(request, LIST_WAIT_MS)) ?? {};
    if (result) {
      this.#answer(request.id, { ...result, tools: [...tools, ...(result.tools as object[]).map(withoutOutput)] });
      return;
    }
    this.#owesList = true;
    this.#answer(request.id, { tools, ...(modern && { ...COMPLETE, ...CACHED, ttlMs: 0 }) });
  }

  /** Only clients of the older era are notified; those of the newer subscribe, or list again when the cache expires. */
  #tellOfChanges(again: boolean): void {
    if (this.#init.relay?.greeting !== undefined) {
      const changed = [...(again || this.#owesList ? ['tools'] : []), ...(again ? ['resources', 'prompts'] : [])];
      for (const what of changed) this.#write({ method: `notifications/${what}/list_changed` });
    }
    this.#owesList = false;
  }

  /** A call of another agent's tool also proves that the client received earlier answers. */
  #prove(thread: string | undefined): void {
    const seen = this.#seen;
    this.#seen = [];
    this.#backend ??= this.#join();
    this.#backend.then((backend) => backend.heard({ seen, thread })).catch(() => this.#seen.unshift(...seen));
  }

  get #info(): object {
    return { name: 'ecliptic', title: 'Ecliptic', version: this.#init.version };
  }

  #meet(info: unknown): void {
    const { name, version } = (info ?? {}) as { name?: unknown; version?: unknown };
    if (typeof name === 'string' && name !== '') this.#client = cutText(name, 100);
    if (typeof version === 'string') this.#version = cutText(version, 100);
    // Join in the background: lists do not wait for the mesh.
    this.#backend ??= this.#join();
  }

  #join(): Promise<Backend> {
    const joining = this.#init.join(this.#client, this.#version);
    // The next call tries again.
    joining.catch(() => {
      this.#backend = undefined;
    });
    return joining;
  }

  #call(id: Id, params: Params, modern: boolean): void {
    const { name, arguments: args = {}, _meta } = params;
    const thread = threadOf(_meta);
    if (!this.#init.tools.some((tool) => tool.name === name)) {
      this.#fail(id, INVALID_PARAMS, `there is no tool "${shown(name)}"`);
      return;
    }
    const number = ++this.#number;
    const gone = new AbortController();
    this.#running.set(id, gone);
    const seen = this.#seen;
    this.#seen = [];
    this.#backend ??= this.#join();
    this.#backend
      .then((backend) => backend.call(name as string, args, { number, seen, thread, signal: gone.signal }))
      .then(
        ({ text, isError = false, shown = [] }) => {
          return { shown, result: { content: [{ type: 'text', text }], ...(isError && { isError }) } };
        },
        (error: Error) => {
          // The next call proves these messages read.
          this.#seen.unshift(...seen);
          return { shown: [], result: { content: [{ type: 'text', text: failureText(error) }], isError: true } };
        },
      )
      .then(({ shown, result }) => {
        this.#running.delete(id);
        this.#checkIdle();
        // A client that gave up does not read the answer.
        if (gone.signal.aborted) return;
        const written = () => void this.#seen.push(...shown);
        this.#write({ id, result: modern ? { ...result, ...COMPLETE } : result }, written);
      });
  }

  #answer(id: Id, result: object): void {
    this.#write({ id, result });
  }

  #fail(id: Id | null, code: number, message: string, data?: unknown): void {
    this.#write({ id, error: { code, message, ...(data !== undefined && { data }) } });
  }

  #write(message: object, written = () => {}): void {
    this.#init.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`, written);
  }
}

const EVERYTHING = {
  tools: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  prompts: { listChanged: true },
  completions: {},
  logging: {},
};
const COMPLETE = { resultType: 'complete' };
const CACHED = { ttlMs: LIST_TTL_MS, cacheScope: 'public' };

/** Rewrites tools and results of other agents so that every client shows its model all of them. */
function forModel(method: string | undefined, response: RpcMessage): RpcMessage {
  const { result } = response;
  if (!result) return response;
  if (method === 'tools/call') return { ...response, result: asContent(result) };
  if (method !== 'tools/list' || !Array.isArray(result.tools)) return response;
  return { ...response, result: { ...result, tools: result.tools.map(withoutOutput) } };
}

/** With an output schema, clients expect structured data and hide the content from their model. */
function withoutOutput(tool: object): object {
  const { outputSchema: _, ...rest } = tool as { outputSchema?: unknown };
  return rest;
}

function fieldsOf(value: unknown): Params {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Params) : {};
}

/** Any JSON in a message for people. Its own conversion to text may be a member of it. */
function shown(value: unknown): string {
  return cutText(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''), 100);
}

/** Some clients send the id of the calling thread with each call. */
function threadOf(meta: unknown): string | undefined {
  const { threadId } = (meta ?? {}) as { threadId?: unknown };
  return typeof threadId === 'string' && threadId !== '' ? cutText(threadId, 100) : undefined;
}

/** Faults of this machine or its set-up, which only the user can repair. */
const FOR_THE_USER: ReadonlySet<ErrorCode> = new Set([
  'CREDENTIAL_DENIED',
  'CREDENTIAL_MISSING',
  'CREDENTIAL_UNREADABLE',
  'DATA_FOLDER',
  'INVALID_CONFIG',
  'INVALID_FRAME',
  'LOGIN_REQUIRED',
  'METHOD_NOT_FOUND',
  'NO_NODE',
  'PROTOCOL_MISMATCH',
  'STORE_DAMAGED',
  'STORE_FAILED',
]);

/** The text begins with the code, because several clients do not tell their model that a result is an error. */
function failureText(error: Error): string {
  const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
  const ending = FOR_THE_USER.has(code) ? '\nIf this goes on, tell your user and carry on with your work.' : '';
  return `Error ${code}: ${message}${ending}`;
}
