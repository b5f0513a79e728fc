import type { CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { splitAddress } from '../mesh/address.js';
import { LIMITS } from '../mesh/limits.js';
import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import type { Party, Policy } from '../mesh/policy.js';
import type { AgentRegistry } from '../mesh/registry.js';
import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { namedSpan } from '../runtime/tracing.js';
import { ActiveCall, ActiveTerms, NEVER, NOTHING } from './active-call.js';
import { type Ask, type CallOptions, type NeedsInput, needsInput } from './call.js';
import { Catalogue, type DefinitionOf, type Entry, type Offer } from './catalogue.js';
import type { Kind, ToolDefinition } from './definitions.js';
import { failureOf } from './failure.js';
import { InvocationLog } from './invocations.js';
import { RequestState } from './request-state.js';
import { type NameStyle, WireNames } from './wire-names.js';

export interface McpServiceComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  policy: Policy;
  observability: A2AObservability;
  deadlines: DeadlineQueue;
}

/** Default duration of a call. */
export const CALL_TIMEOUT_MS = 50_000;
/** Calls in progress at once. */
const MAX_CALLS = 10_000;
/** Prefix for the URI of another node's resource, where several resources share the URI. */
const OWNED = 'ecliptic://';

const NOT_FOUND = {
  tool: 'TOOL_NOT_FOUND',
  prompt: 'PROMPT_NOT_FOUND',
  resource: 'RESOURCE_NOT_FOUND',
  template: 'RESOURCE_NOT_FOUND',
} as const;

/**
 * Lists and calls everything that agents offer over MCP, under policy. It is the only way to a tool: for the MCP
 * endpoint, the command line, agents of this node, and calls from other nodes.
 */
export class McpService {
  readonly catalogue: Catalogue;
  readonly names: WireNames;
  readonly requestState: RequestState;
  readonly invocations: InvocationLog;
  readonly #components: McpServiceComponents;
  readonly #active = new Map<string, Set<ActiveCall>>();
  /** Who may use the node's own tools, by their owner. */
  readonly #builtIn = new Map<string, (principal: Party) => boolean>();
  readonly #callbackFailed: CallbackFailed;
  readonly #updateWatchers: Callbacks<[owner: string, uri: string]>;
  #calls = 0;
  #onIdle: (() => void) | undefined;

