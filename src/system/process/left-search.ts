import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';
import { findLeft, type Left } from './process-table.js';

/** The pause after a scan, as a multiple of its duration: scans take a twentieth of the time at most. */
const PAUSE = 20;
const MIN_PAUSE_MS = 20;
const MAX_PAUSE_MS = 250;

interface Asked {
  readonly left: Left;
  readonly resolve: (pids: readonly number[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Looks for what ended children have left. A scan of all processes costs more than starting a small program, so children
 * that end at about the same time share one; a child that ends alone does not wait.
 */
export class LeftSearch {
  readonly #runtime: Runtime;
  #asked: Asked[] = [];
  #busy = false;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** The processes of a scan that begins after this call. */
  find(left: Left): Promise<readonly number[]> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ left, resolve, reject });
      if (!this.#busy) void this.#scan();
    });
  }

  async #scan(): Promise<void> {
    this.#busy = true;
    while (this.#asked.length > 0) {
      const began = this.#runtime.stopwatch();
      const asked = this.#asked;
      this.#asked = [];
      try {
        const found = await findLeft(
          this.#runtime,
          asked.map(({ left }) => left),
        );
        for (const [index, { resolve }] of asked.entries()) resolve(found[index]!);
      } catch (error) {
        for (const { reject } of asked) reject(error);
      }
      const pauseMs = PAUSE * (this.#runtime.stopwatch() - began);
      await wait(this.#runtime, Math.max(MIN_PAUSE_MS, Math.min(MAX_PAUSE_MS, pauseMs)));
    }
    this.#busy = false;
  }
}
