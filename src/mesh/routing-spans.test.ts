import { readFileSync } from 'node:fs';
import { trace } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { afterEach, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode } from '../node/compose.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';

const exporter = new InMemorySpanExporter();
let node: EclipticNode;

afterEach(async () => {
  await node.stop();
  trace.disable();
  exporter.reset();
});

async function talk(): Promise<void> {
  node = await createNode({ runtime: new SimulatedRuntime() });
  const sun = node.agent({ id: 'sun' });
  node.agent({ id: 'mars' }).onNotification(() => {});
  await sun.send('mars', 1);
  await expect(sun.send('nobody', 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
}

describe('OpenTelemetry', () => {
  it('gets a span for each routing when the process has an SDK, with the attributes that are documented [T-B10]', async () => {
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
    await talk();
    const spans = exporter.getFinishedSpans();
    expect(spans.map((span) => [span.name, span.attributes['ecliptic.recipient'], span.status.code])).toEqual([
      ['ecliptic.route', 'mars', 0],
      ['ecliptic.route', 'nobody', 2],
    ]);
    const documented = readFileSync(new URL('../../docs/observing.md', import.meta.url), 'utf8').match(
      /`ecliptic\.[a-z]+`/g,
    );
    const found = spans.flatMap(({ name, attributes }) => [name, ...Object.keys(attributes)]);
    expect(documented).toEqual(expect.arrayContaining(found.map((name) => `\`${name}\``)));
  });

  it('continues the trace that an envelope carries', async () => {
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
    await talk();
    exporter.reset();
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const metadata = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` };
    const init = { sender: 'sun', recipient: 'mars', type: 'notification', payload: null } as const;
    await node.router.send(node.envelopes.create({ ...init, metadata }));
    const [span] = exporter.getFinishedSpans();
    expect([span?.spanContext().traceId, span?.parentSpanContext?.spanId]).toEqual([traceId, '00f067aa0ba902b7']);
  });

  it('costs nothing without one: there is no listener', async () => {
    await talk();
    expect(exporter.getFinishedSpans()).toEqual([]);
  });
});
