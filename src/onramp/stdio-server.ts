import type { Answer } from './member-context.js';

/** What stands behind the tools, once it is there. */
export interface Backend {
  call(tool: string, args: unknown, call: BackendCall): Promise<Answer>;
}

interface BackendCall {
  readonly number: number;
  /** Messages in answers that have been written. */
  readonly seen: readonly string[];
  /** The client's name for the session that calls, where it tells it. */
  readonly thread?: string | undefined;
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
}

type Id = string | number;

interface Request {
  readonly id?: Id;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

const MODERN = '2026-07-28';
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const META = 'io.modelcontextprotocol/';
/** How long a client may keep the list of tools, which never changes. */
const LIST_TTL_MS = 3_600_000;
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
  #backend: Promise<Backend> | undefined;
  #client = 'agent';
  #version: string | undefined;
  #number = 0;
  /** Messages in answers that were written since the last call was passed on. */
  #seen: string[] = [];
  #onIdle: (() => void) | undefined;

  constructor(init: StdioServerInit) {
    this.#init = init;
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
    const request = message as Request;
    // An answer to something: this side asks nothing.
    if (typeof request.method !== 'string') return;
    if (request.id === undefined) this.#notified(request);
    else this.#asked(request.id, request.method, request.params ?? {});
  }

  /** Messages that the client has been given, and that no call has proven yet. */
  get unproven(): readonly string[] {
    return this.#seen;
  }

  /** Resolves when every call has been answered. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      if (this.#running.size === 0) resolve();
    });
  }

  #notified({ method, params }: Request): void {
    if (method === 'notifications/cancelled') this.#running.get(params?.requestId as Id)?.abort();
  }

  #asked(id: Id, method: string, params: Readonly<Record<string, unknown>>): void {
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
        this.#meet(params.clientInfo);
        this.#answer(id, this.#initialized(params.protocolVersion));
        break;
      case 'server/discover':
        this.#answer(id, {
          ...COMPLETE,
          supportedVersions: [MODERN, ...LEGACY],
          capabilities: { tools: {} },
          instructions: this.#init.instructions,
          ...CACHED,
          _meta: { [`${META}serverInfo`]: this.#info },
        });
        break;
      case 'tools/list':
        this.#answer(id, { tools: this.#init.tools, ...(modern && { ...COMPLETE, ...CACHED }) });
        break;
      case 'tools/call':
        this.#call(id, params, modern);
        break;
      case 'ping':
        this.#answer(id, {});
        break;
      default:
        this.#fail(id, METHOD_NOT_FOUND, `there is no method "${method.slice(0, 100)}"`);
    }
  }

  #initialized(wanted: unknown): object {
    const protocolVersion = LEGACY.includes(wanted as string) ? wanted : LEGACY[0];
    const { instructions } = this.#init;
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: this.#info, instructions };
  }

  get #info(): object {
    return { name: 'ecliptic', title: 'Ecliptic', version: this.#init.version };
  }

  #meet(info: unknown): void {
    const { name, version } = (info ?? {}) as { name?: unknown; version?: unknown };
    if (typeof name === 'string' && name !== '') this.#client = name.slice(0, 100);
    if (typeof version === 'string') this.#version = version.slice(0, 100);
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

  #call(id: Id, params: Readonly<Record<string, unknown>>, modern: boolean): void {
    const { name, arguments: args = {}, _meta } = params;
    const thread = threadOf(_meta);
    if (!this.#init.tools.some((tool) => tool.name === name)) {
      this.#fail(id, INVALID_PARAMS, `there is no tool "${String(name).slice(0, 100)}"`);
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
        ({ text, structured, shown = [] }) => {
          return { shown, result: { content: [{ type: 'text', text }], structuredContent: structured } };
        },
        (error: Error) => {
          // What was proven by this call must not be lost with it.
          this.#seen.unshift(...seen);
          return { shown: [], result: { content: [{ type: 'text', text: failureText(error) }], isError: true } };
        },
      )
      .then(({ shown, result }) => {
        this.#running.delete(id);
        if (this.#running.size === 0) this.#onIdle?.();
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

const COMPLETE = { resultType: 'complete' };
const CACHED = { ttlMs: LIST_TTL_MS, cacheScope: 'public' };

/** Some clients say with each call which of their threads it comes from. */
function threadOf(meta: unknown): string | undefined {
  const { threadId } = (meta ?? {}) as { threadId?: unknown };
  return typeof threadId === 'string' && threadId !== '' ? threadId.slice(0, 100) : undefined;
}

/** The next step is in the text; if there is none, this is it. */
function failureText({ message }: Error): string {
  return `${message}\nIf this goes on, tell your user and carry on with your work.`;
}
