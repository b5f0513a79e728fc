import { type Ask, type CallTerms, needsInput } from '../../mcp/call.js';
import type { Offer } from '../../mcp/catalogue.js';
import type { ToolDefinition } from '../../mcp/definitions.js';
import type { RelayedCall } from '../../mcp/upstream/relay.js';
import type { Upstream, UpstreamNews } from '../../mcp/upstream/upstream.js';
import { Deferred, within } from '../../runtime/async.js';
import { Callbacks } from '../../runtime/callbacks.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { SupervisedState } from '../../system/process/supervision.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderCrash,
  type ProviderHealthStatus,
} from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeAbort, normalizeError } from '../adapter/errors.js';
import type { ProviderEvents } from '../adapter/events.js';

export interface MCPConfig {
  /** Name of the server in the configuration. */
  readonly server: string;
  /** Limit for one call. Default 60,000. */
  readonly timeoutMs?: number | undefined;
  /** Does `init` succeed although the server cannot be reached yet, because it is tried again? Default false. */
  readonly keepTrying?: boolean | undefined;
}

export interface MCPToolInvocation {
  readonly toolName: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** In milliseconds. Default: the server's. */
  readonly timeout?: number | undefined;
}

export interface MCPToolResult {
  readonly toolName: string;
  readonly result: unknown;
  readonly duration: number;
  readonly correlationId: string;
}

/** A connection to an MCP server, kept up by its owner. */
export type MCPServerConnection = Pick<
  Upstream,
  'state' | 'absence' | 'status' | 'tools' | 'start' | 'stop' | 'ask' | 'watch'
>;

export interface MCPBridgeComponents {
  runtime: Runtime;
  events: ProviderEvents;
  open: (server: string) => MCPServerConnection;
}

const CALL_MS = 60_000;
const HEALTH_MS = 4_500;
/** `init` may take 5 s. */
const PATIENCE_MS = 4_500;

/**
 * An MCP server as a provider: health checks, calls of its tools by name, and calls of its entries in the catalogue,
 * which are relayed unchanged.
 */
