import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

/** The OTLP/HTTP JSON encoding, as opentelemetry-proto defines it: no key that is not known, no value of another type. */
const uint64 = z.string().regex(/^\d{1,20}$/);
const anyValue = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
  z.strictObject({ doubleValue: z.number() }),
]);
const attributes = z.array(z.strictObject({ key: z.string().min(1), value: anyValue }));
const resource = z.strictObject({ attributes });
const scope = z.strictObject({ name: z.string().min(1), version: z.string() });
const spanId = z.string().regex(/^(?!0{16})[0-9a-f]{16}$/);

const SpanSchema = z
  .strictObject({
    traceId: z.string().regex(/^(?!0{32})[0-9a-f]{32}$/),
    spanId,
    parentSpanId: spanId.optional(),
    name: z.string().min(1),
    kind: z.int().min(1).max(5),
    startTimeUnixNano: uint64,
    endTimeUnixNano: uint64,
    attributes,
    status: z.strictObject({ code: z.int().min(0).max(2), message: z.string() }).optional(),
  })
  .refine((span) => BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), 'ends before it starts');

const TracesSchema = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({ resource, scopeSpans: z.array(z.strictObject({ scope, spans: z.array(SpanSchema).min(1) })) }),
  ),
});

const times = { startTimeUnixNano: uint64, timeUnixNano: uint64 };
const dataPoints = z.array(z.strictObject({ ...times, attributes, asDouble: z.number() }));
const about = { name: z.string().min(1), description: z.string(), unit: z.string() };
const aggregationTemporality = z.literal(2);
const histogramPoint = z
  .strictObject({
    ...times,
    count: uint64,
    sum: z.number(),
    bucketCounts: z.array(uint64),
    explicitBounds: z.array(z.number()),
  })
  .refine(({ bucketCounts, explicitBounds }) => bucketCounts.length === explicitBounds.length + 1, 'one bucket more')
  .refine(({ count, bucketCounts }) => {
    return BigInt(count) === bucketCounts.reduce((sum, one) => sum + BigInt(one), 0n);
  }, 'the buckets are not the count');
const MetricSchema = z.union([
  z.strictObject({ ...about, gauge: z.strictObject({ dataPoints }) }),
  z.strictObject({
    ...about,
    sum: z.strictObject({ aggregationTemporality, isMonotonic: z.literal(true), dataPoints }),
  }),
  z.strictObject({
    ...about,
    histogram: z.strictObject({ aggregationTemporality, dataPoints: z.array(histogramPoint) }),
  }),
]);
const MetricsSchema = z.strictObject({
  resourceMetrics: z.array(
    z.strictObject({ resource, scopeMetrics: z.array(z.strictObject({ scope, metrics: z.array(MetricSchema) })) }),
  ),
});

export interface ReceivedSpan extends Omit<z.infer<typeof SpanSchema>, 'attributes'> {
  readonly service: Readonly<Record<string, string>>;
  readonly attributes: Readonly<Record<string, unknown>>;
}

function read(list: z.infer<typeof attributes>): Record<string, string> {
  return Object.fromEntries(list.map(({ key, value }) => [key, String(Object.values(value)[0])]));
}

/** A collector that takes nothing but valid OTLP. */
export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly metrics = new Map<string, z.infer<typeof MetricSchema>>();
  /** What was wrong with requests. */
  readonly faults: string[] = [];
  readonly headers: Readonly<Record<string, unknown>>[] = [];
  /** The status of the next answers; 200 once there are no more. */
  readonly answers: number[] = [];
  requests = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      this.requests++;
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const status = this.answers.shift() ?? 200;
      if (status === 200) this.#take(request.url ?? '', Buffer.concat(chunks).toString());
      this.headers.push(request.headers);
      if (request.headers['content-type'] !== 'application/json') this.faults.push('not application/json');
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
    });
  }

  static async start(port = 0): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>((resolve) => collector.#server.listen(port, '127.0.0.1', resolve));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #take(url: string, text: string): void {
    const parsed = url === '/v1/traces' ? TracesSchema.safeParse(JSON.parse(text)) : undefined;
    if (parsed?.success) {
      for (const { resource: about, scopeSpans } of parsed.data.resourceSpans) {
        const service = read(about.attributes);
        for (const { spans } of scopeSpans) {
          for (const span of spans) this.spans.push({ ...span, service, attributes: read(span.attributes) });
        }
      }
      return;
    }
    const metrics = url === '/v1/metrics' ? MetricsSchema.safeParse(JSON.parse(text)) : undefined;
    if (metrics?.success) {
      for (const { scopeMetrics } of metrics.data.resourceMetrics) {
        for (const { metrics: list } of scopeMetrics) for (const one of list) this.metrics.set(one.name, one);
      }
      return;
    }
    this.faults.push(`${url}: ${parsed?.error?.message ?? metrics?.error?.message ?? 'nothing is here'}`);
  }
}
