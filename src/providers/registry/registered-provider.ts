import { z } from 'zod';
import type { WorkerHealth } from '../../agent/staffing.js';
import { within } from '../../runtime/async.js';
import { Backoff } from '../../runtime/backoff.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { inSpan } from '../../runtime/tracing.js';
import {
  type ExecuteTerms,
  PROVIDER_TYPES,
  type ProviderAdapter,
  type ProviderHealthStatus,
  type ProviderRegistration,
} from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeError } from '../adapter/errors.js';
import { DEFAULT_INTERVAL_MS, MIN_INTERVAL_MS } from '../health/health.js';

const INIT_MS = 5_000;

type ProviderPhase = 'starting' | 'ready' | 'failed' | 'draining' | 'drained' | 'terminated';

interface RegisteredProviderEvents {
  readonly onPhase: (provider: RegisteredProvider) => void;
  readonly onRoom: () => void;
}

/** Back-off of a program after a rate limit. */
const FIRST_BACKOFF_MS = 5_000;
const MAX_BACKOFF_MS = 300_000;
const REMOTE: ReadonlySet<string> = new Set(['a2a', 'model']);
/** Failures of a start that last until the owner sets a credential. */
const OWNER_CAN_HELP: ReadonlySet<unknown> = new Set(['PROVIDER_CREDENTIAL_MISSING', 'PROVIDER_CREDENTIAL_DENIED']);
/** Provider types whose rate limit holds for all of their work. */
const LIMITED_AS_A_WHOLE: ReadonlySet<string> = new Set(['acp', 'command', 'model']);

/** A provider in the registry: its adapter, phase and work. */
export class RegisteredProvider {
  readonly registration: Required<Omit<ProviderRegistration, 'laneId'>>;
  readonly adapter: ProviderAdapter;
  readonly #runtime: Runtime;
  readonly #events: RegisteredProviderEvents;
  readonly #idle: (() => void)[] = [];
  /** Incremented by each start and end, so that the outcome of an earlier start is ignored. */
  #generation = 0;
  #phase: ProviderPhase = 'starting';
  #failure: NormalizedProviderError | undefined;
  #stopAwaiting: (() => void) | undefined;
  /** Restarts run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #over = false;
  #inFlight = 0;
  #completed = 0;
  #failed = 0;
  #backingOff: Timer | undefined;
  readonly #backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);

  constructor(
    runtime: Runtime,
    registration: RegisteredProvider['registration'],
    adapter: ProviderAdapter,
    events: RegisteredProviderEvents,
  ) {
    this.#runtime = runtime;
    this.registration = registration;
    this.adapter = adapter;
    this.#events = events;
  }

  get id(): string {
    return this.registration.id;
  }

  /** Is it reached over the network, so that it can come back without its owner? */
  get isRemote(): boolean {
    return REMOTE.has(this.registration.type);
  }

  get phase(): ProviderPhase {
    return this.#phase;
  }

