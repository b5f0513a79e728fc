import { partsOfRun, readRun } from '../../../src/http/chat/agui-request.js';
import {
  partsOfChat,
  partsOfInput,
  readChatRequest,
  readResponsesRequest,
  schemaOfChat,
  schemaOfInput,
} from '../../../src/http/chat/openai-requests.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const BODIES: readonly unknown[] = [
  {
    model: 'mars',
    messages: [
      { role: 'system', content: 's' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } },
        ],
      },
    ],
    stream: true,
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } },
  },
  {
    model: 'mars',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'x' },
          { type: 'input_file', filename: 'a', file_data: 'data:a/b;base64,aGk=' },
        ],
      },
    ],
    previous_response_id: 'r',
    text: { format: { type: 'json_schema', name: 'n', schema: {} } },
  },
  { model: 'mars', input: 'x', instructions: 'y' },
  {
    threadId: 't',
    runId: 'r',
    messages: [
      { id: 'm', role: 'user', content: 'x' },
      {
        id: 'n',
        role: 'assistant',
        toolCalls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
    ],
    tools: [],
    context: [{ description: 'd', value: 'v' }],
    state: {},
    forwardedProps: {},
  },
];

/** A request that is taken gives the agent something, and is taken again. */
export const target: FuzzTarget = {
  name: 'chat-request',
  about: 'requests over the OpenAI API and AG-UI',
  seeds: [...BODIES.map((_, index) => Buffer.of(index)), ...BODIES.map((one) => JSON.stringify(one))],
  run(input) {
    const body = jsonOf(input, BODIES);
    const chat = unlessRefused(() => readChatRequest(body));
    if (chat) {
      mustEqual(readChatRequest(JSON.parse(JSON.stringify(chat))), chat, 'a chat read twice');
      const parts = unlessRefused(() => partsOfChat(chat));
      if (parts) must(parts.length > 0, () => 'nothing for the agent');
      unlessRefused(() => schemaOfChat(chat));
    }
    const responses = unlessRefused(() => readResponsesRequest(body));
    if (responses) {
      unlessRefused(() => partsOfInput(responses));
      unlessRefused(() => schemaOfInput(responses));
    }
    partsOfRun(readRun(body));
  },
};
