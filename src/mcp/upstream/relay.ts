import type { Client, RequestOptions } from '@modelcontextprotocol/client';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type Ask, type CallTerms, needsInput } from '../call.js';
import type { Offer } from '../catalogue.js';
import { type Definition, type Kind, keyOf, type ToolDefinition } from '../definitions.js';
import type { RequestState } from '../request-state.js';
import { withStructuredText } from '../result-text.js';
import { readSchema, type Shape, type Verdict } from '../schema.js';
import type { McpService } from '../service.js';
import type { Connection } from './connection.js';
import { Dialogue } from './dialogue.js';
import type { Listed } from './pins.js';

/** Only the trace context is passed on: other metadata of the caller may be secret. */
const TRACE_KEYS = ['traceparent', 'tracestate'] as const;
/** The service keeps the deadline; the SDK's must not come first. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

export interface RelayInit {
  readonly server: string;
  readonly runtime: Runtime;
  readonly seal: RequestState;
  /** Throws while there is no connection. */
  readonly connection: () => Connection;
}

/** A call to an upstream server on its way through a provider. */
export interface RelayedCall {
  readonly ask: Ask;
  readonly terms: CallTerms;
  /** The definition's name or URI. */
  readonly key: string;
  /** Sends the call to the server, once. */
  readonly relay: () => Promise<unknown>;
}

export type CallRoute = (call: RelayedCall) => Promise<unknown>;

/** Makes the function that answers for one definition of a server. */
export function relayFor(init: RelayInit, definition: Definition): Offer['answer'] {
  const tool = definition.kind === 'tool' ? definition : undefined;
  const input = tool && readSchema(tool.inputSchema, 'input', `the arguments of tool "${tool.name}"`);
  const output = tool?.outputSchema && readSchema(tool.outputSchema, 'output', `the result of tool "${tool.name}"`);
  return async (ask, terms) => {
    if (input && ask.kind === 'tool') await checkArguments(init.server, input, ask);
    const result = await relay(init, tool, ask, terms);
    if (ask.kind !== 'tool') return result;
    if (output) await checkResult(init.server, output, result);
    return withStructuredText(result as object);
  };
}

/** Sends one call to an upstream server, once, whatever comes of it. */
async function relay(init: RelayInit, tool: ToolDefinition | undefined, ask: Ask, terms: CallTerms): Promise<unknown> {
  const { server, seal, runtime } = init;
  const connection = init.connection();
  const caller = terms.caller.address;
  const state = terms.state === undefined ? undefined : openState(seal, server, terms.state, caller, ask);
  const pass = (from: CallTerms) => passOn(connection, tool, ask, from, state);
  let result: unknown;
  if (connection.isModern) result = await pass(terms);
  else if (state === undefined) result = await new Dialogue(runtime, connection, terms).begin(pass);
  else result = await Dialogue.resume(connection, state, terms);
  if (!needsInput(result)) return result;
  const { inputRequests, requestState } = result;
  return {
    resultType: 'input_required',
    ...(inputRequests && { inputRequests }),
    ...(requestState !== undefined && { requestState: seal.seal({ server, state: requestState }, caller, ask) }),
  };
}

function passOn(
  connection: Connection,
  tool: ToolDefinition | undefined,
  ask: Ask,
  terms: CallTerms,
  state: string | undefined,
): Promise<unknown> {
  const params = {
    _meta: metaOf(connection, terms),
    ...(Object.keys(terms.answers).length > 0 && { inputResponses: terms.answers }),
    ...(state !== undefined && { requestState: state }),
  };
  const options: RequestOptions = {
    signal: terms.signal,
    timeout: NO_TIMEOUT_MS,
    allowInputRequired: true,
    onprogress: ({ progress, total, message }) =>
      terms.onProgress({ progress, ...(total !== undefined && { total }), ...(message !== undefined && { message }) }),
  };
  return connection.ask((client) => send(client, tool, ask, params, options), terms);
}

