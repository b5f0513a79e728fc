import type { ClientCapabilities, InputRequest } from '@modelcontextprotocol/server';
import { EclipticError } from '../runtime/errors.js';
import { type Ask, Call, type CallTerms, Question } from './call.js';
import type { Offer } from './catalogue.js';
import {
  type Definition,
  DefinitionSchema,
  type PromptDefinition,
  type ResourceDefinition,
  type TemplateDefinition,
  type ToolDefinition,
} from './definitions.js';
import type { RequestState } from './request-state.js';
import { promptResult, resourceResult, toolResult } from './results.js';
import { type OutputOf, readSchema, type Schema, type Shape, type Verdict } from './schema.js';
import { TASK_TIMEOUT_MS } from './tool-task.js';
import { UriPattern } from './uri-pattern.js';

export interface ToolOptions<I extends Schema = Schema, O extends Schema = Schema>
  extends Partial<Pick<ToolDefinition, 'title' | 'description' | 'annotations' | 'icons' | '_meta'>> {
  /** Any Standard Schema (zod, valibot, arktype…) or a JSON Schema. Default: an object of anything. */
  inputSchema?: I;
  /** The shape of the result, which is then also sent as structured content. */
  outputSchema?: O;
  /** How long a call may take. Default 50 s, because most clients give up after 60; 1 h with `tasks`. */
  timeoutMs?: number;
  /**
   * MCP clients that can follow tasks call this tool as a task, which outlasts their connection. With `required`, other
   * clients cannot call it. Agents and the command line call it as any tool.
   */
  tasks?: 'optional' | 'required';
  /** With `tasks`: what the handler asks comes before the task, which begins with the answers. */
  asksFirst?: boolean;
  /** Arguments whose values are kept out of records, events and logs. */
  secrets?: readonly string[];
}

/**
 * Returns text, any JSON, a result in MCP's own shape (`{ content: […] }`), or `call.ask(…)`; a thrown error reaches
 * the caller with its code.
 */
export type ToolHandler<Args = Record<string, unknown>> = (args: Args, call: Call) => unknown;

export interface ToolInit extends ToolOptions {
  name: string;
  handler: ToolHandler;
}

/** A resource at a URI or, with `uriTemplate`, all resources that the template describes. */
export type ResourceInit = (
  | Omit<ResourceDefinition, 'kind'>
  | (Omit<TemplateDefinition, 'kind'> & { complete?: Completions })
) & { timeoutMs?: number };

/** Returns text, bytes, or contents in MCP's own shape; `variables` are the template's. */
export type ResourceLoader = (uri: string, variables: Readonly<Record<string, string>>, call: Call) => unknown;

export interface PromptInit extends Omit<PromptDefinition, 'kind'> {
  /** With `{{argument}}` in place of each argument's value. */
  template?: string;
  timeoutMs?: number;
  complete?: Completions;
}

/** An alternative to a template. Returns text, messages in MCP's own shape, or `call.ask(…)`. */
export type PromptHandler = (args: Readonly<Record<string, string>>, call: Call) => unknown;

/** Suggests values for an argument or a variable, by name. */
export type Completions = Readonly<
  Record<
    string,
    (value: string, given: Readonly<Record<string, string>>) => readonly string[] | Promise<readonly string[]>
  >
>;

/** MCP's limit for one answer. */
const MAX_SUGGESTIONS = 100;

export function offerTool<I extends Schema, O extends Schema>(
  seal: RequestState,
  name: string,
  options: ToolOptions<I, O>,
  handler: ToolHandler<OutputOf<I>>,
): Offer {
  const { inputSchema, outputSchema, secrets, tasks, asksFirst, ...rest } = options;
  const { timeoutMs = tasks && TASK_TIMEOUT_MS, ...shown } = rest;
  const input = inputSchema ? readSchema(inputSchema, 'input', `tool "${name}"`) : ANYTHING;
  const output = outputSchema && readSchema(outputSchema, 'output', `the result of tool "${name}"`);
  const shape =
    output && (async (value: unknown) => fitting(await output.check(value), `results of ${name}`, 'INVALID_RESULT'));
  const definition = {
    kind: 'tool',
    name,
    ...shown,
    inputSchema: { type: 'object', ...input.json },
    ...(output?.json && { outputSchema: output.json }),
    ...(tasks && { execution: { taskSupport: tasks, ...(asksFirst && { asksFirst }) } }),
  };
  return offer(definition, { timeoutMs, secrets }, seal, async (ask, call) => {
    if (ask.kind !== 'tool') throw notAsked(ask);
    const checking = input.check(ask.arguments);
    const args = fitting(await checking, `arguments of ${name}`, 'INVALID_ARGUMENTS');
    // The call may have ended meanwhile; do not run the handler for no caller.
    if (checking instanceof Promise) call.signal.throwIfAborted();
    const value = await handler(args as OutputOf<I>, call);
    return value instanceof Question ? value : toolResult(value, shape);
  });
}

export function offerResource(seal: RequestState, init: ResourceInit, loader: ResourceLoader): Offer {
  const { timeoutMs, ...rest } = init;
  if (!('uriTemplate' in rest)) {
    return offer({ kind: 'resource', ...rest }, { timeoutMs }, seal, async (ask, call) => {
      if (ask.kind !== 'resource') throw notAsked(ask);
      const value = await loader(rest.uri, {}, call);
      return value instanceof Question ? value : resourceResult(value, rest.uri, rest.mimeType);
    });
  }
  const { complete, ...shown } = rest;
  const pattern = new UriPattern(shown.uriTemplate);
  return offer({ kind: 'template', ...shown }, { timeoutMs }, seal, async (ask, call) => {
    if (ask.kind === 'completion') return suggest(complete, ask);
    const variables = ask.kind === 'template' ? pattern.match(ask.uri) : undefined;
    if (ask.kind !== 'template' || !variables) throw notAsked(ask);
    const value = await loader(ask.uri, variables, call);
    return value instanceof Question ? value : resourceResult(value, ask.uri, shown.mimeType);
  });
}

