import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

const REPORT_MS = 60_000;

/** Counts the connections that a server could not accept. While descriptors are used up there may be thousands a second, so the log tells of them once a minute. */
export class RefusedConnections {
  readonly #runtime: Runtime;
  readonly #server: string;
  #count = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, server: string) {
    this.#runtime = runtime;
    this.#server = server;
  }

  get count(): number {
    return this.#count;
  }

  note(reason: unknown): void {
    this.#count++;
    const now = this.#runtime.stopwatch();
    if (now - this.#reportedAt < REPORT_MS) return;
    this.#reportedAt = now;
    const about = { server: this.#server, refused: this.#count, reason: describeError(reason) };
    this.#runtime.logger.warn(about, 'connections refused');
  }
}
