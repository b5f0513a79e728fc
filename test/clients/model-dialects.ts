/** The four APIs that coding agents speak with their models, as far as a scripted answer needs them. */

export interface Offered {
  readonly name: string;
  /** OpenAI Responses: the server that the tool belongs to. */
  readonly namespace?: string;
  readonly type?: string;
}

export interface ToolTurn {
  readonly role: 'tool';
  readonly call: string;
  readonly tool?: string | undefined;
  readonly content: unknown;
  readonly isError?: boolean | undefined;
}

interface TextTurn {
  readonly role: 'user' | 'system' | 'model';
  readonly text: string;
}

export type Turn = TextTurn | ToolTurn;

export interface ReadRequest {
  readonly model: string;
  readonly stream: boolean;
  /** Of the JSON that is asked for instead of words. */
  readonly schema: unknown;
  readonly tools: readonly Offered[];
  readonly turns: readonly Turn[];
}

export interface Called {
  readonly id: string;
  readonly tool: Offered;
  readonly input: unknown;
}

export interface Said {
  readonly id: string;
  readonly model: string;
  readonly text?: string | undefined;
  readonly calls: readonly Called[];
  readonly usage: { readonly input: number; readonly output: number };
}

interface ServerEvent {
  readonly event?: string;
  readonly data: unknown;
}

export interface Dialect {
  readonly path: RegExp;
  read(body: never, path: string): ReadRequest;
  json(said: Said): object;
  events(said: Said): readonly ServerEvent[];
}

/** A part of a message: each API has its own kinds, of which these fields matter. */
interface Part {
  readonly type?: string;
  readonly text?: string;
  readonly content?: unknown;
  readonly tool_use_id?: string;
  readonly is_error?: boolean;
}
type Content = string | readonly Part[];

const partsOf = (content: Content): readonly Part[] => (typeof content === 'string' ? [{ text: content }] : content);
const textOf = (part: Part): string => part.text ?? `[${part.type}]`;
/** A text as a model streams it: word by word. */
const chunksOf = (text: string): string[] => text.match(/\s*\S+\s*$|\s*\S+/g) ?? [text];
const asText = (input: unknown): string => (typeof input === 'string' ? input : JSON.stringify(input));

interface MessagesBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly output_config?: { readonly format?: { readonly schema?: unknown } };
  readonly tools?: readonly { readonly name: string; readonly input_schema?: object }[];
  readonly messages: readonly { readonly role: string; readonly content: Content }[];
  readonly system?: Content;
}

const messages = {
  path: /\/messages$/,
  read: ({ model, stream, output_config, tools = [], messages: said, system = [] }: MessagesBody) => ({
    model,
    stream: stream === true,
    schema: output_config?.format?.schema,
    tools: tools.filter((tool) => tool.input_schema),
    turns: [
      ...partsOf(system).map((part): Turn => ({ role: 'system', text: textOf(part) })),
      ...said.flatMap(({ role, content }): Turn[] => {
        if (role === 'assistant') return [{ role: 'model', text: JSON.stringify(content) }];
        return partsOf(content).map((part): Turn => {
          if (part.type !== 'tool_result') return { role: role === 'user' ? 'user' : 'system', text: textOf(part) };
          return { role: 'tool', call: part.tool_use_id!, content: part.content, isError: part.is_error };
        });
      }),
    ],
  }),
  json: messagesAnswer,
  events(said: Said) {
    const { content, stop_reason, usage, ...message } = messagesAnswer(said);
    const blocks = content.flatMap((block, index) => {
      const [empty, deltas] =
        'text' in block
          ? [{ text: '' }, chunksOf(block.text).map((text) => ({ type: 'text_delta', text }))]
          : [{ input: {} }, [{ type: 'input_json_delta', partial_json: JSON.stringify(block.input) }]];
      return [
        { type: 'content_block_start', index, content_block: { ...block, ...empty } },
        ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
        { type: 'content_block_stop', index },
      ];
    });
    const all = [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage } },
      ...blocks,
      { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
      { type: 'message_stop' },
    ];
    return all.map((data) => ({ event: data.type, data }));
  },
} satisfies Dialect;

function messagesAnswer({ id, model, text, calls, usage }: Said) {
  const content = [
    ...(text === undefined ? [] : [{ type: 'text', text }]),
    ...calls.map((call) => ({ type: 'tool_use', id: call.id, name: call.tool.name, input: call.input })),
  ];
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  const used = { input_tokens: usage.input, output_tokens: usage.output };
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model, content, stop_reason, usage: used };
}

