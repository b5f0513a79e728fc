import type { ErrorCode } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Tracer } from '../runtime/tracing.js';
import { BROADCAST, type ValidEnvelope } from './envelope.js';
import { UNTIMED } from './mailbox.js';
import type { Failure } from './message-checks.js';
import { traceRouted } from './message-tracing.js';
import type { A2AObservability } from './observability.js';
import type { Party } from './policy.js';
import type { RegistryEntry } from './registry-index.js';
import { BroadcastRecord, type LatencySample, RoutingRecord } from './routing-record.js';
import type { A2ALogEvent, BroadcastCounts, RoutingResult } from './schemas.js';

/** Refusals of forbidden messages, which are reported as security events. */
const SECURITY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'SENDER_REFUSED',
  'SANDBOX_VIOLATION',
  'TIER_VIOLATION',
  'ESCALATION_REQUIRED',
]);
/** Without a listener, one local send in this many (a power of two) is timed: the clock costs as much as a send. */
const TIMED_SENDS = 32;

/** Reports the outcome of each routing on the event stream, and makes the sender's result. */
export class RoutingReporter {
  readonly #runtime: Runtime;
  readonly #observability: A2AObservability;
  readonly #tracer: Tracer | undefined;
  #sends = 0;
  #lastLatency: LatencySample = { ms: 0, of: '' };

  constructor(runtime: Runtime, observability: A2AObservability) {
    this.#runtime = runtime;
    this.#observability = observability;
    this.#tracer = runtime.tracer;
  }

  /** The start time of a send. A send that is not timed reports the latest measurement, marked as sampled. */
  start(source: Party | undefined, target: Party | undefined): number {
    const timed =
      (this.#sends++ & (TIMED_SENDS - 1)) === 0 || this.#observability.isWatched(source?.tier !== target?.tier);
    return timed ? this.#runtime.stopwatch() : UNTIMED;
  }

  /** As `start`, for a send on the direct path, which nothing watches. */
  startUnwatched(): number {
    return (this.#sends++ & (TIMED_SENDS - 1)) === 0 ? this.#runtime.stopwatch() : UNTIMED;
  }

  /** The latency that local sends report that are not timed. */
  get latest(): LatencySample {
    return this.#lastLatency;
  }

  /** The latency of a timed send on the direct path. */
  measured(started: number, id: string): LatencySample {
    this.#lastLatency = this.#latency(started, id);
    this.#observability.measured(this.#lastLatency.ms);
    return this.#lastLatency;
  }

  startTimed(): number {
    return this.#runtime.stopwatch();
  }

  routed(envelope: ValidEnvelope, source: Party, target: Party, started: number): RoutingResult {
    const latency = this.#latency(started, envelope.id);
    const record = new RoutingRecord(envelope, source, target, latency);
    // Only local sends report another send's latency.
    if (record.path === 'local') this.#lastLatency = latency;
    this.#observability.routed(record, started !== UNTIMED);
    if (this.#tracer !== undefined) this.#trace(envelope, record.path, target.address);
    return { delivered: true, path: record.path, targetAgentId: target.address, latencyMs: latency.ms };
  }

  broadcast(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    reached: readonly RegistryEntry[],
    counts: BroadcastCounts,
    started: number,
  ): RoutingResult {
    const latency = this.#latency(started, envelope.id);
    this.#observability.broadcast(new BroadcastRecord(envelope, source, reached, counts, latency));
    if (this.#tracer !== undefined) this.#trace(envelope, 'broadcast', BROADCAST);
    const latencyMs = latency.ms;
    return { delivered: true, path: 'broadcast', targetAgentId: BROADCAST, latencyMs, broadcast: counts };
  }

  refused(envelope: ValidEnvelope, target: string, failure: Failure, started: number): RoutingResult {
    const { code, reason } = failure;
    const { ms: latencyMs, of } = this.#latency(started, envelope.id);
    const routingPath = target === BROADCAST ? 'broadcast' : target.includes('@') ? 'remote' : 'local';
    const traceparent = envelope.metadata?.traceparent;
    const sampled = of === envelope.id ? undefined : true;
    const decision = { routingPath, duration: latencyMs, sampled, success: false, code, reason, traceparent } as const;
    const event = { type: 'routing-decision', ...this.#about(envelope, target), ...decision } as const;
    this.#observability.emit(event, started !== UNTIMED);
    if (this.#tracer !== undefined) this.#trace(envelope, routingPath, target, failure);
    if (SECURITY.has(code)) this.about('security', envelope, target, failure);
    const { candidates, outcome } = failure;
    const about = { path: routingPath, targetAgentId: target, latencyMs } as const;
    return { delivered: false, ...about, error: code, reason, candidates, outcome };
  }

  about(
    type: Extract<A2ALogEvent['type'], 'security' | 'delivery-failure' | 'error'>,
    envelope: ValidEnvelope,
    target: string,
    failure: Failure,
  ): void {
    const { code, reason } = failure;
    this.#observability.emit({ type, ...this.#about(envelope, target), code, reason });
  }

  #trace(envelope: ValidEnvelope, path: RoutingResult['path'], target: string, failure?: Failure): void {
    traceRouted(this.#tracer!, envelope, { path, target, error: failure });
  }

  #about(envelope: ValidEnvelope, recipient: string) {
    const { id: envelopeId, correlationId, sender, type: messageType } = envelope;
    return { envelopeId, correlationId, sender, recipient, messageType, timestamp: this.#runtime.now() };
  }

  #latency(started: number, id: string): LatencySample {
    return started === UNTIMED ? this.#lastLatency : { ms: this.#runtime.stopwatch() - started, of: id };
  }
}
