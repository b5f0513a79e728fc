import { asContent } from '../mcp/result-text.js';
import { type ErrorCode, toEclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import type { Id, Relay, RpcMessage } from './relay.js';
import type { Answer } from './tools/tool.js';

/** What stands behind the tools, once it is there. */
export interface Backend {
  call(tool: string, args: unknown, call: BackendCall): Promise<Answer>;
  /** A tool of another agent is called: that, too, shows that the client took in what it was given. */
  heard(evidence: Evidence): Promise<void>;
}

/** What a call shows, whatever it calls. */
export interface Evidence {
  /** Messages in answers that have been written. */
  readonly seen: readonly string[];
  /** The client's name for the session that calls, where it tells it. */
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
  /** Writes one line; `written` is called when the client has it. */
  readonly write: (line: string, written: () => void) => void;
  /** Gets the mesh, for a client of that name and version; called when the client has said who it is. */
  readonly join: (client: string, version: string | undefined) => Promise<Backend>;
  /** The way to everything that agents offer, where the client gets that too. */
  readonly relay?: Relay | undefined;
}

type Params = Readonly<Record<string, unknown>>;

const MODERN = '2026-07-28';
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const META = 'io.modelcontextprotocol/';
/** How long a client may keep the list of tools, which never changes. */
const LIST_TTL_MS = 3_600_000;
/** How long the list of tools waits for those of other agents. */
const LIST_WAIT_MS = 500;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const UNSUPPORTED_VERSION = -32022;

/**
 * Speaks MCP with the program that started this process: both its eras, the few methods that a list of tools needs.
 * Who asks what there is is answered at once; only a call waits for the mesh.
 */
export class StdioServer {
  readonly #init: StdioServerInit;
  readonly #running = new Map<Id, AbortController>();
  /** Requests that others answer. */
  readonly #passedOn = new Set<Id>();
  #backend: Promise<Backend> | undefined;
  #client = 'agent';
  #version: string | undefined;
  #number = 0;
  /** Messages in answers that were written since the last call was passed on. */
  #seen: string[] = [];
  #onIdle: (() => void) | undefined;
  /** Was the client told of its own tools only? */
  #owesList = false;

  constructor(init: StdioServerInit) {
    this.#init = init;
    const { relay } = init;
    if (!relay) return;
    relay.onMessage = (message) => this.#write(message);
    relay.onReady = (again) => this.#tellOfChanges(again);
  }

  /** Takes one line from the client. */
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
    const said = message as RpcMessage;
    const { id, method, params = {} } = said;
    // An answer to something: this side asks nothing.
    if (typeof method !== 'string') this.#init.relay?.tell(said);
    else if (id === undefined) this.#notified(said);
    else this.#asked({ id, method, params });
  }

  /** Messages that the client has been given, and that no call has proven yet. */
  get unproven(): readonly string[] {
    return this.#seen;
  }

  /** Resolves when every call has been answered. */
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
    // Each node is told so when it is greeted.
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
    const meta = (params._meta ?? {}) as Readonly<Record<string, unknown>>;
    const version = meta[`${META}protocolVersion`];
    const modern = version !== undefined;
    if (modern) {
      if (version !== MODERN) {
        const data = { supported: [MODERN, ...LEGACY], requested: version };
        this.#fail(id, UNSUPPORTED_VERSION, `protocol version ${String(version)} is not spoken here`, data);
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

  /** Others answer it. */
  async #passOn(relay: Relay, request: RpcMessage & { id: Id }): Promise<void> {
    this.#passedOn.add(request.id);
    this.#write(forModel(request.method, await relay.ask(request)));
    this.#passedOn.delete(request.id);
    this.#checkIdle();
  }

  /** The own tools first, which are there whatever becomes of the others; of those the client is told when they come. */
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

  /** Clients of the older era are told by themselves; those of the newer ask for it, or look when their list is old. */
  #tellOfChanges(again: boolean): void {
    if (this.#init.relay?.greeting !== undefined) {
      const changed = [...(again || this.#owesList ? ['tools'] : []), ...(again ? ['resources', 'prompts'] : [])];
      for (const what of changed) this.#write({ method: `notifications/${what}/list_changed` });
    }
    this.#owesList = false;
  }

  /** A call of somebody else's tool shows as well that what was written before was taken in. */
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
    // The mesh is joined in the background: who only asks what there is need not wait for it.
    this.#backend ??= this.#join();
  }

  #join(): Promise<Backend> {
    const joining = this.#init.join(this.#client, this.#version);
    // Whoever calls next tries again.
    joining.catch(() => {
      this.#backend = undefined;
    });
    return joining;
  }

  #call(id: Id, params: Params, modern: boolean): void {
    const { name, arguments: args = {}, _meta } = params;
    const thread = threadOf(_meta);
    if (!this.#init.tools.some((tool) => tool.name === name)) {
      this.#fail(id, INVALID_PARAMS, `there is no tool "${cutText(String(name), 100)}"`);
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
          // What was proven by this call must not be lost with it.
          this.#seen.unshift(...seen);
          return { shown: [], result: { content: [{ type: 'text', text: failureText(error) }], isError: true } };
        },
      )
      .then(({ shown, result }) => {
        this.#running.delete(id);
        this.#checkIdle();
        // A client that gave up reads no answer: it has not seen it.
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

/** What there is where everything that agents offer is passed on. */
const EVERYTHING = {
  tools: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  prompts: { listChanged: true },
  completions: {},
  logging: {},
};
const COMPLETE = { resultType: 'complete' };
const CACHED = { ttlMs: LIST_TTL_MS, cacheScope: 'public' };

/** Other agents' tools and their results, as every client's model can see the whole of them. */
function forModel(method: string | undefined, response: RpcMessage): RpcMessage {
  const { result } = response;
  if (!result) return response;
  if (method === 'tools/call') return { ...response, result: asContent(result) };
  if (method !== 'tools/list' || !Array.isArray(result.tools)) return response;
  return { ...response, result: { ...result, tools: result.tools.map(withoutOutput) } };
}

/** A client that is told a schema expects structured data, which would hide the content from its model. */
function withoutOutput(tool: object): object {
  const { outputSchema: _, ...rest } = tool as { outputSchema?: unknown };
  return rest;
}

/** Some clients say with each call which of their threads it comes from. */
function threadOf(meta: unknown): string | undefined {
  const { threadId } = (meta ?? {}) as { threadId?: unknown };
  return typeof threadId === 'string' && threadId !== '' ? cutText(threadId, 100) : undefined;
}

/** Faults of this machine or its set-up, which only the user can mend. */
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

/** The code comes first: several clients pass no mark of an error on to their model. */
function failureText(error: Error): string {
  const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
  const ending = FOR_THE_USER.has(code) ? '\nIf this goes on, tell your user and carry on with your work.' : '';
  return `Error ${code}: ${message}${ending}`;
}