  get work(): { readonly inFlight: number; readonly completed: number; readonly failed: number } {
    return { inFlight: this.#inFlight, completed: this.#completed, failed: this.#failed };
  }

  /** Rejects with `PROVIDER_INIT_FAILED` where the adapter is not ready in time. */
  async init(): Promise<void> {
    const generation = ++this.#generation;
    this.#stopAwaiting?.();
    this.#become('starting');
    try {
      await this.#inTime(this.adapter.init(this.registration.config));
    } catch (error) {
      const failure = this.#initFailure(error);
      // The start is undone in the background: a broken adapter may never finish that.
      void this.adapter
        .terminate()
        .catch((late) => this.#runtime.logger.warn({ err: late }, 'provider did not terminate after a failed start'));
      if (generation === this.#generation) this.#fail(failure);
      throw failure;
    }
    if (generation === this.#generation) return this.adapter.starting ? this.#await() : this.#become('ready');
    // The provider was ended while it started.
    await this.adapter.terminate();
    throw this.#unavailable('it was ended while it started');
  }

  /** Why the provider takes no work until its owner acts: work does not wait for such a provider. */
  get impediment(): NormalizedProviderError | undefined {
    const { id, type } = this.registration;
    if (this.#phase === 'draining' || this.#phase === 'drained') {
      const message = `provider "${id}" is drained; ecliptic provider restart ${id} brings it back`;
      return new NormalizedProviderError('PROVIDER_UNAVAILABLE', message, type);
    }
    if (this.#phase !== 'failed') return undefined;
    // Remote providers come and go; a program that cannot be started is missing, or lacks something.
    const { reason, code } = this.#failure?.details ?? {};
    return !this.isRemote || OWNER_CAN_HELP.has(reason) || code === 'INVALID_CONFIG' ? this.#failure : undefined;
  }

  restart(): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#over) await this.#end();
      if (this.#over) throw this.#unavailable('it was terminated');
      await this.init();
    });
  }

  /** A provider that could not be started is tried again first. */
  async health(): Promise<ProviderHealthStatus> {
    if (this.#phase === 'failed') await this.#inTurn(async () => this.#phase === 'failed' && this.init());
    if (this.#phase === 'starting') throw this.#unavailable('it is being started');
    return this.adapter.health();
  }

  /** Reserves a place for one piece of work; false where none is free. `execute` uses it. */
  reserve(): boolean {
    if (this.#backingOff || this.#inFlight >= this.registration.concurrencyLimit) return false;
    this.#inFlight++;
    return true;
  }

  execute(input: unknown, correlationId: string, terms: ExecuteTerms): Promise<unknown> {
    const { type } = this.registration;
    const attributes = { 'ecliptic.provider': this.id, 'ecliptic.thread': correlationId };
    return inSpan(this.#runtime.tracer, `provider ${type}`, { attributes }, () =>
      this.#execute(input, correlationId, terms),
    );
  }

  async #execute(input: unknown, correlationId: string, terms: ExecuteTerms): Promise<unknown> {
    const { type } = this.registration;
    try {
      if (this.#phase !== 'ready' && this.#phase !== 'draining') throw this.#unavailable(`it is ${this.#phase}`);
      const output = await this.adapter.execute(input, correlationId, terms);
      this.#completed++;
      this.#backoff.reset();
      return output;
    } catch (error) {
      this.#failed++;
      const failure = normalizeError(error, type, correlationId);
      if (failure.code === 'PROVIDER_RATE_LIMITED' && LIMITED_AS_A_WHOLE.has(type)) this.#wait(failure.details);
      throw failure;
    } finally {
      this.#inFlight--;
      if (this.#inFlight === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }

  /** Takes no more work; resolves when all work is done. */
  async drain(): Promise<void> {
    if (this.#phase === 'ready') this.#become('draining');
    while (this.#inFlight > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    if (this.#phase === 'draining') this.#become('drained');
  }

  terminate(): Promise<void> {
    this.#over = true;
    this.#backingOff?.cancel();
    return this.#end();
  }

  /** Takes no work for as long as the provider asks, else with back-off. */
  #wait({ retryAfterMs }: Readonly<Record<string, unknown>>): void {
    if (this.#backingOff) return;
    const usual = this.#backoff.next();
    const ms = typeof retryAfterMs === 'number' ? Math.min(retryAfterMs, MAX_BACKOFF_MS) : usual;
    this.#backingOff = this.#runtime.setTimer(() => {
      this.#backingOff = undefined;
      this.#events.onRoom();
    }, ms);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work, work);
    this.#turn = turn;
    return turn;
  }

  async #end(): Promise<void> {
    this.#generation++;
    this.#stopAwaiting?.();
    this.#become('terminated');
    try {
      await this.adapter.terminate();
    } catch (error) {
      this.#runtime.logger.error(
        { provider: this.id, error: describeError(error) },
        'provider did not terminate cleanly',
      );
    }
  }

  #inTime(work: Promise<void>): Promise<void> {
    return within(this.#runtime, work, INIT_MS, () => {
      const message = `provider "${this.id}" was not ready within ${INIT_MS} ms`;
      throw new NormalizedProviderError('PROVIDER_INIT_FAILED', message, this.registration.type);
    });
  }

  /** Always `PROVIDER_INIT_FAILED`, with the original code in the details. */
  #initFailure(error: unknown): NormalizedProviderError {
    const { type } = this.registration;
    const normal = normalizeError(error, type);
    if (normal.code === 'PROVIDER_INIT_FAILED') return normal;
    const details = { ...normal.details, providerId: this.id, reason: normal.code };
    const message = `provider "${this.id}" could not be started: ${normal.message}`;
    return new NormalizedProviderError('PROVIDER_INIT_FAILED', message, type, { originalError: error, details });
  }

  /** Waits for a provider that goes on starting after `init` has resolved. */
  #await(): void {
    const { adapter } = this;
    const stops = [
      adapter.onReady?.(() => {
        this.#stopAwaiting?.();
        this.#become('ready');
      }),
      // The supervisor may still succeed with another attempt.
      adapter.onCrash?.(({ error }) => this.#fail(this.#initFailure(error))),
    ];
    this.#stopAwaiting = () => {
      this.#stopAwaiting = undefined;
      for (const stop of stops) stop?.();
    };
  }

  #fail(failure: NormalizedProviderError): void {
    this.#failure = failure;
    this.#become('failed');
  }

  #unavailable(why: string): NormalizedProviderError {
    const message = `provider "${this.id}" takes no work: ${why}`;
    return new NormalizedProviderError('PROVIDER_UNAVAILABLE', message, this.registration.type);
  }

