import type { CallbackFailed } from '../runtime/callbacks.js';
import { describeError, type ErrorCode } from '../runtime/errors.js';
import { type Logger, type Runtime, silentLogger } from '../runtime/runtime.js';
import { EventStream } from './event-stream.js';
import { BroadcastRecord, RoutingRecord } from './routing-record.js';
import { type A2ALogEvent, type A2AMessageType, A2AMessageTypeSchema } from './schemas.js';

/** Tools that are counted by name; further ones are counted together. */
const MAX_TOOLS = 1_000;
const OTHER_TOOLS = 'other';

export interface A2AMetrics {
  totalMessagesSent: number;
  totalMessagesReceived: number;
  /** Messages sent or received, by type; a message between two agents of this node counts once. */
  messagesByType: Record<A2AMessageType, number>;
  messagesSentByType: Record<A2AMessageType, number>;
  /** Of the measured sends: every remote, broadcast and watched one, and one in 32 of the other local ones. */
  averageRoutingLatencyMs: number;
  errorCount: number;
  errorsByCode: Partial<Record<ErrorCode, number>>;
  totalToolInvocations: number;
  toolInvocationsByTool: Record<string, number>;
  averageToolDurationMs: number;
  toolErrorCount: number;
}

/** Cumulative counts, in the form of Prometheus. */
export interface HistogramSnapshot {
  /** Cumulative counts by upper bound in milliseconds; the last bound is infinite. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
  readonly sumMs: number;
  readonly count: number;
}

export interface Histograms {
  readonly routingLatency: HistogramSnapshot;
  readonly toolDuration: HistogramSnapshot;
}

export interface A2AObservabilityInit {
  /** Records remembered for `getRecentEvents`. Default 1,024. */
  capacity?: number;
  logger?: Logger;
}

type StreamRecord = RoutingRecord | BroadcastRecord | A2ALogEvent;

/** Counts and remembers the events of the mesh, and passes them to listeners. */
export class A2AObservability {
  readonly #stream: EventStream<StreamRecord, A2ALogEvent>;
  #counters = new Counters();
  #decisions = 0;

  constructor(init: A2AObservabilityInit = {}) {
    const logger = init.logger ?? silentLogger;
    this.#stream = new EventStream({
      capacity: init.capacity ?? 1024,
      expand,
      onListenerFailed: (error, { timestamp }, again) => {
        logger.error({ subject: SUBSCRIBER, err: error }, 'callback failed');
        const event = callbackFailure(SUBSCRIBER, error, timestamp);
        this.#counters.count(event, false);
        // Not passed to listeners: one that fails at every event would be called with its own failures endlessly.
        if (!again) this.#stream.remember(event);
      },
    });
  }

  /** Adds an event to the stream and to the counters; a duration that is not `measured` is not averaged. */
  emit(event: A2ALogEvent, measured = true): void {
    this.#counters.count(event, measured);
    if (event.type === 'routing-decision') this.#decisions++;
    this.#stream.append(event);
  }

  /** @internal The hot path: counts a routed message without expanding its record. */
  routed(record: RoutingRecord, measured: boolean): void {
    this.#counters.routed(record, record.sent, record.received ? 1 : 0, measured);
    this.#decisions++;
    this.#stream.append(record);
  }

  /** @internal */
  broadcast(record: BroadcastRecord): void {
    const received = record.reached.reduce((count, { node }) => (node === undefined ? count + 1 : count), 0);
    this.#counters.routed(record, true, received, true);
    this.#decisions++;
    this.#stream.append(record);
  }

  /** @internal Is there a listener to every message, or, with `crossesTiers`, to messages that cross tiers? */
  isWatched(crossesTiers: boolean): boolean {
    return crossesTiers ? this.#stream.hasListeners : this.#stream.hasUnfilteredListeners;
  }

  /** Messages that were delivered or refused since the start. */
  get decisions(): number {
    return this.#decisions;
  }

  getMetrics(): A2AMetrics {
    return this.#counters.snapshot();
  }

  getHistograms(): Histograms {
    return this.#counters.histograms();
  }

  getRecentEvents(limit?: number): A2ALogEvent[] {
    return this.#stream.recent(limit);
  }

  resetMetrics(): void {
    this.#counters = new Counters();
  }

  /** Calls `listener` with every event from now on. Returns the function that stops this. */
  subscribe(listener: (event: A2ALogEvent) => void): () => void {
    return this.#stream.subscribe(listener);
  }

  /** As `subscribe`; the event of a message's delivery comes with its payload, unless that is large. */
  subscribeWithPayload(listener: (event: A2ALogEvent, payload?: unknown) => void): () => void {
    return this.#stream.subscribe((event, record) => {
      const whole = record instanceof RoutingRecord && event.type === 'routing-decision';
      // Returned, so that a rejection is reported like a throw.
      return listener(event, whole ? record.payload : undefined);
    });
  }

  /** As `subscribe`, but without the deliveries within one tier, which are most of the events. */
  subscribeToUnusual(listener: (event: A2ALogEvent) => void): () => void {
    return this.#stream.subscribe(listener, (record) => !(record instanceof RoutingRecord) || record.crossesTiers);
  }
}

