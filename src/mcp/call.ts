import type { ClientCapabilities, InputRequest, LoggingLevel } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Party } from '../mesh/policy.js';
import { EclipticError, type Outcome } from '../runtime/errors.js';

const strings = z.record(z.string(), z.string());

/** A question to the owner of an offer. Names and URIs are the owner's own. */
export const AskSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('tool'), name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
  z.strictObject({ kind: z.literal('resource'), uri: z.string() }),
  z.strictObject({ kind: z.literal('template'), uriTemplate: z.string(), uri: z.string() }),
  z.strictObject({ kind: z.literal('prompt'), name: z.string(), arguments: strings }),
  z.strictObject({
    kind: z.literal('completion'),
    of: z.enum(['prompt', 'template']),
    name: z.string(),
    argument: z.string(),
    value: z.string(),
    /** Arguments that have been filled in already. */
    given: strings,
  }),
]);

export type Ask = DeepReadonly<z.infer<typeof AskSchema>>;
type DeepReadonly<T> = { readonly [K in keyof T]: T[K] extends object ? Readonly<T[K]> : T[K] };

/** The context of a call. Everything except the callbacks is the caller's claim. */
export interface CallTerms {
  readonly caller: Party;
  readonly signal: AbortSignal;
  readonly capabilities: ClientCapabilities;
  /** Answers to the questions of an earlier round, and the sealed state of that round. */
  readonly answers: Readonly<Record<string, unknown>>;
  readonly state: string | undefined;
  /** The conversation that the call belongs to; a tool call without one starts its own. */
  readonly thread?: string | undefined;
  /** W3C trace context and other request metadata. */
  readonly meta: Readonly<Record<string, unknown>>;
  onProgress(progress: Progress): void;
  onLog(entry: LogEntry): void;
  /** When the caller gives up, by the clock of its node. */
  readonly deadlineAt?: number;
  /** Registers the function that withdraws the call when its caller gives up. */
  withdrawWith?(withdraw: () => Outcome): void;
}

/** The caller's part of the terms; all but its identity is optional. */
export type CallOptions = Pick<CallTerms, 'caller'> & Partial<CallTerms> & { readonly timeoutMs?: number };

export const ProgressSchema = z.strictObject({
  progress: z.number(),
  total: z.number().optional(),
  message: z.string().optional(),
});

export type Progress = Readonly<z.infer<typeof ProgressSchema>>;

/** From least to most severe. */
export const LOG_LEVELS = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] as const satisfies readonly LoggingLevel[];

export const LogEntrySchema = z.strictObject({
  level: z.enum(LOG_LEVELS),
  data: z.unknown(),
  logger: z.string().optional(),
});

export type LogEntry = Readonly<z.infer<typeof LogEntrySchema>>;

/** Is an entry of this level at or above the level that the caller asked for? */
export function isWanted(level: LoggingLevel, wanted: unknown): boolean {
  const least = (LOG_LEVELS as readonly unknown[]).indexOf(wanted);
  return least >= 0 && LOG_LEVELS.indexOf(level) >= least;
}

/** Returned instead of a result: the owner needs input from the caller first. */
export interface NeedsInput {
  readonly resultType: 'input_required';
  readonly inputRequests?: Readonly<Record<string, InputRequest>>;
  readonly requestState?: string;
}

export function needsInput(value: unknown): value is NeedsInput {
  return typeof value === 'object' && value !== null && 'resultType' in value && value.resultType === 'input_required';
}

/** The result, for a caller that cannot be asked for input. */
export function completed<T extends object>(result: T | NeedsInput, name: string): T {
  if (!needsInput(result)) return result as T;
  throw new EclipticError('CAPABILITY_REQUIRED', `${name} asks for input that cannot be given here`, {
    requests: result.inputRequests,
  });
}

/** One call as the handler sees it. */
export class Call {
  readonly #terms: CallTerms;
  readonly #state: unknown;

  /** @internal */
  constructor(terms: CallTerms, state: unknown) {
    this.#terms = terms;
    this.#state = state;
  }

  /** An agent's address, or the name of an outside principal. */
  get caller(): string {
    return this.#terms.caller.address;
  }

  /** @internal The caller as policy sees it. */
  get principal(): Party {
    return this.#terms.caller;
  }

  /** Aborted when the caller cancels, the deadline passes, or the agent leaves. */
  get signal(): AbortSignal {
    return this.#terms.signal;
  }

  /** The capabilities of the calling client: elicitation, sampling, roots. */
  get capabilities(): ClientCapabilities {
    return this.#terms.capabilities;
  }

  get meta(): Readonly<Record<string, unknown>> {
    return this.#terms.meta;
  }

  progress(progress: number, total?: number, message?: string): void {
    this.#terms.onProgress(checked(ProgressSchema, { progress, total, message }));
  }

  log(level: LoggingLevel, data: unknown, logger?: string): void {
    this.#terms.onLog(checked(LogEntrySchema, { level, data, logger }));
  }

  /** The caller's answers to the questions of an earlier round, by name. Untrusted, like arguments. */
  get answers(): Readonly<Record<string, unknown>> {
    return this.#terms.answers;
  }

  /** The state that this handler returned in the earlier round; the caller cannot change it. */
  get state(): unknown {
    return this.#state;
  }

  /**
   * Return this to ask the caller for input: the handler runs again with `answers`, and with `state` if any was given.
   * Requests have MCP's own shape: `{ method: 'elicitation/create', params }`.
   */
  ask(requests: Readonly<Record<string, InputRequest>>, state?: unknown): Question {
    return new Question(requests, state);
  }
}

/**
 * Progress and logs go over links, which reject malformed data, so the handler's mistake is reported to the handler.
 */
function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new EclipticError('INVALID_RESULT', `the progress or log entry is invalid: ${faults.join('; ')}`, { faults });
}

export class Question {
  readonly requests: Readonly<Record<string, InputRequest>>;
  readonly state: unknown;

  constructor(requests: Readonly<Record<string, InputRequest>>, state: unknown) {
    this.requests = requests;
    this.state = state;
  }
}