interface ResponsesItem {
  readonly type?: string;
  readonly role?: string;
  readonly content?: Content;
  readonly call_id?: string;
  readonly output?: unknown;
  readonly tools?: readonly ResponsesTool[];
}
interface ResponsesTool {
  readonly type: string;
  readonly name?: string;
  readonly tools?: readonly ResponsesTool[];
}
interface ResponsesBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly instructions?: string;
  readonly text?: { readonly format?: { readonly schema?: unknown } };
  readonly tools?: readonly ResponsesTool[];
  readonly input: string | readonly ResponsesItem[];
}

const responses = {
  path: /\/responses$/,
  read({ model, stream, text, instructions = '', tools = [], input }: ResponsesBody) {
    const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
    // Codex puts a server's tools into a namespace, and describes some only after they were searched for.
    const found = items.flatMap((item: ResponsesItem) =>
      item.type === 'tool_search_output' ? (item.tools ?? []) : [],
    );
    return {
      model,
      stream: stream === true,
      schema: text?.format?.schema,
      tools: [...tools, ...found].flatMap((tool): Offered[] => {
        if (tool.type === 'namespace') {
          return (tool.tools ?? []).map(({ type, name }) => ({ type, name: name!, namespace: tool.name! }));
        }
        const name = tool.type === 'tool_search' ? tool.type : tool.name;
        return name === undefined ? [] : [{ type: tool.type, name }];
      }),
      turns: [
        { role: 'system' as const, text: `${instructions}\n${JSON.stringify(tools)}` },
        ...items.flatMap((item: ResponsesItem): Turn[] => {
          const { type, role, content = [], call_id } = item;
          if (type?.endsWith('_output')) return [{ role: 'tool', call: call_id!, content: item.output ?? item.tools }];
          if (role === 'assistant' || (type !== undefined && type !== 'message')) {
            return [{ role: 'model', text: JSON.stringify(item) }];
          }
          return partsOf(content).map((part) => ({ role: role === 'user' ? 'user' : 'system', text: textOf(part) }));
        }),
      ],
    };
  },
  json: responsesAnswer,
  events(said: Said) {
    const response = responsesAnswer(said);
    const all: ({ type: string } & Record<string, unknown>)[] = [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      ...response.output.flatMap((item, output_index) => [
        { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress' } },
        { type: 'response.output_item.done', output_index, item },
      ]),
      { type: 'response.completed', response },
    ];
    return all.map((data, sequence_number) => ({ event: data.type, data: { ...data, sequence_number } }));
  },
} satisfies Dialect;

function responsesAnswer({ id, model, text, calls, usage }: Said) {
  const status = 'completed';
  const said = { type: 'output_text', text, annotations: [] };
  const output: Record<string, unknown>[] = [
    ...(text === undefined ? [] : [{ type: 'message', id: `msg_${id}`, status, role: 'assistant', content: [said] }]),
    ...calls.map(({ id: call_id, tool, input }) => {
      if (tool.type === 'tool_search') {
        return { type: 'tool_search_call', call_id, status, execution: 'client', arguments: input };
      }
      const called = { call_id, status, name: tool.name, ...(tool.namespace && { namespace: tool.namespace }) };
      return tool.type === 'custom'
        ? { type: 'custom_tool_call', id: `ctc_${call_id}`, ...called, input: asText(input) }
        : { type: 'function_call', id: `fc_${call_id}`, ...called, arguments: asText(input) };
    }),
  ];
  const used = { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.input + usage.output };
  return { id: `resp_${id}`, object: 'response', created_at: 0, model, status, output, usage: used };
}

interface ChatBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly response_format?: { readonly json_schema?: { readonly schema?: unknown } };
  readonly tools?: readonly { readonly function?: Offered }[];
  readonly messages: readonly { readonly role: string; readonly content: Content; readonly tool_call_id?: string }[];
}

