import { EclipticError } from '../../runtime/errors.js';
import type { ChatMessage, ToolSchema } from './chat-types.js';

/** A cautious estimate for any language, since a character that needs more bytes needs more tokens; the endpoint has the true count. */
const BYTES_PER_TOKEN = 3.5;
/** The part of the context that is left for the answer. */
const ANSWER_SHARE = 0.25;
/** The part of the context that the tool results of one answer may take. */
const RESULTS_SHARE = 0.4;
/** Tool results up to this length are not worth dropping. */
const SHORT_BYTES = 400;

export interface Compaction {
  readonly messages: readonly ChatMessage[];
  /** Tool results and messages that were dropped. */
  readonly dropped: number;
}

interface CompactionInit {
  readonly messages: readonly ChatMessage[];
  /** The one of the messages that is the task. */
  readonly task: ChatMessage;
  readonly tools: readonly ToolSchema[];
  readonly contextTokens: number;
}

/**
 * Makes a conversation fit into the context of a model: drops the oldest tool results, then messages of earlier tasks, then
 * earlier exchanges of this one. The system prompt, the task and the latest exchange stay. Throws where they do not fit.
 */
export function compact({ messages, task, tools, contextTokens }: CompactionInit): Compaction {
  const room = (contextTokens * (1 - ANSWER_SHARE) - tokensOf(JSON.stringify(tools))) * BYTES_PER_TOKEN;
  let excess = messages.reduce((sum, message) => sum + bytesOf(message), 0) - room;
  if (excess <= 0) return { messages, dropped: 0 };
  const begin = messages.indexOf(task);
  // The results of its tools have not been seen yet.
  const latest = Math.max(
    begin,
    messages.findLastIndex(({ role }) => role === 'assistant'),
  );
  let dropped = 0;
  const kept = messages.map((message, index) => {
    if (excess <= 0 || message.role !== 'tool' || index > latest || bytesOf(message) <= SHORT_BYTES) return message;
    const note = `[This result of ${message.content.length} characters was dropped to save room. Call the tool again if you need it.]`;
    excess -= bytesOf(message) - note.length;
    dropped++;
    return { ...message, content: note };
  });
  const gone = new Set<number>();
  const drop = (index: number) => {
    gone.add(index);
    excess -= bytesOf(kept[index]!);
    dropped++;
  };
  for (let at = 1; at < latest && excess > 0; at++) {
    if (at === begin) continue;
    drop(at);
    // The results of a call go with it: the API refuses one without the other.
    while (kept[at + 1]!.role === 'tool') drop(++at);
  }
  if (excess > 0) {
    const message = `the task does not fit into the model's context of ${contextTokens} tokens`;
    throw new EclipticError('PROVIDER_INVALID_INPUT', message, { contextTokens });
  }
  return { messages: kept.filter((_, index) => !gone.has(index)), dropped };
}

/** Bytes for each of the results of that many tool calls, so that the latest exchange fits into the context. */
export function resultBytes(contextTokens: number, calls: number): number {
  return Math.floor((contextTokens * RESULTS_SHARE * BYTES_PER_TOKEN) / calls);
}

export function tokensOf(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

export function bytesOf(message: ChatMessage): number {
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : [];
  return calls.reduce(
    (sum, { id, function: { name, arguments: given } }) => sum + id.length + name.length + Buffer.byteLength(given),
    message.content === null ? 0 : Buffer.byteLength(message.content),
  );
}
