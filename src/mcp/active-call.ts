import type { Party } from '../mesh/policy.js';
import { type CallbackFailed, callGuarded } from '../runtime/callbacks.js';
import { Deadline } from '../runtime/deadlines.js';
import { EclipticError, type Outcome } from '../runtime/errors.js';
import type { CallOptions, CallTerms, LogEntry, Progress } from './call.js';
import type { Entry } from './catalogue.js';

/** The signal of a caller that cannot cancel. */
export const NEVER: AbortSignal = new AbortController().signal;
export const NOTHING = Object.freeze({});

/** A call in progress. It ends once: by its answer, its deadline, its caller, or the withdrawal of the offer. */
export class ActiveCall extends Deadline {
  readonly entry: Entry;
  /** By this node's clock. */
  deadlineAt = Number.POSITIVE_INFINITY;
  /** Withdraws the call from the node that it was sent to; returns how far it may have got there. */
  withdraw: (() => Outcome) | undefined;
  readonly #caller: AbortSignal;
  readonly #done: (result: unknown, error: EclipticError | undefined) => void;
  #controller: AbortController | undefined;
  #over: EclipticError | true | undefined;

  constructor(entry: Entry, caller: AbortSignal, done: (result: unknown, error: EclipticError | undefined) => void) {
    super();
    this.entry = entry;
    this.#caller = caller;
    this.#done = done;
    if (caller !== NEVER) caller.addEventListener('abort', this.#cancel);
  }

  get over(): boolean {
    return this.#over !== undefined;
  }

  /** Created on demand: many handlers never ask for it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#over instanceof EclipticError) this.#controller.abort(this.#over);
    return this.#controller.signal;
  }

  succeed(result: unknown): void {
    if (this.#over !== undefined) return;
    this.#over = true;
    this.#finish(result, undefined);
  }

  fail(error: EclipticError): void {
    if (this.#over !== undefined) return;
    this.#over = error;
    this.#finish(undefined, error);
    this.#controller?.abort(error);
  }

  expire(): void {
    const { owner, key } = this.entry;
    const details = { agent: owner, outcome: this.#outcome() };
    this.fail(new EclipticError('REQUEST_TIMEOUT', `${owner} did not answer ${key} in time`, details));
  }

  readonly #cancel = (): void => {
    const details = { agent: this.entry.owner, outcome: this.#outcome() };
    this.fail(new EclipticError('CANCELLED', 'the call was cancelled', details));
  };

  /** A local handler that was called may have had effects. */
  #outcome(): Outcome {
    return this.withdraw?.() ?? 'unknown';
  }

  #finish(result: unknown, error: EclipticError | undefined): void {
    if (this.#caller !== NEVER) this.#caller.removeEventListener('abort', this.#cancel);
    this.#done(result, error);
  }
}

/**
 * The call as its owner sees it: after its end, progress and logs are dropped. A class, because each call creates one.
 */
export class ActiveTerms implements CallTerms {
  readonly caller: Party;
  readonly capabilities: CallTerms['capabilities'];
  readonly answers: CallTerms['answers'];
  readonly state: CallTerms['state'];
  readonly thread: string | undefined;
  readonly meta: CallTerms['meta'];
  readonly #options: CallOptions;
  readonly #active: ActiveCall;
  readonly #failed: CallbackFailed;

  constructor(options: CallOptions, active: ActiveCall, thread: string | undefined, failed: CallbackFailed) {
    this.caller = options.caller;
    this.capabilities = options.capabilities ?? NOTHING;
    this.answers = options.answers ?? NOTHING;
    this.state = options.state;
    this.thread = thread;
    this.meta = options.meta ?? NOTHING;
    this.#options = options;
    this.#active = active;
    this.#failed = failed;
  }

  get signal(): AbortSignal {
    return this.#active.signal;
  }

  get deadlineAt(): number {
    return this.#active.deadlineAt;
  }

  onProgress(progress: Progress): void {
    this.#tell(this.#options.onProgress, 'onProgress', progress);
  }

  onLog(entry: LogEntry): void {
    this.#tell(this.#options.onLog, 'onLog', entry);
  }

  withdrawWith(withdraw: () => Outcome): void {
    this.#active.withdraw = withdraw;
  }

  #tell<T>(callback: ((told: T) => void) | undefined, name: string, told: T): void {
    if (this.#active.over || !callback) return;
    callGuarded(callback, [told], (error) => this.#failed(`${name} of ${this.caller.address}`, error));
  }
}