function send(
  client: Client,
  tool: ToolDefinition | undefined,
  ask: Ask,
  params: object,
  options: RequestOptions,
): Promise<unknown> {
  switch (ask.kind) {
    case 'tool': {
      const { name, arguments: args } = ask;
      // The SDK repeats some arguments in headers by the input schema. Without an output schema it checks no results.
      const toolDefinition = { name, inputSchema: tool?.inputSchema ?? ({ type: 'object' } as const) };
      return client.callTool({ name, arguments: args, ...params }, { ...options, toolDefinition });
    }
    case 'resource':
    case 'template':
      return client.request({ method: 'resources/read', params: { uri: ask.uri, ...params } }, options);
    case 'prompt': {
      const { name, arguments: args } = ask;
      return client.request({ method: 'prompts/get', params: { name, arguments: { ...args }, ...params } }, options);
    }
    case 'completion': {
      if (!client.getServerCapabilities()?.completions) return Promise.resolve({ completion: { values: [] } });
      const ref =
        ask.of === 'prompt'
          ? ({ type: 'ref/prompt', name: ask.name } as const)
          : ({ type: 'ref/resource', uri: ask.name } as const);
      const argument = { name: ask.argument, value: ask.value };
      const context = { arguments: { ...ask.given } };
      return client.request({ method: 'completion/complete', params: { ref, argument, context } }, options);
    }
  }
}

function metaOf({ isModern, sdk }: Connection, { meta, capabilities }: CallTerms): Record<string, unknown> {
  const trace = Object.fromEntries(TRACE_KEYS.filter((key) => key in meta).map((key) => [key, meta[key]]));
  if (!isModern) return trace;
  // The caller's log level is applied to the entries that come back.
  return { ...trace, [sdk.CLIENT_CAPABILITIES_META_KEY]: capabilities, [sdk.LOG_LEVEL_META_KEY]: 'debug' };
}

/** State of one server is not accepted by another. */
function openState(seal: RequestState, server: string, sealed: string, caller: string, ask: Ask): string {
  const opened = seal.open(sealed, caller, ask) as { server?: unknown; state?: unknown } | null;
  if (opened?.server === server && typeof opened.state === 'string') return opened.state;
  const message = `the request state cannot be used: it is not of MCP server "${server}"; start the call again`;
  throw new EclipticError('INVALID_REQUEST_STATE', message, { server });
}

/** Checks arguments before the server sees them. An unreadable schema accepts everything. */
async function checkArguments(server: string, input: Shape, { name, arguments: args }: Ask & { kind: 'tool' }) {
  const verdict = await judged(input, args);
  if (!verdict || 'value' in verdict) return;
  // In MCP null may stand for an omitted argument; the server receives it as given.
  const given = Object.entries(args ?? {}).filter(([, value]) => value !== null);
  const relaxed = given.length < Object.keys(args ?? {}).length && (await judged(input, Object.fromEntries(given)));
  if (relaxed && 'value' in relaxed) return;
  const { faults } = verdict;
  const message = `the arguments do not fit tool "${name}" of MCP server "${server}": ${faults.join('; ')}`;
  throw new EclipticError('INVALID_ARGUMENTS', message, { server, faults });
}

async function judged(shape: Shape, value: unknown): Promise<Verdict | undefined> {
  return Promise.resolve(shape.check(value)).catch(() => undefined);
}

/** Checks a result against the output schema. An unreadable schema accepts everything. */
async function checkResult(server: string, output: Shape, result: unknown): Promise<void> {
  const { isError, structuredContent } = result as { isError?: unknown; structuredContent?: unknown };
  if (isError === true || needsInput(result)) return;
  const verdict = await judged(output, structuredContent);
  if (!verdict || 'value' in verdict) return;
  const { faults } = verdict;
  throw new EclipticError(
    'INVALID_RESULT',
    `MCP server "${server}" returned a result that does not fit its tool’s output schema: ${faults.join('; ')}`,
    {
      server,
      faults,
    },
  );
}

export interface ServerOffersComponents {
  runtime: Runtime;
  service: McpService;
}

export interface ServerOffersInit extends Pick<RelayInit, 'server' | 'connection'> {
  /** The agent of this node that owns the offers. */
  readonly agent: string;
  readonly timeoutMs?: number | undefined;
  /** Routes calls, for example through a provider. Default: straight to the server. */
  readonly route?: CallRoute;
}

