import type { CallbackFailed } from '../runtime/callbacks.js';
import { describeError, type ErrorCode } from '../runtime/errors.js';
import { type Logger, type Runtime, silentLogger } from '../runtime/runtime.js';
import { ValidEnvelope } from './envelope.js';
import { EventStream } from './event-stream.js';
import { Exchange } from './exchange.js';
import { Histogram, type HistogramSnapshot, STEP_BOUNDS_MS, WORK_BOUNDS_MS } from './histogram.js';
import type { Party } from './policy.js';
import { BroadcastRecord, type LatencySample, RoutingRecord } from './routing-record.js';
import { type A2ALogEvent, type A2AMessageType, A2AMessageTypeSchema, type AgentTier } from './schemas.js';

/** Tools that are counted by name; further ones are counted together. */
const MAX_TOOLS = 1_000;
const OTHER_TOOLS = 'other';

export interface A2AMetrics {
  /** Messages of this node's agents that were accepted for delivery; a broadcast counts once. */
  totalMessagesSent: number;
  /** Messages handed to agents of this node; a broadcast counts for each of them. */
  totalMessagesReceived: number;
  /**
   * Messages sent, and messages that arrived from other nodes, by type: a message between two agents of this node counts
   * once, and so does a broadcast. So the sum is that of `totalMessagesSent` and the arrivals.
   */
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

export interface Histograms {
  readonly routingLatency: HistogramSnapshot;
  /** From a send until the handler of the recipient is done, of the sends that are measured. */
  readonly deliveryLatency: HistogramSnapshot;
  readonly toolDuration: HistogramSnapshot;
  /** From the start of an agent's work on a task, proposal or sub-task until its end. */
  readonly taskDuration: HistogramSnapshot;
}

/** What kind of work a task was: asked for as a task, as a proposal, or as part of a swarm. */
export type TaskKind = 'task' | 'proposal' | 'sub-task';

/** Tasks that agents of this node have ended. */
export interface TaskCounts {
  readonly kind: TaskKind;
  readonly completed: number;
  readonly failed: number;
}

export interface A2AObservabilityInit {
  /** Records remembered for `getRecentEvents`. Default 1,024. */
  capacity?: number;
  logger?: Logger;
}

/** An envelope is the record of a message to an agent of this node, an exchange that of its answer. */
type StreamRecord = RoutingRecord | BroadcastRecord | ValidEnvelope | Exchange | A2ALogEvent;

/** Counts and remembers the events of the mesh, and passes them to listeners. */
export class A2AObservability {
  readonly #stream: EventStream<StreamRecord, A2ALogEvent, LatencySample>;
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

  /**
   * @internal As `routed`, for a message within this node that no listener wants. Its latency is not averaged. Tiers are
   * those of its sender, times four, and of its recipient.
   */
  rememberNotification(record: RoutingRecord | ValidEnvelope, tiers: number, latency: LatencySample): void {
    this.#counters.direct.notification++;
    this.#decisions++;
    this.#stream.remember(record, tiers, latency);
  }

  /** @internal */
  rememberRequest(record: RoutingRecord | ValidEnvelope, tiers: number, latency: LatencySample): void {
    this.#counters.direct.request++;
    this.#decisions++;
    this.#stream.remember(record, tiers, latency);
  }

  /** @internal */
  rememberAnswer(record: RoutingRecord | Exchange, tiers: number, latency: LatencySample): void {
    this.#counters.direct.response++;
    this.#decisions++;
    this.#stream.remember(record, tiers, latency);
  }

  /** @internal The latency of a message that was remembered. */
  measured(ms: number): void {
    this.#counters.latency.observe(ms);
  }

  /** @internal A handler is done with a message that was sent so long ago. */
  handled(ms: number): void {
    this.#counters.delivery.observe(ms);
  }

