import type { Ask, CallTerms } from '../../mcp/call.js';
import type { RelayedCall } from '../../mcp/upstream/relay.js';
import type { ExecuteTerms } from '../adapter/provider-adapter.js';
import { NormalizedProviderError } from '../adapter/provider-errors.js';

/** A tool says itself that it failed; its caller wants what it said. */
export class ToolFailure extends NormalizedProviderError {
  readonly result: unknown;

  constructor(message: string, correlationId: string, result: unknown) {
    super('PROVIDER_EXECUTE_FAILED', message, 'mcp', { correlationId });
    this.result = result;
  }
}

/** What a provider's caller says, as a call's. */
export function callTerms({ caller = 'operator', onUpdate }: ExecuteTerms, signal: AbortSignal): CallTerms {
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

/** What a tool says that says that it failed. */
export function failureIn(result: unknown, toolName: string): string | undefined {
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

/** What is asked for, for the event stream. */
export function whatOf(input: { readonly toolName: string } | RelayedCall): {
  readonly kind: (typeof WHAT)[Ask['kind']];
  readonly details: Readonly<Record<string, string>>;
} {
  if (!('relay' in input)) return { kind: 'tool', details: { toolName: input.toolName } };
  const kind = WHAT[input.ask.kind];
  return { kind, details: kind === 'tool' ? { toolName: input.key } : { name: input.key } };
}
