import { z } from 'zod';
import type { Part } from '../../a2a/protocol/types.js';
import { EclipticError } from '../../runtime/errors.js';

/**
 * Requests of the OpenAI API, read leniently: sampling settings and functions of the client mean nothing to an agent and
 * are ignored; what would change the answer's form is honoured or refused.
 */

const MAX_MESSAGES = 1_000;

const text = z.string();
const image = z.object({ type: z.literal('image_url'), image_url: z.object({ url: text }) });
const audio = z.object({
  type: z.literal('input_audio'),
  input_audio: z.object({ data: text, format: z.enum(['wav', 'mp3']) }),
});
const fileFields = { file_data: text.optional(), filename: text.optional(), file_id: text.nullish() };
const file = z.object({ type: z.literal('file'), file: z.object(fileFields) });
const words = z.object({ type: z.literal('text'), text });
const refusal = z.object({ type: z.literal('refusal'), refusal: text });

const ChatMessage = z.object({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z
    .union([text, z.array(z.discriminatedUnion('type', [words, image, audio, file, refusal])).max(MAX_MESSAGES)])
    .nullish(),
});

const schemaFormat = { schema: z.record(z.string(), z.unknown()) };
const one = z.literal(1, 'must be 1: an agent gives one answer').nullish();
const toolChoice = z
  .enum(['auto', 'none'], 'must be auto or none: the agent uses its own tools, and not those of the request')
  .nullish();

const ChatRequest = z.object({
  model: text.min(1),
  messages: z.array(ChatMessage).min(1).max(MAX_MESSAGES),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  n: one,
  tool_choice: toolChoice,
  response_format: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('text') }),
      z.object({ type: z.literal('json_object') }),
      z.object({ type: z.literal('json_schema'), json_schema: z.object({ schema: schemaFormat.schema.optional() }) }),
    ])
    .nullish(),
});

const ResponseContent = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['input_text', 'output_text']), text }),
  z.object({ type: z.literal('input_image'), image_url: text.nullish(), file_id: text.nullish() }),
  z.object({ type: z.literal('input_file'), ...fileFields, file_url: text.nullish() }),
  z.object({ type: z.literal('refusal'), refusal: text }),
]);

const ResponseItem = z.union([
  z.object({
    type: z.literal('message').optional(),
    role: z.enum(['user', 'assistant', 'system', 'developer']),
    content: z.union([text, z.array(ResponseContent).max(MAX_MESSAGES)]),
  }),
  // What else a client repeats of earlier answers says nothing to the agent.
  z.object({ type: z.enum(['reasoning', 'item_reference']) }).transform(() => undefined),
]);

const ResponsesRequest = z.object({
  model: text.min(1),
  input: z.union([text.min(1), z.array(ResponseItem).min(1).max(MAX_MESSAGES)]),
  instructions: text.nullish(),
  stream: z.boolean().nullish(),
  background: z.literal(false, 'must be false: give long work to the agent as a task of A2A').nullish(),
  previous_response_id: text.nullish(),
  conversation: z.union([text, z.object({ id: text }).transform(({ id }) => id)]).nullish(),
  metadata: z.record(text, text).nullish(),
  tool_choice: toolChoice,
  text: z
    .object({
      format: z
        .discriminatedUnion('type', [
          z.object({ type: z.literal('text') }),
          z.object({ type: z.literal('json_object') }),
          z.object({ type: z.literal('json_schema'), ...schemaFormat }),
        ])
        .nullish(),
    })
    .nullish(),
});

export type ChatAsked = z.output<typeof ChatRequest>;
export type ResponsesAsked = z.output<typeof ResponsesRequest>;

export const readChatRequest = (body: unknown): ChatAsked => read(ChatRequest, body);
export const readResponsesRequest = (body: unknown): ResponsesAsked => read(ResponsesRequest, body);

function read<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const { success, data, error } = schema.safeParse(body);
  if (success) return data;
  const { path, message } = error.issues[0]!;
  const field = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('');
  const param = field.replace(/^\./, '');
  throw new EclipticError('INVALID_PARAMS', `${param === '' ? 'the body' : param}: ${message}`, { field: param });
}

interface Said {
  readonly role: string;
  readonly parts: readonly Part[];
}

