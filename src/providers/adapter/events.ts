import { type A2AObservability, callbackReport } from '../../mesh/observability.js';
import type { A2ALogEvent } from '../../mesh/schemas.js';
import type { CallbackFailed } from '../../runtime/callbacks.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ProviderType } from './adapter.js';

type ProviderTopic = `provider.${string}`;

interface ProviderNews {
  readonly provider?: string | undefined;
  readonly providerType?: ProviderType | undefined;
  readonly correlationId?: string | undefined;
  readonly agent?: string | undefined;
  readonly code?: string | undefined;
  readonly reason?: string | undefined;
  readonly duration?: number | undefined;
  readonly success?: boolean | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** A change of a provider: of its health, of its place in routing, or by its owner. */
export interface ProviderChange {
  readonly at: number;
  readonly provider: string;
  /** `health.changed`, `failover.activated`, `restarted`, … */
  readonly what: string;
  /** The states or providers before and after, where the change has them. */
  readonly from: string | null;
  readonly to: string | null;
  readonly reason: string | null;
}

/** Events with a correlation id that are kept for `ecliptic thread`. */
const REMEMBERED = 2_048;
/** Changes that are kept of each provider. */
const CHANGES = 50;
/** Providers whose changes are kept; providers that were removed are among them. */
const CHANGED = 1_000;

/** Emits provider events on the node's event stream, and keeps recent ones by correlation id. */
export class ProviderEvents {
  readonly #runtime: Runtime;
  readonly #observability: A2AObservability;
  readonly callbackFailed: CallbackFailed;
  #remembered: A2ALogEvent[] = [];
  readonly #changes = new Map<string, ProviderChange[]>();

  constructor(runtime: Runtime, observability: A2AObservability) {
    this.#runtime = runtime;
    this.#observability = observability;
    this.callbackFailed = callbackReport(runtime, observability);
  }

  emit(topic: ProviderTopic, news: ProviderNews): void {
    // Emitted twice per call: assigning fields one by one is measurably faster than spreading.
    const event: { -readonly [K in keyof A2ALogEvent]: A2ALogEvent[K] } = {
      type: 'provider',
      topic,
      timestamp: this.#runtime.now(),
    };
    if (news.provider !== undefined) event.provider = news.provider;
    if (news.providerType !== undefined) event.providerType = news.providerType;
    if (news.correlationId !== undefined) event.correlationId = news.correlationId;
    if (news.code !== undefined) event.code = news.code;
    if (news.reason !== undefined) event.reason = news.reason;
    if (news.duration !== undefined) event.duration = news.duration;
    if (news.success !== undefined) event.success = news.success;
    if (news.agent !== undefined) event.sender = news.agent;
    if (news.details !== undefined) event.details = news.details;
    this.#observability.emit(event);
    if (event.correlationId === undefined) {
      this.#keep(event);
      return;
    }
    this.#remembered.push(event);
    // Half of them at once, so that trimming costs next to nothing per event.
    if (this.#remembered.length > 2 * REMEMBERED) this.#remembered = this.#remembered.slice(-REMEMBERED);
  }

  of(correlationId: string): A2ALogEvent[] {
    return this.#remembered.filter((event) => event.correlationId === correlationId);
  }

  /** The kept changes since the node started, of one provider or of all, newest first. */
  changes(provider?: string): ProviderChange[] {
    const found = provider === undefined ? [...this.#changes.values()].flat() : (this.#changes.get(provider) ?? []);
    return [...found].sort((a, b) => b.at - a.at);
  }

  #keep({ provider, topic = '', timestamp: at, details, reason }: A2ALogEvent): void {
    if (provider === undefined) return;
    const text = (value: unknown) => (typeof value === 'string' ? value : null);
    const what = topic.replace(/^provider\./, '');
    const change = { at, provider, what, from: text(details?.from), to: text(details?.to), reason: reason ?? null };
    const kept = [...(this.#changes.get(provider) ?? []), change].slice(-CHANGES);
    // The provider that changed last is the last to be dropped.
    this.#changes.delete(provider);
    this.#changes.set(provider, kept);
    for (const oldest of this.#changes.keys()) {
      if (this.#changes.size <= CHANGED) break;
      this.#changes.delete(oldest);
    }
  }
}