export function offerPrompt(seal: RequestState, init: PromptInit, handler?: PromptHandler): Offer {
  const { template, timeoutMs, complete, ...shown } = init;
  if ((template === undefined) === (handler === undefined)) {
    throw new EclipticError('INVALID_TOOL', `prompt "${init.name}" needs a template or a handler, and not both`);
  }
  // An omitted optional argument becomes an empty string in a template.
  const absent = handler ? {} : Object.fromEntries((shown.arguments ?? []).map(({ name }) => [name, '']));
  const render = handler ?? ((args: Readonly<Record<string, string>>) => renderTemplate(template!, args));
  return offer({ kind: 'prompt', ...shown }, { timeoutMs }, seal, async (ask, call) => {
    if (ask.kind === 'completion') return suggest(complete, ask);
    if (ask.kind !== 'prompt') throw notAsked(ask);
    for (const { name, required } of shown.arguments ?? []) {
      if (required && !Object.hasOwn(ask.arguments, name)) throw missing(init.name, name);
    }
    const value = await render({ ...absent, ...ask.arguments }, call);
    return value instanceof Question ? value : promptResult(value, shown.description);
  });
}

const ANYTHING: Shape = { json: { type: 'object' }, check: (value) => ({ value }) };

type Answer = (ask: Ask, call: Call) => Promise<unknown>;

/** Seals and opens the state that a handler keeps between rounds. */
function offer(
  definition: unknown,
  limits: Pick<Offer, 'timeoutMs' | 'secrets'>,
  seal: RequestState,
  answer: Answer,
): Offer {
  return {
    definition: checked(definition, limits),
    ...limits,
    async answer(ask: Ask, terms: CallTerms) {
      const caller = terms.caller.address;
      const state = terms.state === undefined ? undefined : seal.open(terms.state, caller, ask);
      const value = await answer(ask, new Call(terms, state));
      if (!(value instanceof Question)) return value;
      for (const request of Object.values(value.requests)) checkAnswerable(request, terms.capabilities);
      const asked = Object.keys(value.requests).length > 0 && { inputRequests: value.requests };
      const kept = value.state !== undefined && { requestState: seal.seal(value.state, caller, ask) };
      if (!asked && !kept) throw new EclipticError('INVALID_RESULT', 'a question needs requests or state');
      return { resultType: 'input_required', ...asked, ...kept };
    },
  };
}

/** The client capability that each request needs. */
const NEEDED = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
} as const;

function checkAnswerable({ method }: InputRequest, capabilities: ClientCapabilities): void {
  const needed = NEEDED[method as keyof typeof NEEDED];
  if (needed === undefined) throw new EclipticError('INVALID_RESULT', `no client can be asked for "${method}"`);
  if (capabilities[needed] !== undefined) return;
  const message = `this needs a client that can do ${needed}`;
  throw new EclipticError('CAPABILITY_REQUIRED', message, { required: { [needed]: {} } });
}

function fitting(verdict: Verdict, what: string, code: 'INVALID_ARGUMENTS' | 'INVALID_RESULT'): unknown {
  if ('value' in verdict) return verdict.value;
  throw new EclipticError(code, `the ${what} are wrong: ${verdict.faults.join('; ')}`, { faults: verdict.faults });
}

async function suggest(complete: Completions | undefined, ask: Extract<Ask, { kind: 'completion' }>): Promise<unknown> {
  const source = complete && Object.hasOwn(complete, ask.argument) ? complete[ask.argument] : undefined;
  const values = (await source?.(ask.value, ask.given)) ?? [];
  const { length: total } = values;
  return { completion: { values: values.slice(0, MAX_SUGGESTIONS), total, hasMore: total > MAX_SUGGESTIONS } };
}

/** Validates a definition before it is offered. */
function checked(definition: unknown, { timeoutMs = 1 }: Pick<Offer, 'timeoutMs'>): Definition {
  const parsed = DefinitionSchema.safeParse(definition);
  if (parsed.success && timeoutMs > 0) return parsed.data;
  const faults = parsed.success
    ? ['timeoutMs: must be more than 0']
    : parsed.error.issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': '));
  throw new EclipticError('INVALID_TOOL', `the offer is invalid: ${faults.join('; ')}`, { faults });
}

function missing(prompt: string, argument: string): EclipticError {
  return new EclipticError('INVALID_ARGUMENTS', `prompt "${prompt}" needs the argument "${argument}"`, {
    faults: [`${argument}: is missing`],
    argument,
  });
}

function notAsked(ask: Ask): EclipticError {
  return new EclipticError('INVALID_ARGUMENTS', `this offer does not answer "${ask.kind}"`);
}

/**
 * Replaces `{{name}}` placeholders in one pass: the values are never expanded again. An unknown name stays as written.
 */
export function renderTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{\{([^{}]+)\}\}/g, (placeholder, inside: string) => {
    const name = inside.trim();
    return Object.hasOwn(values, name) ? values[name]! : placeholder;
  });
}
