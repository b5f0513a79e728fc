import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { ChatClient } from '../providers/model/chat-client.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { otlpSettings } from './otlp-settings.js';
import { type FinishedSpan, SpanTracer } from './span-tracer.js';

const ANSWER = {
  choices: [{ message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 3 },
};

async function spanOfOneAnswer(optIn: string | undefined): Promise<FinishedSpan> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(ANSWER));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const spans: FinishedSpan[] = [];
  const settings = otlpSettings('http://127.0.0.1:4318', { OTEL_SEMCONV_STABILITY_OPT_IN: optIn });
  const tracer = new SpanTracer(systemRuntime(), settings);
  tracer.exportTo((span) => spans.push(span));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const client = new ChatClient(systemRuntime({ tracer }), {
    ...{ baseUrl, model: 'tiny', headers: async () => ({}), silenceMs: 5_000 },
  });
  const terms = { signal: new AbortController().signal, onText: () => {}, onRetry: () => {} };
  await client.complete({ messages: [{ role: 'user', content: 'a secret' }] }, terms);
  client.close();
  await expect.poll(() => spans.length).toBe(1);
  return spans[0]!;
}

it('has attributes of generative AI only where the owner opted in, and never the text [FC.44]', async () => {
  const plain = await spanOfOneAnswer(undefined);
  expect(plain.name).toBe('chat tiny');
  expect(Object.keys(plain.attributes).filter((key) => key.startsWith('gen_ai'))).toEqual([]);
  const rich = await spanOfOneAnswer('gen_ai_latest_experimental');
  expect(rich.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'tiny',
    'gen_ai.usage.input_tokens': 12,
    'gen_ai.usage.output_tokens': 3,
  });
  expect(JSON.stringify([plain, rich])).not.toMatch(/secret|hello/);
});
