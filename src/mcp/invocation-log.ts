import { weighJson } from '../mesh/json-value.js';
import type { A2AObservability } from '../mesh/observability.js';
import { SCHEMA_VERSION } from '../mesh/schemas.js';
import type { EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Entry } from './catalogue.js';
import { type InvocationRecord, redact } from './invocation-record.js';

/** Records kept for `recent`. */
const CAPACITY = 1_024;

/** Larger arguments and results are not kept. */
const MAX_KEPT_BYTES = 65_536;
const TOO_LARGE = '[larger than 64 KiB]';

/** A tool call that has begun. */
export interface Begun {
  readonly id: string;
  /** The conversation that it belongs to, or is. */
  readonly thread: string;
  readonly entry: Entry;
  readonly caller: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly startedAt: number;
  readonly stopwatch: number;
}

/** Remembers every tool call, and tells the event stream of it. */
export class InvocationLog {
  readonly #runtime: Runtime;
  readonly #observability: A2AObservability;
  readonly #records = new Fifo<() => InvocationRecord>();

  constructor(runtime: Runtime, observability: A2AObservability) {
    this.#runtime = runtime;
    this.#observability = observability;
  }

  begin(entry: Entry, caller: string, args: Readonly<Record<string, unknown>>, thread?: string): Begun {
    const kept = fits(args) ? redact(args, entry.offer.secrets) : { arguments: TOO_LARGE };
    const id = this.#runtime.id();
    return {
      id,
      thread: thread ?? id,
      entry,
      caller,
      arguments: kept,
      startedAt: this.#runtime.now(),
      stopwatch: this.#runtime.stopwatch(),
    };
  }

  end(begun: Begun, result: unknown, failure: EclipticError | undefined): void {
    const { id, thread, entry, caller, startedAt } = begun;
    const durationMs = this.#runtime.stopwatch() - begun.stopwatch;
    const kept = fits(result) ? result : TOO_LARGE;
    // Made when somebody looks: most records are never read.
    this.#records.push(() => ({
      schemaVersion: SCHEMA_VERSION,
      id,
      ...(thread !== id && { thread }),
      tool: entry.fullName,
      agent: entry.owner,
      caller,
      arguments: begun.arguments as InvocationRecord['arguments'],
      ...(failure
        ? { error: { code: failure.code, message: failure.message, agent: entry.owner } }
        : { result: kept as InvocationRecord['result'] }),
      startedAt,
      durationMs,
    }));
    if (this.#records.length > CAPACITY) this.#records.shift();
    this.#observability.emit({
      type: 'tool-invocation',
      toolName: entry.fullName,
      sender: caller,
      recipient: entry.owner,
      correlationId: thread,
      duration: durationMs,
      success: failure === undefined,
      ...(failure && { code: failure.code, reason: failure.message }),
      timestamp: startedAt + durationMs,
    });
  }

  /** The latest records, oldest first. */
  recent(limit = CAPACITY): InvocationRecord[] {
    const first = Math.max(0, this.#records.length - Math.floor(limit));
    return Array.from({ length: this.#records.length - first }, (_, index) => this.#records.at(first + index)!());
  }
}

function fits(value: unknown): boolean {
  return value === undefined || typeof weighJson(value, MAX_KEPT_BYTES) === 'number';
}
