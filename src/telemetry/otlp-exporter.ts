import { type MetricFamily, samplesBy, single } from '../mesh/prometheus.js';
import { within } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import { VERSION } from '../runtime/package.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SpanAttributes } from '../runtime/tracing.js';
import { guardedFetch } from '../system/fetch/guarded-fetch.js';
import { placesOf } from '../system/fetch/target.js';
import { metricsJson, resourceOf, tracesJson } from './otlp-json.js';
import type { OtlpSettings } from './otlp-settings.js';
import type { FinishedSpan } from './span-tracer.js';

export interface OtlpComponents {
  readonly runtime: Runtime;
  /** The metrics to export. */
  readonly metrics: () => Promise<readonly MetricFamily[]>;
  /** Attributes of this node, besides the service's name. */
  readonly resource: SpanAttributes;
  readonly settings: OtlpSettings;
}

/** Spans that wait for the collector; further ones are dropped. */
const MAX_SPANS = 8_192;
const BATCH = 512;
const SPANS_MS = 2_000;
const METRICS_MS = 15_000;
const TIMEOUT_MS = 10_000;
const ANSWER_BYTES = 65_536;
const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
/** How long a node that stops waits for the collector. */
const LAST_MS = 2_000;
/** Answers after which the same batch is sent again (OTLP/HTTP, "Retryable Response Codes"). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

type Signal = 'traces' | 'metrics';

/**
 * Sends spans and metrics to a collector, as JSON over HTTP. The node never waits for it: spans queue up to a limit, and a
 * collector that is away is tried again with back-off.
 */
export class OtlpExporter {
  readonly #components: OtlpComponents;
  readonly #resource: object;
  readonly #startMs: number;
  /** For log lines: a URL may contain a password. */
  readonly #origin: string;
  readonly #spans = new Fifo<FinishedSpan>();
  readonly #backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
  /** A batch that the collector has not taken yet. */
  #batch: readonly FinishedSpan[] = [];
  #sending: Promise<boolean> | undefined;
  #timer: Timer | undefined;
  #metricsTimer: Timer | undefined;
  #isAway = false;
  #stopped = false;
  #metricsClosed = false;
  readonly #outcomes = { exported: 0, dropped: 0 };
  readonly #failures: Record<Signal, number> = { traces: 0, metrics: 0 };

  constructor(components: OtlpComponents) {
    this.#components = components;
    const { settings, resource, runtime } = components;
    const service = { 'service.name': settings.serviceName, 'service.version': VERSION };
    const sdk = { 'telemetry.sdk.name': 'ecliptic', 'telemetry.sdk.language': 'nodejs' };
    this.#resource = resourceOf({ ...service, ...resource, ...sdk });
    this.#startMs = runtime.now();
    this.#origin = new URL(settings.url).origin;
  }

  start(): void {
    this.#schedule(SPANS_MS);
    this.#scheduleMetrics();
  }

