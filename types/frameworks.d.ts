/** The parts of optional frameworks that the bridges use. Programs that use a bridge have the framework, with its own types. */
declare module 'ai' {
  export interface ModelMessage {
    role: string;
    content: unknown;
  }
  export interface Tool {
    description?: string;
    inputSchema: unknown;
    execute?: (input: unknown, options: { abortSignal?: AbortSignal }) => unknown;
  }
  export function dynamicTool(tool: Tool): Tool;
  export function jsonSchema(schema: object): unknown;
}

declare module '@openai/agents' {
  export interface AgentInputItem {
    role?: string;
    content?: unknown;
  }
  export interface FunctionTool {
    name: string;
  }
  export interface RunToolApprovalItem {
    name?: string;
    arguments?: string;
  }
  interface RunState {
    approve(item: RunToolApprovalItem): void;
    reject(item: RunToolApprovalItem, options?: { message?: string }): void;
  }
  interface RunStreamEvent {
    type: string;
    name?: string;
    data?: { type: string; delta?: string };
    item?: { rawItem?: { name?: string } };
  }
  export interface StreamedRunResult extends AsyncIterable<RunStreamEvent> {
    state: RunState;
    interruptions: RunToolApprovalItem[];
    finalOutput: unknown;
    history: AgentInputItem[];
    completed: Promise<void>;
    runContext: { usage: { inputTokens: number; outputTokens: number; requests: number } };
  }
  export function tool(options: {
    name: string;
    description: string;
    strict: boolean;
    parameters: object;
    execute: (input: unknown, context?: unknown, details?: { signal?: AbortSignal }) => unknown;
    needsApproval?: (context: unknown, input: unknown) => Promise<boolean>;
  }): FunctionTool;
  export function run(
    agent: unknown,
    input: string | AgentInputItem[] | RunState,
    options: { stream: true; signal?: AbortSignal },
  ): Promise<StreamedRunResult>;
}

declare module '@langchain/core/tools' {
  export interface StructuredToolInterface {
    name: string;
  }
  export function tool(
    run: (input: unknown, config?: { signal?: AbortSignal; writer?: (chunk: unknown) => void }) => Promise<string>,
    fields: { name: string; description: string; schema: object },
  ): StructuredToolInterface;
}

declare module '@langchain/langgraph' {
  export class Command {
    constructor(command: { resume: unknown });
  }
}
