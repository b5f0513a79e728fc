import { describe, expect, it, onTestFinished } from 'vitest';
import { createNode, type EclipticNode } from '../node/compose.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { type FinishedSpan, SpanTracer } from './span-tracer.js';

async function traced(): Promise<{ node: EclipticNode; spans: FinishedSpan[] }> {
  const spans: FinishedSpan[] = [];
  const tracer = new SpanTracer(systemRuntime());
  tracer.exportTo((span) => spans.push(span));
  const node = await createNode({ runtime: systemRuntime({ tracer }) });
  onTestFinished(() => node.stop());
  return { node, spans };
}

/** The names of a span and of its ancestors, the span first. */
function path(spans: readonly FinishedSpan[], span: FinishedSpan | undefined): string[] {
  if (!span) return [];
  return [
    span.name,
    ...path(
      spans,
      spans.find(({ spanId }) => spanId === span.parentSpanId),
    ),
  ];
}

describe('a node with a tracer', () => {
  it('records a proposal and the work on it as one trace [FC.44]', async () => {
    const { node, spans } = await traced();
    const sun = node.agent({ id: 'sun', tier: 0 });
    node.agent({ id: 'mars', tier: 2 }).onTask(() => 'built');
    const negotiation = sun.propose({ to: 'mars', taskDescription: 'build it', deadlineMs: 10_000 });
    await negotiation.result;
    await expect.poll(() => spans.some(({ name }) => name === 'propose')).toBe(true);
    const root = spans.find(({ name }) => name === 'propose')!;
    expect(root.parentSpanId).toBeUndefined();
    const work = spans.find(({ name }) => name === 'proposal')!;
    expect(work).toMatchObject({ traceId: root.traceId, error: undefined });
    expect(path(spans, work).slice(-3)).toEqual(['handle task-proposal', 'send task-proposal', 'propose']);
    expect(spans.every(({ traceId }) => traceId === root.traceId)).toBe(true);
  });

  it('records the work of a provider below the message that asked for it [FC.44]', async () => {
    const { node, spans } = await traced();
    await node.providers.register(
      { id: 'worker', type: 'exec', config: {}, workspaceId: 'default', concurrencyLimit: 1 },
      {
        type: 'exec',
        init: async () => {},
        execute: async () => 'done',
        health: async () => ({ state: 'healthy', failureCount: 0, lastCheck: new Date(0) }),
        terminate: async () => {},
      } as never,
    );
    const sun = node.agent({ id: 'sun' });
    node.agent({ id: 'mars' }).onRequest(() => node.providers.execute({ type: 'exec' }, {}, 'thread'));
    expect(await sun.request('mars', 1)).toBe('done');
    // The handler's span ends with the handler, after its answer was sent.
    await expect.poll(() => spans.some(({ name }) => name === 'handle request')).toBe(true);
    const work = spans.find(({ name }) => name === 'provider exec');
    expect(path(spans, work)).toEqual(['provider exec', 'handle request', 'send request']);
    expect(work?.attributes['ecliptic.provider']).toBe('worker');
  });

  it('marks a refused message and a failed handler as errors [FC.44]', async () => {
    const { node, spans } = await traced();
    const sun = node.agent({ id: 'sun' });
    node.agent({ id: 'mars' }).onRequest(() => {
      throw new Error('it is hard');
    });
    await expect(sun.send('nobody', 1)).rejects.toThrow();
    expect(spans.at(-1)).toMatchObject({ name: 'send notification', attributes: { 'error.type': 'AGENT_NOT_FOUND' } });
    await expect(sun.request('mars', 1)).rejects.toThrow();
    expect(spans.find(({ name }) => name === 'handle request')).toMatchObject({ error: 'it is hard' });
  });

  it('continues the trace of an HTTP client, and leaves no span for a scrape [FC.44]', async () => {
    const { node, spans } = await traced();
    const { url, tokens, mcpUrl } = await node.serve({ port: 0 });
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const headers = {
      authorization: `Bearer ${tokens.owners}`,
      traceparent: `00-${traceId}-b7ad6b7169203331-01`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'mars__add',
    };
    node.agent({ id: 'mars' }).tool('add', { description: 'Adds.' }, () => ({ sum: 3 }));
    await fetch(`${url}/metrics`, { headers });
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'mars__add', arguments: {}, _meta } };
    const answer = await fetch(mcpUrl, { method: 'POST', headers, body: JSON.stringify(call) });
    expect(await answer.text()).toContain('sum');
    await expect.poll(() => spans.some(({ name }) => name === 'POST /mcp')).toBe(true);
    expect(spans.map(({ name }) => name)).not.toContain('GET /metrics');
    const served = spans.find(({ name }) => name === 'POST /mcp')!;
    expect(served).toMatchObject({ traceId, parentSpanId: 'b7ad6b7169203331' });
    const tool = spans.find(({ name }) => name === 'tool add')!;
    expect(tool).toMatchObject({ traceId, parentSpanId: served.spanId });
  });
});

describe('a node without a tracer', () => {
  it('adds no trace context to messages [FC.44]', async () => {
    const node = await createNode();
    onTestFinished(() => node.stop());
    const sun = node.agent({ id: 'sun' });
    const seen: unknown[] = [];
    node.router.onReceive(node.agent({ id: 'mars' }).id, ({ metadata }) => void seen.push(metadata));
    await sun.send('mars', 1).catch(() => {});
    expect(seen).toEqual([undefined]);
  });
});
