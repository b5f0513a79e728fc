import type { ContentBlock } from '@modelcontextprotocol/server';
import { weighJson } from '../mesh/json-value.js';
import { EclipticError } from '../runtime/errors.js';
import { type Ask, needsInput } from './call.js';
import { withStructuredText } from './result-text.js';

/** Turns the return values of handlers into MCP results. */

interface ToolResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

const MAX_RESULT_BYTES = 8 * 1_048_576;

/** `shape` validates the structured content, or throws. */
export async function toolResult(
  returned: unknown,
  shape: ((value: unknown) => Promise<unknown>) | undefined,
): Promise<ToolResult> {
  const value = asJson(returned);
  if (!isToolResult(value)) return plainResult(shape ? await shape(value) : value, shape !== undefined);
  if (!shape || value.isError) return withStructuredText(value);
  return withStructuredText({ ...value, structuredContent: await shape(value.structuredContent) });
}

function plainResult(value: unknown, structured: boolean): ToolResult {
  if (value === undefined || value === null) return { content: [] };
  const isText = typeof value === 'string';
  const content = [{ type: 'text' as const, text: isText ? value : JSON.stringify(value) }];
  return structured || (!isText && typeof value === 'object') ? { content, structuredContent: value } : { content };
}

export function resourceResult(returned: unknown, uri: string, mimeType: string | undefined): unknown {
  const known = { uri, ...(mimeType !== undefined && { mimeType }) };
  if (returned instanceof Uint8Array) {
    return { contents: [{ ...known, blob: Buffer.from(returned).toString('base64') }] };
  }
  const value = asJson(returned);
  if (isResourceResult(value)) return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return { contents: [{ ...known, text }] };
}

export function promptResult(returned: unknown, description: string | undefined): unknown {
  const value = asJson(returned);
  if (isPromptResult(value)) return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  const messages = isListOf(value, isMessage) ? value : [{ role: 'user', content: { type: 'text', text } }];
  return { ...(description !== undefined && { description }), messages };
}

/** Is this a valid answer to an ask of this kind? */
export function answers(kind: Ask['kind'], value: unknown): boolean {
  if (needsInput(value)) return true;
  switch (kind) {
    case 'tool':
      return isToolResult(value);
    case 'prompt':
      return isPromptResult(value);
    case 'completion':
      return isObject(value) && isObject(value.completion) && isListOf(value.completion.values, isString);
    default:
      return isResourceResult(value);
  }
}

/** Applies JSON's changes now, so that a local caller gets the same value as a remote one. */
function asJson(value: unknown): unknown {
  if (value === undefined) return undefined;
  const weighed = weighJson(value, MAX_RESULT_BYTES);
  if (typeof weighed === 'number') return value;
  if (weighed.tooLarge) throw invalid(weighed.problem);
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw invalid((error as Error).message);
  }
  if (text === undefined || text.length > MAX_RESULT_BYTES) throw invalid(`${weighed.path} ${weighed.problem}`.trim());
  return JSON.parse(text) as unknown;
}

function invalid(problem: string): EclipticError {
  return new EclipticError('INVALID_RESULT', `the handler’s result cannot be sent: it ${problem}`, {
    faults: [problem],
  });
}

function isToolResult(value: unknown): value is ToolResult {
  return isObject(value) && isListOf(value.content, (block) => isObject(block) && isString(block.type));
}

function isResourceResult(value: unknown): boolean {
  return isObject(value) && isListOf(value.contents, isContents);
}

function isContents(value: unknown): boolean {
  return isObject(value) && isString(value.uri) && (isString(value.text) || isString(value.blob));
}

function isPromptResult(value: unknown): boolean {
  return isObject(value) && isListOf(value.messages, isMessage);
}

function isMessage(value: unknown): boolean {
  return isObject(value) && isString(value.role) && isObject(value.content);
}

function isListOf(value: unknown, isMember: (member: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isMember);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}