/** The offers of one server in the catalogue. */
export class ServerOffers {
  readonly #components: ServerOffersComponents;
  readonly #init: ServerOffersInit;
  /** By slot: the definition's fingerprint, and the direct call. */
  readonly #offered = new Map<string, { readonly hash: string; readonly relay: Offer['answer'] }>();
  #conflicts: readonly string[] = [];

  constructor(components: ServerOffersComponents, init: ServerOffersInit) {
    this.#components = components;
    this.#init = init;
  }

  get counts(): Readonly<Record<Kind, number>> {
    const counts = { tool: 0, resource: 0, template: 0, prompt: 0 };
    for (const slot of this.#offered.keys()) counts[slot.slice(0, slot.indexOf(' ')) as Kind]++;
    return counts;
  }

  /** The definitions that are left out, and why. */
  get conflicts(): readonly string[] {
    return this.#conflicts;
  }

  /** The usable tools, each with the direct call. */
  get tools(): Offer<ToolDefinition>[] {
    const { catalogue } = this.#components.service;
    return [...this.#offered].flatMap(([slot, { relay: answer }]) => {
      if (!slot.startsWith('tool ')) return [];
      const entry = catalogue.get(this.#init.agent, 'tool', slot.slice('tool '.length));
      return entry ? [{ ...entry.offer, answer }] : [];
    });
  }

  /** Makes the catalogue hold exactly these definitions; unchanged ones are not touched. */
  set(trusted: readonly Listed[]): void {
    const { catalogue } = this.#components.service;
    const { agent } = this.#init;
    const hashes = new Map(trusted.map(({ slot, hash }) => [slot, hash]));
    const stale = [...this.#offered].filter(([slot, { hash }]) => hashes.get(slot) !== hash).map(([slot]) => slot);
    for (const slot of stale) this.#offered.delete(slot);
    for (const kind of ['tool', 'resource', 'template', 'prompt'] as const) {
      const keys = stale.filter((slot) => slot.startsWith(`${kind} `)).map((slot) => slot.slice(kind.length + 1));
      if (keys.length > 0) catalogue.remove(agent, kind, keys);
    }
    const conflicts: string[] = [];
    const offers = new Map<string, Offer>();
    for (const one of trusted) {
      if (this.#offered.has(one.slot)) continue;
      const offer = this.#offerOf(one);
      if (typeof offer === 'string') conflicts.push(offer);
      else offers.set(one.slot, offer);
    }
    this.#conflicts = conflicts;
    const routed = [...offers.values()].map((offer) => this.#routed(offer));
    if (routed.length > 0) catalogue.add(agent, undefined, routed);
    for (const [slot, { answer: relay }] of offers) this.#offered.set(slot, { hash: hashes.get(slot)!, relay });
  }

  /** The offer, or the reason why there is none. */
  #offerOf({ neutral }: Listed): Offer | string {
    const { runtime, service } = this.#components;
    const { agent, timeoutMs, server, connection } = this.#init;
    const { value, spoiled } = neutral;
    const key = keyOf(value);
    const leftOut = (reason: string) => `${value.kind} "${value.name}" is left out: ${reason}`;
    if (spoiled !== undefined) return leftOut(`hidden characters in ${spoiled}`);
    const taken =
      service.catalogue.get(agent, value.kind, key) ??
      (value.kind === 'resource'
        ? service.catalogue.resourcesAt(key).find(({ node }) => node === undefined)
        : undefined);
    if (taken) return leftOut(`${taken.owner} offers one already`);
    const init = { server, runtime, seal: service.requestState, connection };
    return { definition: value, timeoutMs, answer: relayFor(init, value) };
  }

  #routed(offer: Offer): Offer {
    const { route } = this.#init;
    if (!route) return offer;
    const key = keyOf(offer.definition);
    const answer = (ask: Ask, terms: CallTerms) => route({ ask, terms, key, relay: () => offer.answer(ask, terms) });
    return { ...offer, answer };
  }
}
