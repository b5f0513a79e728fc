import { z } from 'zod';
import { weighJson } from '../mesh/json-value.js';
import type { A2AObservability } from '../mesh/observability.js';
import { SCHEMA_VERSION } from '../mesh/schemas.js';
import { EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Entry } from './catalogue.js';

/** The record of one tool call. */
export const InvocationRecordSchema = z.strictObject({
  schemaVersion: z.literal(SCHEMA_VERSION),
  id: z.string().min(1),
  /** The conversation that the call belongs to, if any. */
  thread: z.string().min(1).optional(),
  /** The full name. */
  tool: z.string().min(1),
  agent: z.string().min(1),
  caller: z.string().min(1),
  arguments: z.record(z.string(), z.json()),
  /** Absent where the call failed. */
  result: z.json().optional(),
  error: z.strictObject({ code: z.string(), message: z.string(), agent: z.string() }).optional(),
  startedAt: z.number(),
  durationMs: z.number().nonnegative(),
});

export type InvocationRecord = Readonly<z.infer<typeof InvocationRecordSchema>>;

export function serializeInvocation(record: InvocationRecord): string {
  return JSON.stringify(record);
}

export function deserializeInvocation(text: string): InvocationRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new EclipticError('INVALID_ENVELOPE', 'the invocation record is not JSON', {}, cause);
  }
  const found = (value as { schemaVersion?: unknown } | null)?.schemaVersion;
  if (found !== SCHEMA_VERSION) {
    const message = `this release reads invocation records of schema version ${SCHEMA_VERSION}, not ${JSON.stringify(found)}`;
    throw new EclipticError('SCHEMA_VERSION_MISMATCH', message, { expected: SCHEMA_VERSION, found });
  }
  const parsed = InvocationRecordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new EclipticError('INVALID_ENVELOPE', `the invocation record is wrong: ${faults.join('; ')}`, { faults });
}

const REDACTED = '[redacted]';

/** Replaces the values of secret arguments. */
export function redact(
  args: Readonly<Record<string, unknown>>,
  secrets: readonly string[] | undefined,
): Readonly<Record<string, unknown>> {
  if (!secrets?.length) return args;
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, secrets.includes(name) ? REDACTED : value]),
  );
}

/** Records kept for `recent`. */
const CAPACITY = 1_024;

/** Larger arguments and results are not recorded. */
const MAX_KEPT_BYTES = 65_536;
const TOO_LARGE = '[larger than 64 KiB]';

export interface Begun {
  readonly id: string;
  /** The conversation that the call belongs to; its own id if none. */
  readonly thread: string;
  readonly entry: Entry;
  readonly caller: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly startedAt: number;
  readonly stopwatch: number;
}

/** Records every tool call, and emits an event for it. */
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
    // Built on demand: most records are never read.
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