const chat = {
  path: /\/chat\/completions$/,
  read: ({ model, stream, response_format, tools = [], messages: said }: ChatBody) => ({
    model,
    stream: stream === true,
    schema: response_format?.json_schema?.schema,
    tools: tools.flatMap((tool) => (tool.function ? [{ name: tool.function.name }] : [])),
    turns: said.flatMap(({ role, content, tool_call_id }): Turn[] => {
      if (role === 'assistant') return [{ role: 'model', text: JSON.stringify(content ?? tool_call_id ?? '') }];
      if (role === 'tool') return [{ role: 'tool', call: tool_call_id!, content }];
      return partsOf(content).map((part) => ({ role: role === 'user' ? 'user' : 'system', text: textOf(part) }));
    }),
  }),
  json: chatAnswer,
  events(said: Said) {
    const { choices, usage, ...rest } = chatAnswer(said);
    const { message: delta, finish_reason } = choices[0]!;
    const head = { ...rest, object: 'chat.completion.chunk' };
    return [
      { data: { ...head, choices: [{ index: 0, delta, finish_reason: null }] } },
      { data: { ...head, choices: [{ index: 0, delta: {}, finish_reason }] } },
      { data: { ...head, choices: [], usage } },
      { data: '[DONE]' },
    ];
  },
} satisfies Dialect;

function chatAnswer({ id, model, text, calls, usage }: Said) {
  const tool_calls = calls.map((call, index) => {
    return {
      index,
      id: call.id,
      type: 'function',
      function: { name: call.tool.name, arguments: asText(call.input) },
    };
  });
  const message = { role: 'assistant', content: text ?? null, ...(calls.length > 0 && { tool_calls }) };
  const finish_reason = calls.length > 0 ? 'tool_calls' : 'stop';
  const { input, output } = usage;
  const used = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  const head = { id: `chatcmpl-${id}`, object: 'chat.completion', created: 0, model };
  return { ...head, choices: [{ index: 0, message, finish_reason }], usage: used };
}

interface GeminiBody {
  readonly generationConfig?: { readonly responseJsonSchema?: unknown; readonly responseSchema?: unknown };
  readonly systemInstruction?: { readonly parts?: readonly Part[] };
  readonly tools?: readonly { readonly functionDeclarations?: readonly Offered[] }[];
  readonly contents: readonly {
    readonly role: string;
    readonly parts: readonly (Part & {
      readonly functionResponse?: { readonly id?: string; readonly name: string; readonly response: unknown };
    })[];
  }[];
}

const gemini = {
  path: /\/models\/[^/:]+:(?:generateContent|streamGenerateContent)$/,
  read: ({ generationConfig: config, systemInstruction, tools = [], contents }: GeminiBody, path: string) => ({
    model: /\/models\/([^/:]+):/.exec(path)![1]!,
    stream: path.endsWith(':streamGenerateContent'),
    schema: config?.responseJsonSchema ?? config?.responseSchema,
    tools: tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations.map(({ name }) => ({ name }))),
    turns: [
      ...(systemInstruction?.parts ?? []).map((part): Turn => ({ role: 'system', text: textOf(part) })),
      ...contents.flatMap(({ role, parts }, at): Turn[] => {
        if (role === 'model') return [{ role: 'model', text: JSON.stringify(parts) }];
        return parts.map((part, index): Turn => {
          const response = part.functionResponse;
          if (!response) return { role: 'user', text: textOf(part) };
          const failed = typeof response.response === 'object' && 'error' in (response.response ?? {});
          const { id = `${at}.${index}`, name, response: content } = response;
          return { role: 'tool', call: id, tool: name, content, isError: failed };
        });
      }),
    ],
  }),
  json: (said: Said) => geminiAnswer(said),
  events(said: Said) {
    const texts = said.text === undefined || said.calls.length > 0 ? [said.text] : chunksOf(said.text);
    return texts.map((text, index) => ({ data: geminiAnswer({ ...said, text }, index === texts.length - 1) }));
  },
} satisfies Dialect;

function geminiAnswer({ id, model, text, calls, usage }: Said, isLast = true) {
  const parts = [
    ...(text === undefined ? [] : [{ text }]),
    ...calls.map((call) => ({ functionCall: { id: call.id, name: call.tool.name, args: call.input } })),
  ];
  return {
    candidates: [{ index: 0, content: { role: 'model', parts }, ...(isLast && { finishReason: 'STOP' }) }],
    usageMetadata: { promptTokenCount: usage.input, candidatesTokenCount: usage.output },
    modelVersion: model,
    responseId: id,
  };
}

export const DIALECTS: readonly Dialect[] = [messages, responses, chat, gemini];
