import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A model that calls a tool, and then answers in 50 words, each an event, as models do. */
const WORDS = Array.from({ length: 50 }, (_, n) => `word-${n} `);
const ARGUMENTS = ['{"pa', 'th":', '"."', '}'];

const choice = (delta: object, finish_reason: string | null = null) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: 'bench',
  choices: [{ index: 0, delta, finish_reason }],
});
const USAGE = { ...choice({}), choices: [], usage: { prompt_tokens: 900, completion_tokens: 60, total_tokens: 960 } };
const events = (...chunks: object[]) =>
  [...chunks, USAGE].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).concat('data: [DONE]\n\n');

const CALL = events(
  choice({
    role: 'assistant',
    content: null,
    tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'list_files', arguments: '' } }],
  }),
  ...ARGUMENTS.map((piece) => choice({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
  choice({}, 'tool_calls'),
);
const ANSWER = events(
  choice({ role: 'assistant', content: '' }),
  ...WORDS.map((content) => choice({ content })),
  choice({}, 'stop'),
);

let sample: unknown;

const server = createServer(async (request, response) => {
  if (request.method === 'GET') return void response.end('{"data":[{"id":"bench"}]}');
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  sample ??= JSON.parse(text);
  send(response, text.includes('"role":"tool"') ? ANSWER : CALL);
});

function send(response: ServerResponse, parts: readonly string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  // Several events in one piece, as they arrive from a fast model.
  for (let at = 0; at < parts.length; at += 4) response.write(parts.slice(at, at + 4).join(''));
  response.end();
}

server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('message', () => process.send!(sample));
process.on('disconnect', () => process.exit());