  constructor(components: McpServiceComponents) {
    this.#components = components;
    this.#callbackFailed = callbackReport(components.runtime, components.observability);
    this.catalogue = new Catalogue(this.#callbackFailed);
    this.names = new WireNames(this.catalogue);
    this.#updateWatchers = new Callbacks('mcp.onResourceUpdate', this.#callbackFailed);
    this.requestState = new RequestState(components.runtime);
    this.invocations = new InvocationLog(components.runtime, components.observability);
    this.catalogue.onChange((_kind, entries, gone) => {
      if (gone) for (const entry of entries) this.#abandon(entry);
    });
  }

  /** The entries of one kind that the viewer may see, in the order of owner and name. */
  list<K extends Kind>(kind: K, viewer: Party): Entry<DefinitionOf<K>>[] {
    const seen = new Map<string, boolean>();
    return this.catalogue.all(kind).filter(({ owner }) => {
      let visible = seen.get(owner);
      if (visible === undefined) {
        visible = this.mayUse(viewer, owner);
        seen.set(owner, visible);
      }
      return visible;
    });
  }

  /** Resolves when no call is in progress. */
  drain(): Promise<void> {
    if (this.#calls === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** Calls back with the unique URI of a resource whose content has changed. */
  onResourceUpdate(watcher: (owner: string, uri: string) => void): () => void {
    return this.#updateWatchers.add(watcher);
  }

  resourceUpdated(owner: string, own: string): void {
    const entry = this.catalogue.get(owner, 'resource', own);
    const uri = entry ? this.uriOf(entry) : own;
    this.#updateWatchers.call(owner, uri);
  }

  /** A URI that means this resource only. */
  uriOf(entry: Entry): string {
    if (entry.node === undefined || this.catalogue.resourcesAt(entry.key).length === 1) return entry.key;
    return `${OWNED}${entry.owner}/${entry.key}`;
  }

  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: CallOptions,
    style: NameStyle = 'safe',
  ): Promise<CallToolResult | NeedsInput> {
    const entry = this.find('tool', name, options.caller, style);
    return (await this.call(entry, { kind: 'tool', name: entry.key, arguments: args }, options)) as CallToolResult;
  }

  async readResource(uri: string, options: CallOptions): Promise<ReadResourceResult | NeedsInput> {
    const { entry, own } = this.#resource(uri, options.caller);
    const ask: Ask =
      entry.definition.kind === 'template'
        ? { kind: 'template', uriTemplate: entry.key, uri: own }
        : { kind: 'resource', uri: own };
    return (await this.call(entry, ask, options)) as ReadResourceResult;
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    options: CallOptions,
    style: NameStyle = 'safe',
  ): Promise<GetPromptResult | NeedsInput> {
    const entry = this.find('prompt', name, options.caller, style);
    return (await this.call(entry, { kind: 'prompt', name: entry.key, arguments: args }, options)) as GetPromptResult;
  }

  /** Suggests values for an argument of a prompt, or a variable of a resource template. */
  async complete(
    of: { kind: 'prompt'; name: string } | { kind: 'template'; uriTemplate: string },
    argument: { name: string; value: string; given?: Readonly<Record<string, string>> | undefined },
    options: CallOptions,
    style: NameStyle = 'safe',
  ): Promise<CompleteResult> {
    const entry =
      of.kind === 'prompt'
        ? this.find('prompt', of.name, options.caller, style)
        : this.#template(of.uriTemplate, options.caller);
    const { name, value, given = NOTHING } = argument;
    const ask: Ask = { kind: 'completion', of: of.kind, name: entry.key, argument: name, value, given };
    return (await this.call(entry, ask, options)) as CompleteResult;
  }

  /** Finds a tool or prompt by its full or wire name, if the viewer may see it. */
  find(kind: 'tool' | 'prompt', name: string, viewer: Party, style: NameStyle): Entry {
    const entry =
      this.#byFullName(kind, name, viewer) ?? this.names.find(kind, name, style) ?? this.names.find(kind, name, 'safe');
    if (entry && this.mayUse(viewer, entry.owner)) return entry;
    if (entry) this.#reportRefusal(viewer, entry);
    throw new EclipticError(NOT_FOUND[kind], `there is no ${kind} "${name}"`, { name });
  }

  /** Finds an offer of this node's agent for a caller of another node that may use it. */
  own(agent: string, ask: Ask, caller: Party): Entry {
    const { kind, key } = targetOf(ask);
    const entry = this.catalogue.get(agent, kind, key);
    if (entry && this.mayUse(caller, agent)) return entry;
    if (entry) this.#reportRefusal(caller, entry);
    throw new EclipticError(NOT_FOUND[kind], `there is no ${kind} "${key}" of ${agent}`, {
      agent,
      name: key,
      uri: key,
    });
  }

  /** Asks the owner, under policy and within the deadline. */
  call(entry: Entry, ask: Ask, options: CallOptions): Promise<unknown> {
    const { caller, signal = NEVER } = options;
    if (signal.aborted) return Promise.reject(new EclipticError('CANCELLED', 'the call was cancelled'));
    if (this.#calls >= MAX_CALLS) {
      return Promise.reject(new EclipticError('QUEUE_FULL', `${MAX_CALLS} calls are under way already`));
    }
    const { thread } = options;
    if (thread === '' || (thread?.length ?? 0) > LIMITS.nameChars) {
      return Promise.reject(new EclipticError('INVALID_PARAMS', `no conversation has the id "${thread}"`, { thread }));
    }
    const { tracer } = this.#components.runtime;
    if (tracer && ask.kind === 'tool') {
      const { name, attributes: standard } = namedSpan(tracer, `tool ${entry.key}`, 'execute_tool', entry.key);
      const { description } = entry.definition as ToolDefinition;
      const attributes = {
        ...{ 'ecliptic.tool': entry.fullName, 'ecliptic.caller': caller.address },
        ...(tracer.genAi && { ...standard, 'gen_ai.tool.type': 'function', 'gen_ai.tool.description': description }),
      };
      const init = { kind: 'client', attributes, ...parentIn(options.meta) } as const;
      const span = tracer.start(name, init);
      const traced = { ...options, meta: { ...options.meta, traceparent: span.traceparent } };
      const called = tracer.run(span, () => this.#ask(entry, ask, traced));
      called.then(
        (result) => span.end(failureOf(result, entry.owner)),
        (error: unknown) => span.end(error),
      );
      return called;
    }
    return this.#ask(entry, ask, options);
  }

  #ask(entry: Entry, ask: Ask, options: CallOptions): Promise<unknown> {
    const { caller, signal = NEVER, thread } = options;
    return new Promise((resolve, reject) => {
      const begun =
        ask.kind === 'tool' ? this.invocations.begin(entry, caller.address, ask.arguments, thread) : undefined;
      const active = new ActiveCall(entry, signal, (result, error) => {
        if (--this.#calls === 0) this.#onIdle?.();
        this.#forget(active);
        if (begun && !needsInput(result)) this.invocations.end(begun, result, error ?? failureOf(result, entry.owner));
        if (error) reject(error);
        else resolve(result);
      });
      this.#calls++;
      this.#remember(active);
      const timeoutMs = Math.min(
        options.timeoutMs ?? Number.POSITIVE_INFINITY,
        entry.offer.timeoutMs ?? CALL_TIMEOUT_MS,
      );
      active.deadlineAt = this.#components.runtime.now() + timeoutMs;
      this.#components.deadlines.add(active, timeoutMs);
      entry.offer.answer(ask, new ActiveTerms(options, active, begun?.thread ?? thread, this.#callbackFailed)).then(
        (result) => active.succeed(result),
        (error) => active.fail(this.#blame(entry, error)),
      );
    });
  }

  /** Offers tools of the node itself, under a name that no agent has, to those who may use them. */
  offerBuiltIn(owner: string, offers: readonly Offer[], mayUse: (principal: Party) => boolean): void {
    this.#builtIn.set(owner, mayUse);
    this.catalogue.add(owner, undefined, offers);
  }

  /** An agent that is not registered offers nothing. */
  mayUse(principal: Party, owner: string): boolean {
    const target = this.#components.registry.entry(owner);
    if (target === undefined) return this.#builtIn.get(owner)?.(principal) === true;
    return this.#components.policy.mayUse(principal, target);
  }

  #byFullName(kind: 'tool' | 'prompt', name: string, viewer: Party): Entry | undefined {
    const dot = name.indexOf('.');
    if (dot <= 0) return undefined;
    const owner = name.slice(0, dot);
    const key = name.slice(dot + 1);
    const exact = this.catalogue.get(this.#ownName(owner), kind, key);
    if (exact) return exact;
    const all = [...this.catalogue.ownersNamed(owner)]
      .map((address) => this.catalogue.get(address, kind, key))
      .filter((entry) => entry !== undefined);
    const candidates = all.filter((entry) => this.mayUse(viewer, entry.owner));
    if (candidates.length <= 1) return candidates[0] ?? all[0];
    throw new EclipticError('AMBIGUOUS_AGENT', `several nodes have an agent "${owner}"; write its full address`, {
      agentId: owner,
      candidates: candidates.map(({ fullName }) => fullName),
    });
  }

  /** An agent of this node is known by its id, also when written with its node. */
  #ownName(owner: string): string {
    const { id, node } = splitAddress(owner);
    return node !== undefined && node === this.#components.registry.nodeKey ? id : owner;
  }

  /** The resource or template that a URI means, and the URI by which its owner knows it. */
  #resource(uri: string, viewer: Party): { entry: Entry; own: string } {
    const [, owner, rest] = uri.startsWith(OWNED) ? (/^ecliptic:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? []) : [];
    const own = rest ?? uri;
    const among = (entry: Entry) => owner === undefined || entry.owner === owner;
    const visible = (entry: Entry) => among(entry) && this.mayUse(viewer, entry.owner);
    const all = this.catalogue.resourcesAt(own).filter(among);
    const exact = all.find(visible);
    if (exact) return { entry: exact, own };
    const templates = this.catalogue.all('template').filter((entry) => among(entry) && entry.matches(own));
    const template = templates.find(visible);
    if (template) return { entry: template, own };
    const hidden = all[0] ?? templates[0];
    if (hidden) this.#reportRefusal(viewer, hidden);
    throw new EclipticError('RESOURCE_NOT_FOUND', `there is no resource ${uri}`, { uri });
  }

  #template(uriTemplate: string, viewer: Party): Entry {
    const all = this.catalogue.all('template').filter(({ key }) => key === uriTemplate);
    const found = all.find(({ owner }) => this.mayUse(viewer, owner));
    if (found) return found;
    if (all[0]) this.#reportRefusal(viewer, all[0]);
    throw new EclipticError('RESOURCE_NOT_FOUND', `there is no resource template ${uriTemplate}`, { uri: uriTemplate });
  }

  /** Emits one security event for each attempt; the caller is told that nothing was found. */
  #reportRefusal(principal: Party, entry: Entry): void {
    this.#components.observability.emit({
      type: 'security',
      sender: principal.address,
      recipient: entry.owner,
      toolName: entry.fullName,
      code: 'SANDBOX_VIOLATION',
      reason: `${principal.address} may not use what ${entry.owner} offers`,
      timestamp: this.#components.runtime.now(),
    });
  }

  #blame({ owner }: Entry, thrown: unknown): EclipticError {
    const { code, message, details } = toEclipticError(thrown, 'HANDLER_FAILED');
    return new EclipticError(code, message, { ...details, agent: owner }, thrown);
  }

  /** Fails the open calls of an offer that was withdrawn. */
  #abandon(entry: Entry): void {
    const calls = this.#active.get(entry.owner);
    for (const active of [...(calls ?? [])]) {
      if (active.entry !== entry) continue;
      const message = `${entry.owner} left or withdrew ${entry.key} before it answered`;
      active.fail(new EclipticError('AGENT_UNAVAILABLE', message, { agent: entry.owner, outcome: 'unknown' }));
    }
    if (calls?.size === 0) this.#active.delete(entry.owner);
  }

  #remember(active: ActiveCall): void {
    const { owner } = active.entry;
    const calls = this.#active.get(owner);
    if (calls) calls.add(active);
    else this.#active.set(owner, new Set([active]));
  }

  #forget(active: ActiveCall): void {
    this.#components.deadlines.remove(active);
    this.#active.get(active.entry.owner)?.delete(active);
  }
}

/** The trace context that came with a call, from another node or an outside client. */
function parentIn(meta: CallOptions['meta']): { parent?: string } {
  const given = meta?.traceparent;
  return typeof given === 'string' ? { parent: given } : {};
}

/** The offer that an ask is about. */
function targetOf(ask: Ask): { kind: Kind; key: string } {
  switch (ask.kind) {
    case 'resource':
      return { kind: 'resource', key: ask.uri };
    case 'template':
      return { kind: 'template', key: ask.uriTemplate };
    case 'completion':
      return { kind: ask.of, key: ask.name };
    default:
      return { kind: ask.kind, key: ask.name };
  }
}
