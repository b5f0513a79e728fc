import { describe, expect, it, onTestFinished } from 'vitest';
import { HurriedRuntime } from '../../test/hurried-runtime.js';
import { stablePort } from '../../test/ports.js';
import { Collector } from '../../test/telemetry/collector.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { OtlpExporter } from './otlp-exporter.js';
import { otlpSettings } from './otlp-settings.js';
import { type FinishedSpan, SpanTracer } from './span-tracer.js';

function traced(init?: ConstructorParameters<typeof SpanTracer>[1]) {
  const spans: FinishedSpan[] = [];
  const tracer = new SpanTracer(systemRuntime(), init);
  tracer.exportTo((span) => spans.push(span));
  return { tracer, spans };
}

/** An exporter whose timers run ten times as fast. */
function exporterTo(url: string) {
  const runtime = new HurriedRuntime(10);
  const settings = otlpSettings(url, {})!;
  const exporter = new OtlpExporter({
    runtime,
    settings,
    resource: { 'service.instance.id': 'n' },
    metrics: async () => [],
  });
  const { tracer } = traced();
  tracer.exportTo((span) => exporter.add(span));
  onTestFinished(async () => {
    await exporter.closeMetrics();
    await exporter.stop();
  });
  const count = (name: string, label?: string) => {
    const family = exporter.families().find((one) => one.name === name)!;
    if (family.type === 'histogram') throw new Error('not a histogram');
    return family.samples.find(({ labels }) => label === undefined || Object.values(labels).includes(label))!.value;
  };
  return { exporter, tracer, count };
}

/** A batch whose answer came too late is sent twice, so spans are counted by their ids. */
function received({ spans }: Collector): number {
  return new Set(spans.map(({ spanId }) => spanId)).size;
}

describe('a tracer', () => {
  it('makes W3C contexts that follow from each other, also across await [FC.44]', async () => {
    const { tracer, spans } = traced();
    const outer = tracer.start('outer');
    const inner = await tracer.run(outer, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return tracer.start('inner', { kind: 'client' });
    });
    inner.end(undefined, { done: true });
    outer.end(Object.assign(new Error('no'), { code: 'EXPIRED' }));
    outer.end();
    expect(outer.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    const [first, second] = spans as [FinishedSpan, FinishedSpan];
    expect(spans).toHaveLength(2);
    expect(first).toMatchObject({
      name: 'inner',
      parentSpanId: second.spanId,
      traceId: second.traceId,
      error: undefined,
    });
    expect(second).toMatchObject({ name: 'outer', parentSpanId: undefined, error: 'no' });
    expect(second.attributes).toEqual({ 'error.type': 'EXPIRED' });
    expect(second.endMs).toBeGreaterThanOrEqual(second.startMs);
  });

  it('continues a trace of another process, and respects that it is not recorded [FC.44]', () => {
    const { tracer, spans } = traced();
    const trace = '0af7651916cd43dd8448eb211c80319c';
    tracer.start('a', { parent: `00-${trace}-b7ad6b7169203331-01` }).end();
    const silent = tracer.start('b', { parent: `00-${trace}-b7ad6b7169203331-00` });
    silent.end();
    expect(silent.traceparent).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`));
    expect(spans.map(({ name, traceId, parentSpanId }) => [name, traceId, parentSpanId])).toEqual([
      ['a', trace, 'b7ad6b7169203331'],
    ]);
    for (const parent of ['', 'x', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, `ff-${trace}-b7ad6b7169203331-01`]) {
      tracer.start('c', { parent }).end();
      expect(spans.at(-1)!.traceId).not.toBe(trace);
      expect(spans.at(-1)!.parentSpanId).toBeUndefined();
    }
  });

  it('records no trace at a ratio of zero [FC.44]', () => {
    const { tracer, spans } = traced({ ratio: 0 });
    tracer.start('a').end();
    expect(spans).toEqual([]);
  });
});

describe('the OTLP exporter', () => {
  it('sends batches that a strict collector takes [FC.43]', async () => {
    const collector = await Collector.start();
    onTestFinished(() => collector.stop());
    const { exporter, tracer, count } = exporterTo(collector.url);
    exporter.start();
    for (let n = 0; n < 1_500; n++) tracer.start('step', { attributes: { n, half: n / 2, even: n % 2 === 0 } }).end();
    await expect.poll(() => received(collector), { timeout: 10_000 }).toBe(1_500);
    expect(collector.faults).toEqual([]);
    await expect.poll(() => count('ecliptic_otlp_spans_total', 'exported')).toBe(1_500);
    expect(count('ecliptic_otlp_spans_total', 'dropped')).toBe(0);
  });

  it('drops spans above its limit while the collector is away, counts them, and sends the others later [FC.45]', async () => {
    const port = await stablePort();
    const { exporter, tracer, count } = exporterTo(`http://127.0.0.1:${port}`);
    exporter.start();
    for (let n = 0; n < 10_000; n++) tracer.start('step').end();
    await expect.poll(() => count('ecliptic_otlp_failures_total', 'traces'), { timeout: 10_000 }).toBeGreaterThan(0);
    expect(count('ecliptic_otlp_spans_total', 'dropped')).toBe(10_000 - 8_192);
    expect(count('ecliptic_otlp_queue_length')).toBe(8_192);
    const collector = await Collector.start(port);
    onTestFinished(() => collector.stop());
    await expect.poll(() => received(collector), { timeout: 20_000 }).toBe(8_192);
    await expect.poll(() => count('ecliptic_otlp_spans_total', 'exported'), { timeout: 10_000 }).toBe(8_192);
  });

  it('sends a batch again after 503, and gives up one that is refused with 400 [FC.45]', async () => {
    const collector = await Collector.start();
    onTestFinished(() => collector.stop());
    collector.answers.push(503, 429, 200, 400);
    const { exporter, tracer, count } = exporterTo(collector.url);
    tracer.start('kept').end();
    exporter.start();
    await expect.poll(() => received(collector), { timeout: 10_000 }).toBe(1);
    tracer.start('refused').end();
    await expect.poll(() => count('ecliptic_otlp_spans_total', 'dropped'), { timeout: 10_000 }).toBe(1);
    expect(collector.spans.map(({ name }) => name)).toEqual(['kept']);
    expect(count('ecliptic_otlp_queue_length')).toBe(0);
  });

  it('reads the standard variables [FC.43]', () => {
    expect(otlpSettings(undefined, {})).toBeUndefined();
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example/base/',
      OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20x, bad, a=b=c',
      OTEL_SERVICE_NAME: 'fleet',
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
      OTEL_SEMCONV_STABILITY_OPT_IN: 'http,gen_ai_latest_experimental',
    };
    expect(otlpSettings(undefined, env)).toEqual({
      url: 'https://collector.example/base',
      headers: { authorization: 'Bearer x', a: 'b=c' },
      serviceName: 'fleet',
      ratio: 0.25,
      genAi: true,
    });
    // The command line names another collector.
    expect(otlpSettings('http://127.0.0.1:4318', env)?.url).toBe('http://127.0.0.1:4318');
    expect(otlpSettings(undefined, { ...env, OTEL_SDK_DISABLED: 'true' })).toBeUndefined();
    expect(otlpSettings(undefined, { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toBeUndefined();
    expect(() => otlpSettings('ftp://x', {})).toThrow('http or https');
  });
});
