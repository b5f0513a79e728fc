import type { CallToolResult, GetPromptResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { type CallOptions, completed } from '../mcp/call.js';
import type { Entry } from '../mcp/catalogue.js';
import type { PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition } from '../mcp/definitions.js';
import { failureOf } from '../mcp/failure.js';
import type { CheckedBy, Schema } from '../mcp/schema.js';
import type { McpService } from '../mcp/service.js';
import type { Party } from '../mesh/policy.js';
import { EclipticError } from '../runtime/errors.js';
import { checked, checkOf } from './checked.js';

export type ToolCallOptions = Omit<CallOptions, 'caller' | 'capabilities' | 'answers' | 'state'>;

/** A definition under its full name, with the address of the agent that offers it. */
export type Offered<D> = Omit<D, 'kind'> & { readonly agent: string };

/** The tools, resources and prompts of the mesh as one agent may see and use them. */
export class AgentTools {
  readonly #service: McpService;
  readonly #self: () => Party;

  /** `self` throws once the agent has left. */
  constructor(service: McpService, self: () => Party) {
    this.#service = service;
    this.#self = self;
  }

  get tools(): Offered<ToolDefinition>[] {
    return this.#service.list('tool', this.#self()).map((entry) => ({ ...shown(entry), name: entry.fullName }));
  }

  /** The tools under the names that models and clients take, as `mars__add`. */
  get wireTools(): (Offered<ToolDefinition> & { readonly fullName: string })[] {
    const { names } = this.#service;
    return this.#service.list('tool', this.#self()).map((entry) => {
      return { ...shown(entry), name: names.nameOf(entry, 'safe'), fullName: entry.fullName };
    });
  }

  get resources(): Offered<ResourceDefinition>[] {
    return this.#service
      .list('resource', this.#self())
      .map((entry) => ({ ...shown(entry), uri: this.#service.uriOf(entry) }));
  }

  get templates(): Offered<TemplateDefinition>[] {
    return this.#service.list('template', this.#self()).map(shown);
  }

  get prompts(): Offered<PromptDefinition>[] {
    return this.#service.list('prompt', this.#self()).map((entry) => ({ ...shown(entry), name: entry.fullName }));
  }

  /**
   * Calls `agent.tool`, here or on another node. A failed call is never repeated automatically. With `output`, it resolves
   * with the tool's structured content, checked and in the schema's type: a result that does not match is rejected with
   * `INVALID_RESULT`, and a result that reports a failure with that failure.
   */
  call<S extends Schema>(
    name: string,
    args: Record<string, unknown>,
    options: ToolCallOptions & { output: S },
  ): Promise<CheckedBy<S>>;
  call(name: string, args?: Record<string, unknown>, options?: ToolCallOptions): Promise<CallToolResult>;
  async call(
    name: string,
    args: Record<string, unknown> = {},
    options: ToolCallOptions & { output?: Schema } = {},
  ): Promise<unknown> {
    const { output } = options;
    if (output !== undefined) checkOf(output);
    const result = completed(await this.#service.callTool(name, args, this.#terms(options)), name);
    return output === undefined ? result : structured(result, output, name);
  }

  async read(uri: string, options: ToolCallOptions = {}): Promise<ReadResourceResult> {
    return completed(await this.#service.readResource(uri, this.#terms(options)), uri);
  }

  async prompt(
    name: string,
    args: Record<string, string> = {},
    options: ToolCallOptions = {},
  ): Promise<GetPromptResult> {
    return completed(await this.#service.getPrompt(name, args, this.#terms(options)), name);
  }

  #terms(options: ToolCallOptions): CallOptions {
    return { ...options, caller: this.#self() };
  }
}

/** The structured content, or what the text of a tool without it says: JSON, or the text itself. */
async function structured(result: CallToolResult, schema: Schema, name: string): Promise<unknown> {
  const failure = failureOf(result);
  if (failure) throw failure;
  const what = `the result of ${name}`;
  const { structuredContent, content } = result;
  if (structuredContent !== undefined) return checked(structuredContent, schema, what, 'INVALID_RESULT');
  const [only, ...others] = content;
  if (only === undefined) return checked(null, schema, what, 'INVALID_RESULT');
  if (only.type !== 'text' || others.length > 0) {
    const faults = ['it has no structured content'];
    throw new EclipticError('INVALID_RESULT', `${what} does not match its schema: ${faults[0]}`, { faults });
  }
  const { text } = only;
  const json = parsed(text);
  try {
    return await checked(json, schema, what, 'INVALID_RESULT');
  } catch (error) {
    // A text such as "5" is JSON too.
    if (typeof json === 'string') throw error;
    return checked(text, schema, what, 'INVALID_RESULT').catch(() => {
      throw error;
    });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function shown<D extends { kind: string }>({ definition, owner }: Entry<D & Entry['definition']>): Offered<D> {
  const { kind: _, ...rest } = definition as D;
  return { ...rest, agent: owner };
}