/** One message for the agent: the last one of the client, after the instructions and what was said before it. */
function joined(
  all: readonly Said[],
  { instructions = [], schema, field }: { instructions?: string[]; schema: object | undefined; field: string },
): readonly Part[] {
  const last = all.findLast(({ role, parts }) => role === 'user' || (role !== 'system' && parts.length > 0));
  if (last?.role !== 'user')
    throw new EclipticError('INVALID_PARAMS', 'the last message must be of the user', { field });
  if (last.parts.every(({ text }) => text === ''))
    throw new EclipticError('INVALID_PARAMS', 'the last message is empty: it must have text or a file', { field });
  const given = [...instructions, ...all.filter(({ role }) => role === 'system').map(({ parts }) => textIn(parts))];
  const said = all.filter(({ role, parts }) => role !== 'system' && parts.length > 0);
  const before = said.slice(0, -1);
  const preface = [
    ...(given.length === 0 ? [] : [`Instructions:\n${given.join('\n\n')}`]),
    ...(before.length === 0 ? [] : [`The conversation so far:\n${before.map(lineOf).join('\n')}`]),
  ];
  const words = textIn(last.parts);
  const text = preface.length === 0 ? words : `${preface.join('\n\n')}\n\nThe message to answer:\n${words}`;
  const files = said.flatMap(({ parts }) => parts.filter((part) => part.text === undefined));
  return [...(text === '' ? [] : [{ text }]), ...files, ...(schema ? [{ data: { outputSchema: schema } }] : [])];
}

function lineOf({ role, parts }: Said): string {
  return `${role}: ${textIn(parts)}`;
}

function textIn(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.text === undefined ? [] : [part.text])).join('\n');
}

/** A chat has no memory at the server: each request brings all of it. */
export function partsOfChat(asked: ChatAsked): readonly Part[] {
  const all = asked.messages.map(({ role, content }) => ({ role: roleOf(role), parts: partsOf(content) }));
  return joined(all, { schema: schemaOfChat(asked), field: 'messages' });
}

export function schemaOfChat({ response_format: format }: ChatAsked): object | undefined {
  return format?.type === 'json_schema' ? format.json_schema.schema : undefined;
}

export function partsOfInput(asked: ResponsesAsked): readonly Part[] {
  const { input, instructions } = asked;
  const items = typeof input === 'string' ? [{ role: 'user' as const, content: input }] : input;
  const all = items.flatMap((item) =>
    item === undefined ? [] : [{ role: roleOf(item.role), parts: partsOf(item.content) }],
  );
  return joined(all, {
    instructions: instructions ? [instructions] : [],
    schema: schemaOfInput(asked),
    field: 'input',
  });
}

export function schemaOfInput({ text: form }: ResponsesAsked): object | undefined {
  return form?.format?.type === 'json_schema' ? form.format.schema : undefined;
}

function roleOf(role: string): string {
  return role === 'developer' ? 'system' : role === 'function' ? 'tool' : role;
}

type Content = z.output<typeof ChatMessage>['content'] | readonly z.output<typeof ResponseContent>[];

function partsOf(content: Content): Part[] {
  if (content === undefined || content === null || content === '') return [];
  return typeof content === 'string' ? [{ text: content }] : content.map(partOf);
}

function partOf(part: Exclude<Content, string | null | undefined>[number]): Part {
  switch (part.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      return { text: part.text };
    case 'refusal':
      return { text: part.refusal };
    case 'image_url':
      return linked(part.image_url.url, undefined);
    case 'input_audio':
      return { raw: part.input_audio.data, mediaType: part.input_audio.format === 'wav' ? 'audio/wav' : 'audio/mpeg' };
    case 'input_image':
      return linked(part.image_url ?? undefined, undefined);
    case 'file':
      return linked(part.file.file_data, part.file.filename);
    case 'input_file':
      return linked(part.file_data ?? part.file_url ?? undefined, part.filename);
  }
}

/** A file is in a data URL, in bare base64, or behind a link. */
function linked(given: string | undefined, filename: string | undefined): Part {
  if (given === undefined) {
    throw new EclipticError(
      'INVALID_PARAMS',
      'a file must be in the request or behind a URL: uploaded files are not kept here',
      {
        field: 'file_id',
      },
    );
  }
  const about = filename === undefined ? {} : { filename };
  const [, mediaType, raw] = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=-]+)*;base64,(.*)$/s.exec(given) ?? [];
  if (raw !== undefined) return { raw, ...about, ...(mediaType !== undefined && { mediaType }) };
  return /^https?:/i.test(given) ? { url: given, ...about } : { raw: given, ...about };
}
