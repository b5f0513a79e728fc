import { inSpan, type Span, type SpanAttributes, type Tracer } from '../runtime/tracing.js';
import type { A2AEnvelope, A2AMessageType, EnvelopeMetadata } from './schemas.js';

/** Spans of messages that were made and not routed yet, by their metadata, which copies of an envelope share. */
const SENT = new WeakMap<EnvelopeMetadata, Span>();

/** Metadata with the trace context of a new message. A context that its author gave stays. */
export function stampTrace(
  tracer: Tracer,
  type: A2AMessageType,
  metadata: EnvelopeMetadata | undefined,
): EnvelopeMetadata {
  const given = metadata?.traceparent;
  const span = tracer.start(`send ${type}`, { kind: 'producer', ...(given !== undefined && { parent: given }) });
  const stamped = { ...metadata, traceparent: given ?? span.traceparent };
  SENT.set(stamped, span);
  return stamped;
}

interface Routed {
  readonly path: 'local' | 'remote' | 'broadcast';
  readonly target: string;
  readonly error?: unknown;
}

/** Ends the span of a message that this node sent. A message of another node that is refused gets a span of its own. */
export function traceRouted(tracer: Tracer, envelope: A2AEnvelope, { path, target, error }: Routed): void {
  const { metadata } = envelope;
  const attributes = { ...attributesOf(envelope, target), 'ecliptic.path': path };
  const span = metadata && SENT.get(metadata);
  if (span) {
    SENT.delete(metadata);
    span.end(error, attributes);
  } else if (error !== undefined) {
    const parent = metadata?.traceparent ?? null;
    tracer.start(`refuse ${envelope.type}`, { kind: 'consumer', parent }).end(error, attributes);
  }
}

/** Calls a handler in a span that follows from the message. */
function traceHandling<T>(tracer: Tracer, address: string, envelope: A2AEnvelope, handle: () => T): T {
  const parent = envelope.metadata?.traceparent ?? null;
  const attributes = attributesOf(envelope, address);
  return inSpan(tracer, `handle ${envelope.type}`, { kind: 'consumer', parent, attributes }, handle);
}

/** The handler behind a span for each message, where there is a tracer. */
export function tracedHandler<E extends A2AEnvelope, More extends unknown[], Result>(
  tracer: Tracer | undefined,
  address: string,
  handler: (envelope: E, ...more: More) => Result,
): (envelope: E, ...more: More) => Result {
  if (!tracer) return handler;
  return (envelope, ...more) => traceHandling(tracer, address, envelope, () => handler(envelope, ...more));
}

function attributesOf(envelope: A2AEnvelope, recipient: string): SpanAttributes {
  return {
    'messaging.system': 'ecliptic',
    'messaging.message.id': envelope.id,
    'messaging.message.conversation_id': envelope.correlationId,
    'messaging.destination.name': recipient,
    'ecliptic.sender': envelope.sender,
    'ecliptic.type': envelope.type,
  };
}
