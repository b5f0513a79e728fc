/** The part of the OpenAI chat completions API that model providers use; many servers speak it. */

export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

export type ChatMessage =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string | null; readonly tool_calls?: readonly ToolCall[] }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string };

export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolSchema[];
  /** The JSON Schema of the answer. */
  readonly outputSchema?: Readonly<Record<string, unknown>> | undefined;
}

export interface TokenCount {
  readonly input: number;
  readonly output: number;
}

/** A whole answer of a model. */
export interface ChatAnswer {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  /** `stop`, `tool_calls`, `length`, `content_filter`; other servers have other words. */
  readonly finishReason: string;
  /** Undefined where the endpoint does not count. */
  readonly tokens?: TokenCount | undefined;
}
