import type { Child } from '../../process/child.js';
import type { MemoryWatch } from '../../process/memory-watch.js';
import type { Running } from '../../process/supervisor.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { HostLimits } from './limits.js';

/** A conversation with a program, in whatever protocol it speaks. */
export interface HostedSession {
  /** Resolves when the program has shown that it lives. */
  ping(): Promise<unknown>;
  /** Settles, with the reason, when the program breaks the protocol: there is nothing more to be had from it. */
  readonly broken: Promise<EclipticError>;
}

export interface HostedComponents {
  runtime: Runtime;
  memory: MemoryWatch;
}

const MB = 1_048_576;

/** A provider's process while it runs, watched: it may not grow, hang or babble. */
export class Hosted<Session extends HostedSession> implements Running {
  readonly session: Session;
  readonly exited: Promise<void>;
  readonly #provider: string;
  readonly #child: Child;
  readonly #components: HostedComponents;
  readonly #limits: HostLimits;
  readonly #stopWatching: () => void;
  #verdict: EclipticError | undefined;
  #heartbeat: Timer | undefined;
  #over = false;

  constructor(provider: string, child: Child, session: Session, components: HostedComponents, limits: HostLimits) {
    this.#provider = provider;
    this.#child = child;
    this.session = session;
    this.#components = components;
    this.#limits = limits;
    this.#stopWatching = components.memory.watch(child.pid, limits.memoryMb * MB, (bytes) => this.#tooLarge(bytes));
    this.exited = child.exited.then(() => this.#end());
    void session.broken.then((reason) => this.condemn(reason));
    this.#beat();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** How it ended, in a provider's terms. */
  failure(): EclipticError {
    return this.#verdict ?? crashed(this.#provider, this.#child.failure());
  }

  /** Ends it at once and without mercy, for that reason. */
  condemn(reason: EclipticError): void {
    if (this.#over) return;
    this.#verdict ??= reason;
    this.#end();
    void this.#child.stop({ graceMs: 0 });
  }

  async stop(): Promise<void> {
    this.#end();
    await this.#child.stop();
  }

  #end(): void {
    this.#over = true;
    this.#heartbeat?.cancel();
    this.#stopWatching();
  }

  #tooLarge(bytes: number): void {
    const { memoryMb } = this.#limits;
    const message = `${this.#provider} took ${Math.round(bytes / MB)} MB of memory; ${memoryMb} are allowed`;
    this.condemn(new EclipticError('PROVIDER_CRASHED', message, { reason: 'memory', bytes, memoryMb }));
  }

  #beat(): void {
    this.#heartbeat = this.#components.runtime.setTimer(() => {
      const { silenceMs } = this.#limits;
      const message = `${this.#provider} gave no sign of life for ${silenceMs} ms`;
      this.#heartbeat = this.#components.runtime.setTimer(
        () => this.condemn(new EclipticError('PROVIDER_TIMEOUT', message, { reason: 'silence', silenceMs })),
        silenceMs,
      );
      // One that cannot be asked is broken or gone, and told of as such.
      this.session.ping().then(
        () => this.#heard(),
        () => {},
      );
    }, this.#limits.heartbeatMs);
  }

  #heard(): void {
    this.#heartbeat?.cancel();
    if (!this.#over) this.#beat();
  }
}

/** A process's end is a provider's crash. */
export function crashed(provider: string, error: EclipticError): EclipticError {
  if (error.code !== 'PROCESS_ENDED') return error;
  return new EclipticError('PROVIDER_CRASHED', error.message, { ...error.details, provider }, error);
}