  add(span: FinishedSpan): void {
    if (this.#stopped || this.#spans.length >= MAX_SPANS) {
      this.#outcomes.dropped++;
      return;
    }
    this.#spans.push(span);
    // While the collector is away, only the timer tries again.
    if (this.#spans.length === BATCH && !this.#isAway) this.#schedule(0);
  }

  /** Exports the metrics once more and no longer, because their sources are about to close. */
  async closeMetrics(): Promise<void> {
    this.#metricsClosed = true;
    this.#metricsTimer?.cancel();
    await within(this.#components.runtime, this.#sendMetrics(), LAST_MS, () => undefined);
  }

  /** Sends the last spans, if the collector takes them soon. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#timer?.cancel();
    const last = async () => {
      while (this.#batch.length + this.#spans.length > 0) if (!(await this.#flush())) return;
    };
    await within(this.#components.runtime, last(), LAST_MS, () => undefined);
    this.#outcomes.dropped += this.#batch.length + this.#spans.length;
  }

  families(): MetricFamily[] {
    return [
      {
        name: 'ecliptic_otlp_spans_total',
        type: 'counter',
        help: 'Spans that were exported over OTLP, and dropped.',
        samples: samplesBy('outcome', this.#outcomes),
      },
      {
        name: 'ecliptic_otlp_failures_total',
        type: 'counter',
        help: 'Exports over OTLP that failed, by signal.',
        samples: samplesBy('signal', this.#failures),
      },
      {
        name: 'ecliptic_otlp_queue_length',
        type: 'gauge',
        help: 'Spans that wait for the OTLP collector.',
        samples: single(this.#batch.length + this.#spans.length),
      },
    ];
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#timer?.cancel();
    this.#timer = this.#components.runtime.setTimer(() => void this.#turn(), ms);
  }

  async #turn(): Promise<void> {
    while (this.#batch.length + this.#spans.length > 0) {
      if (!(await this.#flush())) return this.#schedule(this.#backoff.next());
      this.#backoff.reset();
      if (this.#spans.length < BATCH) break;
    }
    this.#schedule(SPANS_MS);
  }

  /** Sends one batch. False where it must be sent again. Calls at the same time share one request. */
  #flush(): Promise<boolean> {
    this.#sending ??= this.#sendBatch().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendBatch(): Promise<boolean> {
    if (this.#batch.length === 0) {
      const count = Math.min(BATCH, this.#spans.length);
      this.#batch = Array.from({ length: count }, () => this.#spans.shift()!);
    }
    const batch = this.#batch;
    if (batch.length === 0) return true;
    const outcome = await this.#post('traces', tracesJson(this.#resource, batch));
    if (outcome === 'again') return false;
    this.#batch = [];
    const rejected = outcome === 'refused' ? batch.length : Math.min(batch.length, outcome);
    this.#outcomes.exported += batch.length - rejected;
    this.#outcomes.dropped += rejected;
    return true;
  }

  #scheduleMetrics(): void {
    if (this.#metricsClosed) return;
    this.#metricsTimer = this.#components.runtime.setTimer(() => {
      void this.#sendMetrics().finally(() => this.#scheduleMetrics());
    }, METRICS_MS);
  }

  /** Counters are cumulative, so nothing is lost if one export fails. */
  async #sendMetrics(): Promise<void> {
    const { metrics, runtime } = this.#components;
    try {
      const families = await metrics();
      await this.#post(
        'metrics',
        metricsJson(this.#resource, families, { startMs: this.#startMs, nowMs: runtime.now() }),
      );
    } catch (error) {
      this.#failures.metrics++;
      runtime.logger.debug({ err: error }, 'otlp: metrics not read');
    }
  }

  /** The number of items that the collector rejected; `again` if it may take them later, `refused` if never. */
  async #post(signal: Signal, body: object): Promise<number | 'again' | 'refused'> {
    const { runtime, settings } = this.#components;
    try {
      const url = `${settings.url}/v1/${signal}`;
      const answer = await guardedFetch(runtime, url, {
        method: 'POST',
        headers: { ...settings.headers, 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify(body),
        timeoutMs: TIMEOUT_MS,
        maxBytes: ANSWER_BYTES,
        // A private address in the settings is intended.
        allowPrivate: placesOf(settings.url),
      });
      if (answer.status >= 200 && answer.status < 300) {
        this.#reached();
        return rejectedIn(answer.body.toString());
      }
      throw new EclipticError('REMOTE_FAILED', `the collector answered with HTTP ${answer.status}`, {
        status: answer.status,
      });
    } catch (error) {
      const status = error instanceof EclipticError ? error.details.status : undefined;
      this.#failed(signal, error);
      return typeof status === 'number' && !RETRYABLE.has(status) ? 'refused' : 'again';
    }
  }

  #reached(): void {
    if (this.#isAway) this.#components.runtime.logger.info({ collector: this.#origin }, 'otlp: collector reached');
    this.#isAway = false;
  }

  /** One line when the collector goes away, not one for each attempt. */
  #failed(signal: Signal, error: unknown): void {
    this.#failures[signal]++;
    const { runtime } = this.#components;
    if (!this.#isAway) {
      runtime.logger.warn(
        { collector: this.#origin, signal, reason: describeError(error) },
        'otlp: collector not reached',
      );
    }
    this.#isAway = true;
  }
}

/** Of a partial success. */
function rejectedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: unknown } };
    const rejected = Number(partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0;
  } catch {
    return 0;
  }
}