  /** @internal An agent's work on a task has ended. */
  taskEnded(kind: TaskKind, ms: number, failed: boolean): void {
    this.#counters.taskEnded(kind, ms, failed);
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

  getTaskCounts(): TaskCounts[] {
    return this.#counters.taskCounts();
  }

  /** Messages that were refused, and deliveries and handlers that failed. */
  getOutcomes(): { readonly refused: number; readonly failed: number } {
    return this.#counters.outcomes;
  }

  /** Of durable messages: how often this node learnt that one reached a state. */
  getReceiptCounts(): Record<string, number> {
    return this.#counters.receipts();
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

/** The types of messages on the direct path. */
type DirectType = 'notification' | 'request' | 'response';

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

function expand(record: StreamRecord, tiers: number, sample: LatencySample | undefined): readonly A2ALogEvent[] {
  if (record instanceof RoutingRecord || record instanceof BroadcastRecord) return record.expand();
  if (record instanceof Exchange) return record.record(sample!, tiers).expand();
  if (!ValidEnvelope.is(record)) return [record];
  const [source, target] = [localParty(record.sender, tiers >> 2), localParty(record.recipient, tiers & 3)];
  return new RoutingRecord(record, source, target, sample!).expand();
}

function localParty(address: string, tier: number): Party {
  return { address, node: undefined, tier: tier as AgentTier, sandboxId: undefined };
}

function noneByType(): Record<A2AMessageType, number> {
  return Object.fromEntries(A2AMessageTypeSchema.options.map((type) => [type, 0])) as Record<A2AMessageType, number>;
}

function addByType(one: Record<A2AMessageType, number>, other: Record<A2AMessageType, number>) {
  const sum = noneByType();
  for (const type of A2AMessageTypeSchema.options) sum[type] = one[type] + other[type];
  return sum;
}

class Counters {
  /** Messages within this node that were sent and received on the direct path. */
  readonly direct: Record<DirectType, number> = { notification: 0, request: 0, response: 0 };
  #sent = 0;
  #received = 0;
  readonly #sentByType = noneByType();
  /** Received from other nodes; a message between two agents of this node counts as sent. */
  readonly #arrivedByType = noneByType();
  readonly latency = new Histogram(STEP_BOUNDS_MS);
  readonly delivery = new Histogram(STEP_BOUNDS_MS);
  readonly #toolTimes = new Histogram(WORK_BOUNDS_MS);
  readonly #taskTimes = new Histogram(WORK_BOUNDS_MS);
  readonly #tasks: Record<TaskKind, { completed: number; failed: number }> = {
    task: { completed: 0, failed: 0 },
    proposal: { completed: 0, failed: 0 },
    'sub-task': { completed: 0, failed: 0 },
  };
  #errors = 0;
  readonly #errorsByCode = new Map<string, number>();
  readonly #tools = new Map<string, number>();
  readonly #receipts = new Map<string, number>();
  #toolErrors = 0;
  readonly outcomes = { refused: 0, failed: 0 };

  routed(record: RoutingRecord | BroadcastRecord, sent: boolean, received: number, measured: boolean): void {
    if (sent) {
      this.#sent++;
      this.#sentByType[record.envelope.type]++;
    } else this.#arrivedByType[record.envelope.type]++;
    this.#received += received;
    if (measured) this.latency.observe(record.latency.ms);
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
        if (event.duration !== undefined && measured) this.latency.observe(event.duration);
        // A failed delivery has an event of its own, which counts it.
        if (event.success === false && event.code !== 'DELIVERY_FAILED') {
          this.outcomes.refused++;
          this.#countError(event.code);
        }
        break;
      case 'tool-invocation':
        this.#toolTimes.observe(event.duration ?? 0);
        if (event.success === false) this.#toolErrors++;
        if (event.toolName !== undefined) this.#countTool(event.toolName);
        break;
      case 'receipt':
        if (event.receiptState !== undefined) {
          this.#receipts.set(event.receiptState, (this.#receipts.get(event.receiptState) ?? 0) + 1);
        }
        break;
      case 'proposal':
        if (event.code !== undefined) this.#countError(event.code);
        break;
      case 'error':
      case 'delivery-failure':
        this.outcomes.failed++;
        this.#countError(event.code);
        break;
    }
  }

  snapshot(): A2AMetrics {
    const { notification, request, response } = this.direct;
    const direct = notification + request + response;
    const sentByType = addByType(this.#sentByType, { ...noneByType(), ...this.direct });
    return {
      totalMessagesSent: this.#sent + direct,
      totalMessagesReceived: this.#received + direct,
      messagesByType: addByType(sentByType, this.#arrivedByType),
      messagesSentByType: sentByType,
      averageRoutingLatencyMs: this.latency.average,
      errorCount: this.#errors,
      errorsByCode: Object.fromEntries(this.#errorsByCode),
      totalToolInvocations: this.#toolTimes.count,
      toolInvocationsByTool: Object.fromEntries(this.#tools),
      averageToolDurationMs: this.#toolTimes.average,
      toolErrorCount: this.#toolErrors,
    };
  }

  histograms(): Histograms {
    return {
      routingLatency: this.latency.snapshot(),
      deliveryLatency: this.delivery.snapshot(),
      toolDuration: this.#toolTimes.snapshot(),
      taskDuration: this.#taskTimes.snapshot(),
    };
  }

  taskEnded(kind: TaskKind, ms: number, failed: boolean): void {
    this.#taskTimes.observe(ms);
    this.#tasks[kind][failed ? 'failed' : 'completed']++;
  }

  receipts(): Record<string, number> {
    return Object.fromEntries(this.#receipts);
  }

  taskCounts(): TaskCounts[] {
    return Object.entries(this.#tasks).map(([kind, counts]) => ({ kind: kind as TaskKind, ...counts }));
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
