import type { Runtime, Timer } from '../runtime/runtime.js';

interface IdleExitInit {
  /** The node exits after this long without use. */
  readonly idleMs: number;
  /** Does anyone use the node, or does it work? */
  readonly isBusy: () => boolean | Promise<boolean>;
  readonly exit: () => void;
}

const LOOKS = 10;
const MAX_PAUSE_MS = 30_000;

/** Ends a node that was started for its clients, some time after the last one has left. */
export class IdleExit {
  readonly #runtime: Runtime;
  readonly #init: IdleExitInit;
  #timer: Timer | undefined;
  #since: number;
  #over = false;

  constructor(runtime: Runtime, init: IdleExitInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#since = runtime.stopwatch();
    this.#arm();
  }

  stop(): void {
    this.#over = true;
    this.#timer?.cancel();
  }

  #arm(): void {
    const ms = Math.min(MAX_PAUSE_MS, Math.max(1, this.#init.idleMs / LOOKS));
    this.#timer = this.#runtime.setTimer(() => void this.#look(), ms);
  }

  async #look(): Promise<void> {
    const isBusy = await this.#init.isBusy();
    if (this.#over) return;
    const now = this.#runtime.stopwatch();
    if (isBusy) this.#since = now;
    if (now - this.#since < this.#init.idleMs) return this.#arm();
    this.#runtime.logger.info({ idleMs: this.#init.idleMs }, 'node stops: no client has used it');
    this.#over = true;
    this.#init.exit();
  }
}
