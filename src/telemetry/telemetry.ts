import { statfs } from 'node:fs/promises';
import { quantileOf } from '../mesh/histogram.js';
import type { Histograms } from '../mesh/observability.js';
import { type MetricFamily, samplesBy, single } from '../mesh/prometheus.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import type { Approvals } from '../system/approvals/approvals.js';
import { EventLoopMeter } from './event-loop.js';
import { HISTORY_EVERY_MS, type MetricsHistory, SampleRing } from './metrics-history.js';
import { type MeasuredNode, peersByState, queueLengths } from './node-metrics.js';

export interface TelemetryComponents {
  readonly runtime: Runtime;
  readonly node: MeasuredNode;
  readonly store: Store | undefined;
  readonly approvals: Approvals;
  /** The data folder, whose disk is measured. */
  readonly folder: string;
}

const SERIES = [
  'routedPerSecond',
  'refusedPerSecond',
  'failedPerSecond',
  'routingP50Ms',
  'routingP99Ms',
  'deliveryP50Ms',
  'deliveryP99Ms',
  'mailboxes',
  'providerWork',
  'outbox',
  'inbox',
  'peersConnected',
  'approvalsWaiting',
  'rssBytes',
  'heapBytes',
  'eventLoopP99Ms',
  'storeBytes',
  'diskFreeBytes',
] as const;

interface Totals {
  readonly at: number;
  readonly routed: number;
  readonly refused: number;
  readonly failed: number;
  readonly histograms: Histograms;
}

/** Measures the process, and samples the metrics of a node for their history. */
export class Telemetry {
  readonly #components: TelemetryComponents;
  readonly #loop = new EventLoopMeter();
  readonly #ring = new SampleRing(SERIES);
  #timer: Timer | undefined;
  #before: Totals;
  #diskFree: number | undefined;
  #stopped = false;

  constructor(components: TelemetryComponents) {
    this.#components = components;
    this.#before = this.#totals();
  }

  async start(): Promise<void> {
    await this.#measureDisk();
    this.#loop.start();
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#loop.stop();
  }

  /** The samples of the last hour, or the latest `points` of them. */
  history(points?: number): MetricsHistory {
    return this.#ring.read(HISTORY_EVERY_MS, points);
  }

  families(): MetricFamily[] {
    const { p50, p99, max } = this.#loop.latest;
    return [
      {
        name: 'ecliptic_event_loop_delay_seconds',
        type: 'gauge',
        help: 'Delay of the event loop in the last five seconds.',
        samples: samplesBy('stat', { p50: p50 / 1_000, p99: p99 / 1_000, max: max / 1_000 }),
      },
      {
        name: 'ecliptic_approvals_waiting',
        type: 'gauge',
        help: 'Questions that wait for the owner.',
        samples: single(this.#components.approvals.waiting.length),
      },
      // Some file systems do not tell.
      ...(this.#diskFree === undefined
        ? []
        : ([
            {
              name: 'ecliptic_disk_free_bytes',
              type: 'gauge',
              help: 'Free space on the disk of the data folder.',
              samples: single(this.#diskFree),
            },
          ] satisfies MetricFamily[])),
    ];
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      void this.sample()
        .catch((error) => this.#components.runtime.logger.warn({ err: error }, 'telemetry: sample not taken'))
        .finally(() => this.#schedule());
    }, HISTORY_EVERY_MS);
  }

  /** @internal Takes one sample. */
  async sample(): Promise<void> {
    const { node, store, approvals } = this.#components;
    const before = this.#before;
    const now = this.#totals();
    this.#before = now;
    const seconds = Math.max(1, now.at - before.at) / 1_000;
    const loop = this.#loop.turn();
    const { mailboxes = 0, 'provider-work': providerWork = 0, outbox = 0, inbox = 0 } = await queueLengths(node, store);
    await this.#measureDisk();
    const { rss, heapUsed } = process.memoryUsage();
    const state = store?.state?.();
    const { routingLatency, deliveryLatency } = now.histograms;
    const { routingLatency: routingBefore, deliveryLatency: deliveryBefore } = before.histograms;
    const values: Record<(typeof SERIES)[number], number | null> = {
      routedPerSecond: (now.routed - before.routed) / seconds,
      refusedPerSecond: (now.refused - before.refused) / seconds,
      failedPerSecond: (now.failed - before.failed) / seconds,
      routingP50Ms: quantileOf(0.5, routingLatency, routingBefore),
      routingP99Ms: quantileOf(0.99, routingLatency, routingBefore),
      deliveryP50Ms: quantileOf(0.5, deliveryLatency, deliveryBefore),
      deliveryP99Ms: quantileOf(0.99, deliveryLatency, deliveryBefore),
      ...{ mailboxes, providerWork, outbox, inbox },
      peersConnected: peersByState(node).connected ?? 0,
      approvalsWaiting: approvals.waiting.length,
      rssBytes: rss,
      heapBytes: heapUsed,
      eventLoopP99Ms: loop.p99,
      storeBytes: state ? state.logBytes + state.runBytes : 0,
      diskFreeBytes: this.#diskFree ?? null,
    };
    this.#ring.add(now.at, values);
  }

  async #measureDisk(): Promise<void> {
    const disk = await statfs(this.#components.folder).catch(() => undefined);
    this.#diskFree = disk && disk.bavail * disk.bsize;
  }

  #totals(): Totals {
    const { runtime, node } = this.#components;
    const { messagesByType } = node.observability.getMetrics();
    const routed = Object.values(messagesByType).reduce((sum, count) => sum + count, 0);
    const { refused, failed } = node.observability.getOutcomes();
    return { at: runtime.now(), routed, refused, failed, histograms: node.observability.getHistograms() };
  }
}
