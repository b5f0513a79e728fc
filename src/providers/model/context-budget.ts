import { EclipticError } from '../../runtime/errors.js';
import type { ChatMessage, ToolSchema } from './chat-types.js';

/** A cautious estimate for English and code; the endpoint has the true count. */
const CHARS_PER_TOKEN = 3.5;
/** The part of the context that is left for the answer. */
const ANSWER_SHARE = 0.25;
/** Tool results up to this length are not worth dropping. */
const SHORT_CHARS = 400;

export interface Compaction {
  readonly messages: readonly ChatMessage[];
  /** Tool results and exchanges that were dropped. */
  readonly dropped: number;
}

/**
 * Makes a conversation fit into the context of a model: drops the oldest tool results, then whole earlier exchanges. The
 * system prompt, the task and the latest exchange stay. Throws where they do not fit.
 */
export function compact(
  messages: readonly ChatMessage[],
  tools: readonly ToolSchema[],
  contextTokens: number,
): Compaction {
  const room = (contextTokens * (1 - ANSWER_SHARE) - tokensOf(JSON.stringify(tools))) * CHARS_PER_TOKEN;
  let excess = messages.reduce((sum, message) => sum + charsOf(message), 0) - room;
  if (excess <= 0) return { messages, dropped: 0 };
  const latest = messages.findLastIndex(({ role }) => role === 'assistant');
  let dropped = 0;
  const kept = messages.map((message, index) => {
    if (excess <= 0 || message.role !== 'tool' || index > latest || message.content.length <= SHORT_CHARS)
      return message;
    const note = `[This result of ${message.content.length} characters was dropped to save room. Call the tool again if you need it.]`;
    excess -= message.content.length - note.length;
    dropped++;
    return { ...message, content: note };
  });
  // Tool calls with long arguments, such as written files, and answers of earlier tasks of the conversation.
  const gone = new Set<ChatMessage>();
  for (let at = 0; excess > 0 && at < latest; at++) {
    if (kept[at]!.role !== 'assistant') continue;
    dropped++;
    do {
      gone.add(kept[at]!);
      excess -= charsOf(kept[at]!);
    } while (kept[at + 1]?.role === 'tool' && at++ < latest);
  }
  if (excess > 0) {
    const message = `the task does not fit into the model's context of ${contextTokens} tokens`;
    throw new EclipticError('PROVIDER_INVALID_INPUT', message, { contextTokens });
  }
  return { messages: kept.filter((message) => !gone.has(message)), dropped };
}

export function tokensOf(text: string): number {
  return Math.ceil(text.length / CHARS_PER_TOKEN);
}

function charsOf(message: ChatMessage): number {
  const calls = message.role === 'assistant' && message.tool_calls ? JSON.stringify(message.tool_calls).length : 0;
  return (message.content?.length ?? 0) + calls;
}
