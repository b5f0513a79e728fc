import { describeError, EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import {
  IDLE,
  RESTART_POLICY,
  type RestartPolicy,
  type SupervisedState,
  type SupervisionEffect,
  type SupervisionEvent,
  supervise,
} from './supervision.js';

/** A child process, or a connection to one, that can be kept running. */
export interface Running {
  /** Settles when it has ended. */
  readonly exited: Promise<unknown>;
  failure(): EclipticError;
  /** Resolves when nothing of it is left; also called after a crash. */
  stop(): Promise<unknown>;
}

interface SupervisorInit<Subject extends Running> {
  name: string;
  /**
   * Resolves when the subject is ready for work; rejects, with nothing left behind, when it cannot be started or the signal
   * aborts.
   */
  start: (signal: AbortSignal) => Promise<Subject>;
  onState?: (state: SupervisedState) => void;
  /** Is an automatic restart pointless after this error? */
  isFinal?: (reason: EclipticError) => boolean;
  restart?: Partial<RestartPolicy>;
}

interface Attempt<Subject> {
  readonly abort: AbortController;
  /** Resolves when nothing of the attempt is left. */
  over: Promise<void>;
  subject: Subject | undefined;
}

/** Keeps one subject running: restarts it after a crash, and gives up after too many. */
export class Supervisor<Subject extends Running> {
  readonly #runtime: Runtime;
  readonly #init: SupervisorInit<Subject>;
  readonly #policy: RestartPolicy;
  #supervision = IDLE;
  #attempt: Attempt<Subject> | undefined;
  #timer: Timer | undefined;
  #waiting: (() => void)[] = [];

  constructor(runtime: Runtime, init: SupervisorInit<Subject>) {
    this.#runtime = runtime;
    this.#init = init;
    this.#policy = { ...RESTART_POLICY, ...init.restart };
  }

  get state(): SupervisedState {
    return this.#supervision.state;
  }

  get subject(): Subject | undefined {
    return this.state.kind === 'running' ? this.#attempt?.subject : undefined;
  }

  start(): void {
    this.#handle({ type: 'start' });
  }

  /** Restarts without delay, also after the supervisor gave up. */
  restart(): void {
    this.#handle({ type: 'restart' });
  }

  /** Resolves when nothing of the subject is left. */
  async stop(): Promise<void> {
    this.#handle({ type: 'stop' });
    while (this.state.kind === 'stopping') await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.state.kind === 'idle') await this.#attempt?.over;
  }

  #handle(event: SupervisionEvent): void {
    const before = this.state;
    const { state: next, effects } = supervise(this.#supervision, event, this.#policy);
    this.#supervision = next;
    for (const effect of effects) this.#perform(effect);
    if (next.state === before) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
    try {
      this.#init.onState?.(next.state);
    } catch (error) {
      this.#runtime.logger.error(
        { name: this.#init.name, error: describeError(error) },
        'supervisor state listener failed',
      );
    }
  }

  #perform(effect: SupervisionEffect): void {
    switch (effect.type) {
      case 'launch': {
        const attempt: Attempt<Subject> = {
          abort: new AbortController(),
          over: Promise.resolve(),
          subject: undefined,
        };
        attempt.over = this.#run(attempt, this.#attempt?.over);
        this.#attempt = attempt;
        return;
      }
      case 'halt': {
        const { abort, subject, over } = this.#attempt!;
        abort.abort(new EclipticError('CANCELLED', `${this.#init.name} is being stopped`));
        if (subject) void this.#end(subject);
        void over.then(() => this.#handle({ type: 'stopped' }));
        return;
      }
      case 'set-timer':
        this.#timer = this.#runtime.setTimer(() => this.#handle({ type: 'due' }), effect.ms);
        return;
      case 'cancel-timer':
        this.#timer?.cancel();
    }
  }

  async #run(attempt: Attempt<Subject>, earlier: Promise<void> | undefined): Promise<void> {
    // Never two at once.
    await earlier;
    const { signal } = attempt.abort;
    if (signal.aborted) return;
    const subject = await this.#start(attempt);
    if (!subject) return;
    if (signal.aborted) {
      // The start took too long.
      this.#crashed(signal.reason);
    } else {
      attempt.subject = subject;
      this.#handle({ type: 'started', at: this.#runtime.now() });
      await subject.exited.catch(() => {});
      this.#crashed(subject.failure());
    }
    await this.#end(subject);
  }

  async #start({ abort }: Attempt<Subject>): Promise<Subject | undefined> {
    const { startMs } = this.#policy;
    const timer = this.#runtime.setTimer(
      () => abort.abort(new EclipticError('REQUEST_TIMEOUT', `${this.#init.name} was not ready within ${startMs} ms`)),
      startMs,
    );
    try {
      return await this.#init.start(abort.signal);
    } catch (error) {
      this.#crashed(abort.signal.aborted ? abort.signal.reason : error);
      return undefined;
    } finally {
      timer.cancel();
    }
  }

  #crashed(error: unknown): void {
    // The end was requested.
    if (this.state.kind === 'stopping') return;
    const reason = toEclipticError(error, 'PROCESS_START_FAILED');
    this.#runtime.logger.warn({ name: this.#init.name, reason: reason.message }, 'provider exited');
    const final = this.#init.isFinal?.(reason) ?? false;
    this.#handle({ type: 'crashed', at: this.#runtime.now(), reason, jitter: this.#runtime.random(), final });
  }

  async #end(subject: Subject): Promise<void> {
    try {
      await subject.stop();
    } catch (error) {
      this.#runtime.logger.error(
        { name: this.#init.name, error: describeError(error) },
        'provider could not be stopped',
      );
    }
  }
}
