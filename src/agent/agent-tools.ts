import type { CallToolResult, GetPromptResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { type CallOptions, completed } from '../mcp/call.js';
import type { Entry } from '../mcp/catalogue.js';
import type { PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition } from '../mcp/definitions.js';
import type { McpService } from '../mcp/service.js';
import type { Party } from '../mesh/policy.js';

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

  /** Calls `agent.tool`, here or on another node. A failed call is never repeated automatically. */
  async call(name: string, args: Record<string, unknown> = {}, options: ToolCallOptions = {}): Promise<CallToolResult> {
    return completed(await this.#service.callTool(name, args, this.#terms(options)), name);
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

function shown<D extends { kind: string }>({ definition, owner }: Entry<D & Entry['definition']>): Offered<D> {
  const { kind: _, ...rest } = definition as D;
  return { ...rest, agent: owner };
}
