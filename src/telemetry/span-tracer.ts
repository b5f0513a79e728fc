import { AsyncLocalStorage } from 'node:async_hooks';
import { describeError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Span, SpanAttributes, SpanKind, SpanStart, Tracer } from '../runtime/tracing.js';

/** A span that has ended. */
export interface FinishedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: SpanKind;
  /** Milliseconds since the epoch, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  /** The message of a failure. */
  readonly error: string | undefined;
}

export interface SpanTracerInit {
  /** The share of traces that begin here and are recorded. Default 1. */
  readonly ratio?: number | undefined;
  /** Add attributes of the experimental conventions for generative AI. Default false. */
  readonly genAi?: boolean | undefined;
}

type SpanClock = Pick<Runtime, 'bytes' | 'now' | 'stopwatch' | 'random'>;

interface Context {
  readonly traceId: string;
  readonly spanId: string;
  readonly sampled: boolean;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const MAX_TEXT = 1_024;
const ALIGN_MS = 60_000;

/** Makes spans with W3C trace context, and passes those that have ended to a sink. */
export class SpanTracer implements Tracer {
  readonly genAi: boolean;
  readonly #runtime: SpanClock;
  readonly #ratio: number;
  readonly #active = new AsyncLocalStorage<Span>();
  #sink: (span: FinishedSpan) => void = () => {};
  /** What the stopwatch showed at the beginning of the epoch, and when that was determined. */
  #zero = 0;
  #alignedAt = Number.NEGATIVE_INFINITY;

  constructor(runtime: SpanClock, init: SpanTracerInit = {}) {
    this.#runtime = runtime;
    this.#ratio = init.ratio ?? 1;
    this.genAi = init.genAi ?? false;
  }

  /** Passes spans to `sink` from now on. */
  exportTo(sink: (span: FinishedSpan) => void): void {
    this.#sink = sink;
  }

  start(name: string, { kind = 'internal', attributes = {}, parent }: SpanStart = {}): Span {
    const from = readContext(parent === undefined ? this.#active.getStore()?.traceparent : (parent ?? undefined));
    const sampled = from?.sampled ?? (this.#ratio >= 1 || this.#runtime.random() < this.#ratio);
    const context: Context = { traceId: from?.traceId ?? this.#id(16), spanId: this.#id(8), sampled };
    const startMs = this.#nowMs();
    let isOpen = sampled;
    return {
      traceparent: `00-${context.traceId}-${context.spanId}-${sampled ? '01' : '00'}`,
      end: (error, more) => {
        if (!isOpen) return;
        isOpen = false;
        this.#sink({
          traceId: context.traceId,
          spanId: context.spanId,
          parentSpanId: from?.spanId,
          ...{ name, kind, startMs },
          endMs: Math.max(startMs, this.#nowMs()),
          attributes: { ...attributes, ...more, ...(error === undefined ? {} : { 'error.type': codeOf(error) }) },
          error: error === undefined ? undefined : messageOf(error),
        });
      },
    };
  }

  run<T>(span: Span, task: () => T): T {
    return this.#active.run(span, task);
  }

  #nowMs(): number {
    const stopwatch = this.#runtime.stopwatch();
    // The time of day may have been set since.
    if (stopwatch - this.#alignedAt > ALIGN_MS) {
      this.#alignedAt = stopwatch;
      this.#zero = this.#runtime.now() - stopwatch;
    }
    return this.#zero + stopwatch;
  }

  #id(bytes: 8 | 16): string {
    for (;;) {
      const id = Buffer.from(this.#runtime.bytes(bytes)).toString('hex');
      // An id of zeros means none.
      if (!/^0+$/.test(id)) return id;
    }
  }
}

function readContext(traceparent: string | undefined): Context | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (!traceId || !spanId || !flags || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** A code of the catalogue, else the error's name. */
function codeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return [code, name].find((one) => typeof one === 'string') ?? 'Error';
}

/** Of an error, or of a refusal with its reason. */
function messageOf(error: unknown): string {
  const { reason } = (error ?? {}) as { reason?: unknown };
  return (typeof reason === 'string' ? reason : describeError(error)).slice(0, MAX_TEXT);
}