export class MCPBridgeAdapter
  implements ProviderAdapter<MCPConfig, MCPToolInvocation | RelayedCall, MCPToolResult | unknown>
{
  readonly type = 'mcp';
  readonly #id: string;
  readonly #components: MCPBridgeComponents;
  readonly #crashed: Callbacks<[crash: ProviderCrash]>;
  readonly #ready: Callbacks<[]>;
  readonly #inFlight = new Set<AbortController>();
  #config: MCPConfig | undefined;
  #upstream: MCPServerConnection | undefined;
  #stopWatching: (() => void) | undefined;
  /** Was the server connected before, and is no longer? */
  #lost = false;
  #running = false;
  #tools: readonly string[] | undefined;

  constructor(id: string, components: MCPBridgeComponents) {
    this.#id = id;
    this.#components = components;
    const { callbackFailed } = components.events;
    this.#crashed = new Callbacks(`onCrash of provider ${id}`, callbackFailed);
    this.#ready = new Callbacks(`onReady of provider ${id}`, callbackFailed);
  }

  async init(config: MCPConfig): Promise<void> {
    await this.terminate();
    try {
      const upstream = this.#components.open(config.server);
      this.#config = config;
      this.#upstream = upstream;
      this.#running = upstream.state.kind === 'running';
      this.#stopWatching = upstream.watch((news) => this.#hear(news));
      upstream.start();
      await this.#settled(upstream, config);
    } catch (error) {
      await this.terminate();
      throw normalizeError(error, 'mcp');
    }
  }

  async health(): Promise<ProviderHealthStatus> {
    const absence = this.#upstream?.absence;
    // A server that is known to be absent needs no three failed checks.
    if (absence) this.#crashed.call({ error: normalizeError(absence, 'mcp') });
    try {
      await this.#inTime(HEALTH_MS, undefined, (signal) => this.#require().ask(signal));
      return { state: 'healthy', lastCheck: new Date(this.#components.runtime.now()), failureCount: 0 };
    } catch (error) {
      throw normalizeError(error, 'mcp');
    }
  }

  execute(input: RelayedCall, correlationId: string, terms?: ExecuteTerms): Promise<unknown>;
  execute(input: MCPToolInvocation, correlationId: string, terms?: ExecuteTerms): Promise<MCPToolResult>;
  async execute(
    input: MCPToolInvocation | RelayedCall,
    correlationId: string,
    terms: ExecuteTerms = {},
  ): Promise<unknown> {
    const { runtime, events } = this.#components;
    const began = runtime.stopwatch();
    const { kind, details } = whatOf(input);
    const tell = (success: boolean, code?: string, reason?: string) => {
      const duration = runtime.stopwatch() - began;
      events.emit(success ? `provider.mcp.${kind}.completed` : `provider.mcp.${kind}.failed`, {
        provider: this.#id,
        providerType: 'mcp',
        correlationId,
        agent: terms.caller,
        duration,
        details,
        success,
        code,
        reason,
      });
      return duration;
    };
    try {
      if ('relay' in input) {
        const result = await this.#relay(input, correlationId);
        tell(true);
        return result;
      }
      const result = await this.#invoke(input, correlationId, terms);
      return { toolName: input.toolName, result, duration: tell(true), correlationId };
    } catch (error) {
      const failure = normalizeError(error, 'mcp', correlationId);
      tell(false, failure.code, failure.message);
      throw failure;
    }
  }

  async terminate(): Promise<void> {
    const upstream = this.#upstream;
    this.#upstream = undefined;
    this.#config = undefined;
    this.#tools = undefined;
    this.#lost = false;
    this.#stopWatching?.();
    const reason = new NormalizedProviderError('PROVIDER_TERMINATED', `${this.#id} was ended`, 'mcp');
    for (const flight of this.#inFlight) flight.abort(reason);
    await upstream?.stop();
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#crashed.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  describe(): Readonly<Record<string, unknown>> {
    const upstream = this.#upstream;
    return upstream ? { ...upstream.status, tools: this.listTools() } : {};
  }

  listTools(): string[] {
    return this.#upstream?.tools.map(({ definition }) => definition.name) ?? [];
  }

  getToolSchema(toolName: string): Pick<ToolDefinition, 'description' | 'inputSchema' | 'outputSchema'> {
    const { description, inputSchema, outputSchema } = this.#tool(toolName).definition;
    return { description, inputSchema, outputSchema };
  }

  /** The caller limits the time. When the server ends, so do its calls. */
  async #relay({ ask, terms, relay }: RelayedCall, correlationId: string): Promise<unknown> {
    this.#require();
    try {
      const result = await relay();
      const said = ask.kind === 'tool' ? failureIn(result, ask.name) : undefined;
      if (said === undefined) return result;
      throw new ToolFailure(said, correlationId, result);
    } catch (error) {
      throw terms.signal.aborted ? normalizeAbort(terms.signal, 'mcp', correlationId) : error;
    }
  }

  async #invoke(input: MCPToolInvocation, correlationId: string, terms: ExecuteTerms): Promise<unknown> {
    const { toolName, timeout = this.#config?.timeoutMs ?? CALL_MS } = input;
    const offer = this.#tool(toolName);
    const args = input.arguments ?? {};
    const result = await this.#inTime(timeout, terms.signal, (signal) =>
      offer.answer(
        { kind: 'tool', name: toolName, arguments: args },
        callTerms(guardedTerms(terms, this.#id, this.#components.events.callbackFailed), signal),
      ),
    );
    if (needsInput(result)) {
      const message = `tool "${toolName}" asks for more; call it as an agent or an MCP client`;
      throw new NormalizedProviderError('PROVIDER_INVALID_INPUT', message, 'mcp');
    }
    const said = failureIn(result, toolName);
    if (said === undefined) return result;
    throw new ToolFailure(said, correlationId, result);
  }

  #require(): MCPServerConnection {
    if (this.#upstream) return this.#upstream;
    throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', `${this.#id} has not been started`, 'mcp');
  }

  #tool(name: string): Offer<ToolDefinition> {
    const offer = this.#require().tools.find(({ definition }) => definition.name === name);
    if (offer) return offer;
    const message = `MCP server "${this.#config?.server}" has no tool "${name}" that may be used`;
    throw new NormalizedProviderError('PROVIDER_TOOL_NOT_FOUND', message, 'mcp', { details: { toolName: name } });
  }

  /** Waits until the server runs or has failed; with `keepTrying`, for a limited time. */
  async #settled(upstream: MCPServerConnection, { keepTrying = false }: MCPConfig): Promise<void> {
    const settled = new Deferred<void>();
    const look = (state: SupervisedState) => {
      if (state.kind === 'starting' || state.kind === 'stopping') return;
      const ended = `${this.#id} was ended while it started`;
      if (state.kind === 'running' || keepTrying) settled.resolve();
      else if ('reason' in state) settled.reject(state.reason);
      else settled.reject(new NormalizedProviderError('PROVIDER_TERMINATED', ended, 'mcp'));
    };
    const stop = upstream.watch((news) => {
      if (news.type === 'state') look(news.state);
    });
    look(upstream.state);
    try {
      if (!keepTrying) await settled.promise;
      else await within(this.#components.runtime, settled.promise, PATIENCE_MS, () => {});
    } finally {
      stop();
    }
  }

  #hear(news: UpstreamNews): void {
    if (news.type === 'tools') this.#discovered(news.tools);
    else this.#changed(news.state);
  }

  #changed(state: SupervisedState): void {
    const { events } = this.#components;
    const about = { provider: this.#id, providerType: 'mcp' } as const;
    if (state.kind === 'running') {
      if (this.#lost) events.emit('provider.mcp.reconnected', about);
      this.#lost = false;
      this.#running = true;
      this.#ready.call();
    } else if (state.kind === 'backing-off' || state.kind === 'failed') {
      const error = normalizeError(state.reason, 'mcp');
      if (this.#running)
        events.emit('provider.mcp.disconnected', { ...about, code: error.code, reason: error.message });
      this.#lost ||= this.#running;
      this.#running = false;
      this.#crashed.call({ error });
    }
  }

  #discovered(tools: readonly string[]): void {
    const before = this.#tools;
    this.#tools = tools;
    const { events } = this.#components;
    const about = { provider: this.#id, providerType: 'mcp' } as const;
    if (!before) events.emit('provider.mcp.tools.discovered', { ...about, details: { tools } });
    else {
      const added = tools.filter((name) => !before.includes(name));
      const removed = before.filter((name) => !tools.includes(name));
      if (added.length + removed.length === 0) return;
      const unchanged = tools.length - added.length;
      events.emit('provider.mcp.tools.refreshed', { ...about, details: { added, removed, unchanged } });
    }
  }

  /** Does work that ends at its time limit, with its caller, or with this adapter. */
  async #inTime<T>(ms: number, caller: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const flight = new AbortController();
    const { signal } = flight;
    this.#inFlight.add(flight);
    const timer = this.#components.runtime.setTimer(() => {
      flight.abort(new NormalizedProviderError('PROVIDER_TIMEOUT', `${this.#id} took longer than ${ms} ms`, 'mcp'));
    }, ms);
    const cancel = () => flight.abort(caller?.reason);
    if (caller?.aborted) cancel();
    else caller?.addEventListener('abort', cancel, { once: true });
    try {
      signal.throwIfAborted();
      return await work(signal);
    } catch (error) {
      throw signal.aborted ? normalizeAbort(signal, 'mcp') : error;
    } finally {
      timer.cancel();
      caller?.removeEventListener('abort', cancel);
      this.#inFlight.delete(flight);
    }
  }
}

