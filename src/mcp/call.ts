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

/** What comes with a call besides what is asked. Everything here but the way back is the caller's word. */
export interface CallTerms {
  readonly caller: Party;
  readonly signal: AbortSignal;
  readonly capabilities: ClientCapabilities;
  /** Answers to what an earlier round asked for, and what the owner wanted to remember from it. */
  readonly answers: Readonly<Record<string, unknown>>;
  readonly state: string | undefined;
  /** The conversation that the call belongs to; a tool call that belongs to none is one of its own. */
  readonly thread?: string | undefined;
  /** W3C trace context and whatever else belongs to the request. */
  readonly meta: Readonly<Record<string, unknown>>;
  onProgress(progress: Progress): void;
  onLog(entry: LogEntry): void;
  /** When the caller gives up, on the clock of its node. */
  readonly deadlineAt?: number;
  /** Says how to take the call back when its caller gives it up. */
  withdrawWith?(withdraw: () => Outcome): void;
}

/** What a caller passes; all but its identity is optional. */
export type CallOptions = Pick<CallTerms, 'caller'> & Partial<CallTerms> & { readonly timeoutMs?: number };

export const ProgressSchema = z.strictObject({
  progress: z.number(),
  total: z.number().optional(),
  message: z.string().optional(),
});

export type Progress = Readonly<z.infer<typeof ProgressSchema>>;

/** From the least to the most severe. */
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

/** Does a caller who asked for entries from a level upwards want one of this level? */
export function isWanted(level: LoggingLevel, wanted: unknown): boolean {
  const least = (LOG_LEVELS as readonly unknown[]).indexOf(wanted);
  return least >= 0 && LOG_LEVELS.indexOf(level) >= least;
}

/** Instead of a result: the owner needs something from the caller first. */
export interface NeedsInput {
  readonly resultType: 'input_required';
  readonly inputRequests?: Readonly<Record<string, InputRequest>>;
  readonly requestState?: string;
}

export function needsInput(value: unknown): value is NeedsInput {
  return typeof value === 'object' && value !== null && 'resultType' in value && value.resultType === 'input_required';
}

/** The result, for a caller who has nobody to ask: what needs an answer first cannot go on. */
export function completed<T extends object>(result: T | NeedsInput, name: string): T {
  if (!needsInput(result)) return result as T;
  throw new EclipticError('CAPABILITY_REQUIRED', `${name} asks for input that cannot be given here`, {
    requests: result.inputRequests,
  });
}

/** One call as the owner's handler sees it. */
export class Call {
  readonly #terms: CallTerms;
  readonly #state: unknown;

  /** @internal */
  constructor(terms: CallTerms, state: unknown) {
    this.#terms = terms;
    this.#state = state;
  }

  /** Who calls: an agent's address, or the name of an outside principal. */
  get caller(): string {
    return this.#terms.caller.address;
  }

  /** Aborted when the caller cancels, the deadline passes, or the agent leaves. */
  get signal(): AbortSignal {
    return this.#terms.signal;
  }

  /** What the calling client can do: elicitation, sampling, roots. */
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

  /** What the caller answered to the questions of an earlier round, by their names. Untrusted, as arguments are. */
  get answers(): Readonly<Record<string, unknown>> {
    return this.#terms.answers;
  }

  /** What this handler asked to remember in the earlier round; the caller cannot have changed it. */
  get state(): unknown {
    return this.#state;
  }

  /**
   * What to return when the caller must answer something first: the handler runs again with the `answers`, and with
   * `state` if it was given any. Requests have MCP's own shape: `{ method: 'elicitation/create', params }`.
   */
  ask(requests: Readonly<Record<string, InputRequest>>, state?: unknown): Question {
    return new Question(requests, state);
  }
}

/** What a handler tells goes out over links, where nothing malformed may go: a mistake is the handler's to hear of. */
function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new EclipticError('INVALID_RESULT', `that cannot be told to a caller: ${faults.join('; ')}`, { faults });
}

/** Made by `call.ask()`. */
export class Question {
  readonly requests: Readonly<Record<string, InputRequest>>;
  readonly state: unknown;

  constructor(requests: Readonly<Record<string, InputRequest>>, state: unknown) {
    this.requests = requests;
    this.state = state;
  }
}
