import type { MetricFamily, MetricSample } from '../mesh/prometheus.js';
import { VERSION } from '../runtime/package.js';
import type { SpanAttributes, SpanKind } from '../runtime/tracing.js';
import type { FinishedSpan } from './span-tracer.js';

/** The JSON form of OTLP 1.x: ids in hexadecimal, 64-bit numbers as texts, enumerations as numbers. */

const KINDS: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 };
const STATUS_ERROR = 2;
const CUMULATIVE = 2;
const SCOPE = { name: 'ecliptic', version: VERSION };

export interface KeyValue {
  readonly key: string;
  readonly value: object;
}

/** The attributes of this process that every batch carries. */
export function resourceOf(attributes: SpanAttributes): { attributes: KeyValue[] } {
  return { attributes: keyValues(attributes) };
}

export function tracesJson(resource: object, spans: readonly FinishedSpan[]): object {
  return { resourceSpans: [{ resource, scopeSpans: [{ scope: SCOPE, spans: spans.map(spanJson) }] }] };
}

function spanJson(span: FinishedSpan): object {
  const { traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, error } = span;
  return {
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanos(startMs),
    endTimeUnixNano: nanos(endMs),
    attributes: keyValues(attributes),
    ...(error !== undefined && { status: { code: STATUS_ERROR, message: error } }),
  };
}

export function metricsJson(
  resource: object,
  families: readonly MetricFamily[],
  { startMs, nowMs }: { readonly startMs: number; readonly nowMs: number },
): object {
  const times = { startTimeUnixNano: nanos(startMs), timeUnixNano: nanos(nowMs) };
  const metrics = families.map((family) => metricJson(family, times));
  return { resourceMetrics: [{ resource, scopeMetrics: [{ scope: SCOPE, metrics }] }] };
}

function metricJson(family: MetricFamily, times: object): object {
  const { name, help: description } = family;
  const about = { name, description, unit: unitOf(name) };
  if (family.type === 'histogram') {
    const { buckets, sumMs, count } = family.histogram;
    const point = {
      ...times,
      count: String(count),
      sum: sumMs / 1_000,
      bucketCounts: buckets.map(([, below], at) => String(below - (buckets[at - 1]?.[1] ?? 0))),
      explicitBounds: buckets.slice(0, -1).map(([bound]) => bound / 1_000),
    };
    return { ...about, histogram: { aggregationTemporality: CUMULATIVE, dataPoints: [point] } };
  }
  const dataPoints = family.samples.map(({ labels, value }: MetricSample) => {
    return { ...times, attributes: keyValues(labels), asDouble: value };
  });
  if (family.type === 'gauge') return { ...about, gauge: { dataPoints } };
  return { ...about, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
}

function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return 's';
  return /_bytes(_total)?$/.test(name) ? 'By' : '1';
}

function keyValues(attributes: SpanAttributes): KeyValue[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: any(value) }],
  );
}

function any(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** To the microsecond: a number has no more digits at this size. */
function nanos(ms: number): string {
  return String(BigInt(Math.round(ms * 1_000)) * 1_000n);
}
