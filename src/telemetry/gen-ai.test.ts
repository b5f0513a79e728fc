import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { createNode } from '../node/compose.js';
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

async function spansOfWork(genAi: boolean): Promise<FinishedSpan[]> {
  const spans: FinishedSpan[] = [];
  const tracer = new SpanTracer(systemRuntime(), { genAi });
  tracer.exportTo((span) => spans.push(span));
  const node = await createNode({ runtime: systemRuntime({ tracer }) });
  onTestFinished(() => node.stop());
  const sun = node.agent({ id: 'sun', tier: 0 });
  const mars = node.agent({ id: 'mars', tier: 2, capabilities: ['build'] });
  mars.tool('add', { description: 'Adds.' }, () => 'a secret');
  mars.onTask(async () => sun.mcp.call('mars.add', {}));
  await sun.propose({ to: 'mars', taskDescription: 'a secret', deadlineMs: 10_000 }).result;
  await expect.poll(() => spans.some(({ name }) => name === 'propose')).toBe(true);
  return spans;
}

it('names the steps of agents and tools by the conventions only where the owner opted in [FC.44]', async () => {
  const steps = (spans: FinishedSpan[]) =>
    spans.map(({ name }) => name).filter((name) => !/^(send|handle) /.test(name));
  const plain = await spansOfWork(false);
  expect(steps(plain)).toEqual(['tool add', 'proposal', 'propose']);
  expect(JSON.stringify(plain)).not.toMatch(/gen_ai|secret/);
  const rich = await spansOfWork(true);
  expect(steps(rich)).toEqual([
    'create_agent sun',
    'create_agent mars',
    'execute_tool add',
    'invoke_agent mars',
    'propose',
  ]);
  const found = (name: string) => rich.find((span) => span.name === name)!;
  expect(found('invoke_agent mars').attributes).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.provider.name': 'ecliptic',
    'gen_ai.agent.name': 'mars',
    'gen_ai.agent.id': 'mars',
  });
  expect(found('execute_tool add')).toMatchObject({
    parentSpanId: found('invoke_agent mars').spanId,
    attributes: { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'add', 'gen_ai.tool.type': 'function' },
  });
  expect(JSON.stringify(rich)).not.toContain('secret');
});

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