  #become(phase: ProviderPhase): void {
    this.#phase = phase;
    this.#events.onPhase(this);
  }
}

/** The state of a provider, for people and programs. */
export interface ProviderRow {
  readonly id: string;
  readonly type: string;
  readonly pool: string;
  readonly workspaceId: string;
  readonly laneId: string | null;
  readonly phase: ProviderPhase;
  readonly state: ProviderHealthStatus['state'] | 'starting';
  readonly failureCount: number;
  readonly lastCheck: string | null;
  readonly message: string | null;
  readonly priority: number;
  readonly capabilities: readonly string[];
  readonly inFlight: number;
  readonly concurrencyLimit: number;
  readonly healthCheckIntervalMs: number;
  readonly completed: number;
  readonly failed: number;
}

export function rowOf(
  provider: RegisteredProvider,
  laneId: string | undefined,
  status: ProviderHealthStatus | undefined,
): ProviderRow {
  const { registration, phase, work } = provider;
  const { config: _, ...about } = registration;
  // A ready provider that was not checked yet gets work.
  const { state = phase === 'ready' ? 'healthy' : 'unavailable', failureCount = 0, lastCheck, message } = status ?? {};
  return {
    ...about,
    laneId: laneId ?? null,
    phase,
    state: phase === 'starting' ? 'starting' : state,
    failureCount,
    lastCheck: lastCheck?.toISOString() ?? null,
    message: message ?? null,
    ...work,
  };
}

/** An agent's work goes to the provider with the lowest number. */
export const WORSE: Readonly<Record<WorkerHealth['state'], number>> = {
  ready: 0,
  starting: 1,
  degraded: 2,
  unavailable: 3,
};

export function workerHealthOf(row: ProviderRow, impediment?: string): WorkerHealth {
  const { id, phase, state } = row;
  if (impediment !== undefined) return { state: 'unavailable', reason: impediment, blocked: true };
  if (phase === 'starting') return { state: 'starting', reason: `provider "${id}" is being started` };
  if (state === 'healthy' && phase === 'ready') return { state: 'ready' };
  return { state: state === 'degraded' ? 'degraded' : 'unavailable', reason: describeState(row) };
}

export function describeState({ id, phase, state, message }: ProviderRow): string {
  return `provider "${id}" is ${phase === 'ready' ? state : phase}${message === null ? '' : `: ${message}`}`;
}

const NAME = /^[\w][\w./-]*$/;
const name = z.string().max(128).regex(NAME, 'must be made of letters, digits, "_", "-", "." and "/"');

const RegistrationSchema = z.strictObject({
  id: name,
  type: z.enum(PROVIDER_TYPES),
  pool: z.string().min(1).max(300).optional(),
  config: z.unknown().refine((value) => value !== undefined, 'is missing'),
  workspaceId: name,
  concurrencyLimit: z.int().min(1).max(100),
  healthCheckIntervalMs: z.int().min(MIN_INTERVAL_MS).default(DEFAULT_INTERVAL_MS),
  capabilities: z.array(z.string().min(1).max(300)).max(256).default([]),
  priority: z.number().default(0),
  laneId: name.optional(),
});

type CheckedRegistration = Required<Omit<ProviderRegistration, 'laneId'>> & { laneId?: string | undefined };

/** Fills in the defaults. Throws with all faults where the registration is invalid. */
export function checkRegistration(registration: ProviderRegistration): CheckedRegistration {
  const { success, data, error } = RegistrationSchema.safeParse(registration);
  if (success) return { ...data, pool: data.pool ?? data.type };
  const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  const { id } = (registration ?? {}) as { id?: unknown };
  const message = `provider ${JSON.stringify(id)} cannot be registered: ${faults.join('; ')}`;
  throw new NormalizedProviderError('PROVIDER_INIT_FAILED', message, 'internal', { details: { faults } });
}