const SUBSCRIBER = 'observability.subscribe';

function callbackFailure(subject: string, error: unknown, timestamp: number): A2ALogEvent {
  const about = { topic: 'callback.failed', details: { subject }, code: 'HANDLER_FAILED' };
  return { type: 'error', ...about, reason: describeError(error), success: false, timestamp };
}

/** Reports callbacks that fail, in the log and as events. */
export function callbackReport(runtime: Runtime, observability: A2AObservability): CallbackFailed {
  return (subject, error) => {
    runtime.logger.error({ subject, err: error }, 'callback failed');
    observability.emit(callbackFailure(subject, error, runtime.now()));
  };
}

function expand(record: StreamRecord): readonly A2ALogEvent[] {
  return record instanceof RoutingRecord || record instanceof BroadcastRecord ? record.expand() : [record];
}

function noneByType(): Record<A2AMessageType, number> {
  return Object.fromEntries(A2AMessageTypeSchema.options.map((type) => [type, 0])) as Record<A2AMessageType, number>;
}

function addByType(one: Record<A2AMessageType, number>, other: Record<A2AMessageType, number>) {
  const sum = noneByType();
  for (const type of A2AMessageTypeSchema.options) sum[type] = one[type] + other[type];
  return sum;
}

const BOUNDS_MS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 30_000];

/** Counts durations by size, without keeping them. */
class Histogram {
  readonly #counts = new Float64Array(BOUNDS_MS.length + 1);
  #sum = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  get average(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count;
  }

  observe(ms: number): void {
    let at = 0;
    while (at < BOUNDS_MS.length && ms > BOUNDS_MS[at]!) at++;
    this.#counts[at]!++;
    this.#sum += ms;
    this.#count++;
  }

  snapshot(): HistogramSnapshot {
    let count = 0;
    const buckets = [...BOUNDS_MS, Number.POSITIVE_INFINITY].map((bound, at) => {
      count += this.#counts[at]!;
      return [bound, count] as const;
    });
    return { buckets, sumMs: this.#sum, count };
  }
}

class Counters {
  #sent = 0;
  #received = 0;
  readonly #sentByType = noneByType();
  /** Received from other nodes; a message between two agents of this node counts as sent. */
  readonly #arrivedByType = noneByType();
  readonly #latency = new Histogram();
  readonly #toolTimes = new Histogram();
  #errors = 0;
  readonly #errorsByCode = new Map<string, number>();
  readonly #tools = new Map<string, number>();
  #toolErrors = 0;

  routed(record: RoutingRecord | BroadcastRecord, sent: boolean, received: number, measured: boolean): void {
    if (sent) {
      this.#sent++;
      this.#sentByType[record.envelope.type]++;
    } else this.#arrivedByType[record.envelope.type]++;
    this.#received += received;
    if (measured) this.#latency.observe(record.latency.ms);
  }

  count(event: A2ALogEvent, measured: boolean): void {
    switch (event.type) {
      case 'message-sent':
        this.#sent++;
        if (event.messageType) this.#sentByType[event.messageType]++;
        break;
      case 'message-received':
        this.#received++;
        if (event.messageType) this.#arrivedByType[event.messageType]++;
        break;
      case 'routing-decision':
        if (event.duration !== undefined && measured) this.#latency.observe(event.duration);
        // A failed delivery has an event of its own, which counts it.
        if (event.success === false && event.code !== 'DELIVERY_FAILED') this.#countError(event.code);
        break;
      case 'tool-invocation':
        this.#toolTimes.observe(event.duration ?? 0);
        if (event.success === false) this.#toolErrors++;
        if (event.toolName !== undefined) this.#countTool(event.toolName);
        break;
      case 'proposal':
        if (event.code !== undefined) this.#countError(event.code);
        break;
      case 'error':
      case 'delivery-failure':
        this.#countError(event.code);
        break;
    }
  }

  snapshot(): A2AMetrics {
    return {
      totalMessagesSent: this.#sent,
      totalMessagesReceived: this.#received,
      messagesByType: addByType(this.#sentByType, this.#arrivedByType),
      messagesSentByType: { ...this.#sentByType },
      averageRoutingLatencyMs: this.#latency.average,
      errorCount: this.#errors,
      errorsByCode: Object.fromEntries(this.#errorsByCode),
      totalToolInvocations: this.#toolTimes.count,
      toolInvocationsByTool: Object.fromEntries(this.#tools),
      averageToolDurationMs: this.#toolTimes.average,
      toolErrorCount: this.#toolErrors,
    };
  }

  histograms(): Histograms {
    return { routingLatency: this.#latency.snapshot(), toolDuration: this.#toolTimes.snapshot() };
  }

  /** Other nodes name their tools, so the number of counted names has a limit. */
  #countTool(name: string): void {
    const counted = this.#tools.has(name) || this.#tools.size < MAX_TOOLS ? name : OTHER_TOOLS;
    this.#tools.set(counted, (this.#tools.get(counted) ?? 0) + 1);
  }

  #countError(code: string | undefined): void {
    this.#errors++;
    if (code !== undefined) this.#errorsByCode.set(code, (this.#errorsByCode.get(code) ?? 0) + 1);
  }
}
