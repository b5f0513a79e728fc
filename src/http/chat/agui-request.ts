import { z } from 'zod';
import type { Part } from '../../a2a/protocol/types.js';
import { EclipticError } from '../../runtime/errors.js';

const MAX_MESSAGES = 1_000;
const MAX_RESUMED = 32;

const id = z.string().min(1).max(256);
const text = z.string();
const source = z.discriminatedUnion('type', [
  z.object({ type: z.literal('data'), value: text, mimeType: text }),
  z.object({ type: z.literal('url'), value: text, mimeType: text.nullish() }),
]);

const ContentSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text }),
  z.object({ type: z.enum(['image', 'audio', 'video', 'document']), source }),
]);

const MessageSchema = z.object({
  role: text,
  content: z.union([text, z.array(ContentSchema).max(MAX_MESSAGES)]).nullish(),
});

const RunSchema = z.object({
  threadId: id,
  runId: id,
  // Messages of other roles may have any shape: the agent knows what it said.
  messages: z
    .array(z.union([MessageSchema, z.looseObject({ role: text }).transform(({ role }) => ({ role, content: null }))]))
    .max(MAX_MESSAGES),
  context: z
    .array(z.object({ description: text, value: text }))
    .max(MAX_MESSAGES)
    .nullish(),
  resume: z
    .array(z.object({ interruptId: id, status: z.enum(['resolved', 'cancelled']), payload: z.unknown().optional() }))
    .max(MAX_RESUMED)
    .nullish(),
});

export type RunAsked = z.output<typeof RunSchema>;

export function readRun(body: unknown): RunAsked {
  const { success, data, error } = RunSchema.safeParse(body);
  if (success) return data;
  const { path, message } = error.issues[0]!;
  const field = path.join('.');
  throw new EclipticError('INVALID_PARAMS', `${field === '' ? 'the body' : field}: ${message}`, { field });
}

/** The user's last message, and what the front end tells beside it. The agent remembers the thread itself. */
export function partsOfRun({ messages, context }: RunAsked): readonly Part[] {
  const last = messages.at(-1);
  if (last?.role !== 'user')
    throw new EclipticError('INVALID_PARAMS', 'the last message must be of the user', { field: 'messages' });
  const { content } = last;
  const parts = typeof content === 'string' ? [{ text: content }] : (content ?? []).map(partOf);
  const facts = (context ?? []).map(({ description, value }) => `${description}: ${value}`);
  if (parts.length === 0) throw new EclipticError('INVALID_PARAMS', 'the last message is empty', { field: 'messages' });
  return facts.length === 0 ? parts : [...parts, { text: `Context:\n${facts.join('\n')}` }];
}

function partOf(part: z.output<typeof ContentSchema>): Part {
  if (part.type === 'text') return { text: part.text };
  const { value, mimeType } = part.source;
  const about = mimeType ? { mediaType: mimeType } : {};
  return part.source.type === 'data' ? { raw: value, ...about } : { url: value, ...about };
}

/** An answer to an agent's question: text, or an object with one. */
export function answerIn(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  const { text: said, answer } = (payload ?? {}) as { text?: unknown; answer?: unknown };
  const found = [said, answer].find((one) => typeof one === 'string');
  return typeof found === 'string' ? found : JSON.stringify(payload ?? null);
}
