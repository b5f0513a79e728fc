import {
  type Context,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { A2AObservability } from './observability.js';
import type { A2ALogEvent } from './schemas.js';

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Exports routing decisions as OpenTelemetry spans, as children of the envelope's trace context, if the process has an
 * OpenTelemetry SDK. Returns the function that stops this.
 */
export function traceRouting(observability: A2AObservability): () => void {
  if (!sdkPresent()) return () => {};
  const tracer = trace.getTracer('ecliptic');
  return observability.subscribe((event) => {
    if (event.type === 'routing-decision') record(tracer, event);
  });
}

function sdkPresent(): boolean {
  const provider = trace.getTracerProvider();
  const delegate = provider instanceof ProxyTracerProvider ? provider.getDelegate() : provider;
  return delegate !== new ProxyTracerProvider().getDelegate();
}

function record(tracer: Tracer, event: A2ALogEvent): void {
  const attributes = {
    'ecliptic.envelope': event.envelopeId,
    'ecliptic.thread': event.correlationId,
    'ecliptic.sender': event.sender,
    'ecliptic.recipient': event.recipient,
    'ecliptic.type': event.messageType,
    'ecliptic.path': event.routingPath,
    'ecliptic.error': event.code,
  };
  const span = tracer.startSpan(
    'ecliptic.route',
    { kind: SpanKind.PRODUCER, startTime: event.timestamp, attributes },
    parentOf(event.traceparent),
  );
  if (event.success === false) span.setStatus({ code: SpanStatusCode.ERROR, message: event.reason });
  span.end(event.timestamp + (event.duration ?? 0));
}

function parentOf(traceparent: string | undefined): Context {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (!traceId || !spanId || !flags) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  });
}