/** A tool reported its own failure; the caller gets its result. */
export class ToolFailure extends NormalizedProviderError {
  readonly result: unknown;

  constructor(message: string, correlationId: string, result: unknown) {
    super('PROVIDER_EXECUTE_FAILED', message, 'mcp', { correlationId });
    this.result = result;
  }
}

function callTerms({ caller = 'operator', onUpdate }: ExecuteTerms, signal: AbortSignal): CallTerms {
  return {
    caller: { address: caller, node: undefined, tier: 3, sandboxId: undefined },
    signal,
    capabilities: {},
    answers: {},
    state: undefined,
    meta: {},
    onProgress: (progress) => onUpdate?.({ kind: 'progress', text: progress.message ?? '', data: progress }),
    onLog: (entry) => onUpdate?.({ kind: 'progress', text: String(entry.data), data: entry }),
  };
}

/** The message of a result that is marked as an error. */
function failureIn(result: unknown, toolName: string): string | undefined {
  const { isError, content } = (result ?? {}) as { isError?: unknown; content?: unknown };
  if (isError !== true) return undefined;
  const blocks: readonly { text?: unknown }[] = Array.isArray(content) ? content : [];
  const said = blocks.flatMap(({ text }) => (typeof text === 'string' ? [text] : [])).join('\n');
  return said || `tool "${toolName}" failed`;
}

const WHAT = {
  tool: 'tool',
  resource: 'resource',
  template: 'resource',
  prompt: 'prompt',
  completion: 'completion',
} as const satisfies Record<Ask['kind'], string>;

/** The kind and name of a call, for the event stream. */
function whatOf(input: { readonly toolName: string } | RelayedCall): {
  readonly kind: (typeof WHAT)[Ask['kind']];
  readonly details: Readonly<Record<string, string>>;
} {
  if (!('relay' in input)) return { kind: 'tool', details: { toolName: input.toolName } };
  const kind = WHAT[input.ask.kind];
  return { kind, details: kind === 'tool' ? { toolName: input.key } : { name: input.key } };
}
