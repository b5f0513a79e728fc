import { Deferred } from './async.js';

/**
 * A part of a node with a life of its own. A part may use every part before it in the list, from its `start` until its
 * `stop` has ended. `stop` is also called when `start` failed or never ran, so it must cope with that.
 */
export interface Part {
  readonly name: string;
  start?(): unknown;
  stop?(): unknown;
}

/** The parts of a node, in the order in which they start. They stop in reverse, also when a start fails half-way. */
export class Parts {
  readonly #parts: Part[] = [];
  #started = 0;
  #stopping: Promise<void> | undefined;
  readonly #stopped = new Deferred<void>();

  /** A part that is added after `start` is running already, and only has to be stopped. */
  add(...parts: Part[]): void {
    this.#parts.push(...parts);
  }

  /** Starts the parts one after another. If one fails, stops all of them and throws the failure. */
  async start(): Promise<void> {
    try {
      while (this.#started < this.#parts.length) await this.#parts[this.#started++]!.start?.();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Stops every part, the last first. A part that fails to stop does not keep the others running; its error is thrown. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  /** Resolves when every part has stopped. */
  get stopped(): Promise<void> {
    return this.#stopped.promise;
  }

  async #stopAll(): Promise<void> {
    const failures: unknown[] = [];
    for (let part = this.#parts.pop(); part; part = this.#parts.pop()) {
      try {
        await part.stop?.();
      } catch (error) {
        failures.push(error);
      }
    }
    this.#stopped.resolve();
    if (failures.length > 0) throw failures[0];
  }
}
