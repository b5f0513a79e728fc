import { wait } from '../runtime/async.js';
import { backoffMs } from '../runtime/backoff.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Segment } from './segment.js';

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

interface SegmentWriterInit {
  readonly runtime: Runtime;
  readonly write: (segments: readonly Segment[]) => Promise<void>;
  readonly onStored: (segment: Segment) => void;
  readonly onFailure: (error: unknown) => void;
  /** Nothing waits to be stored any more. */
  readonly onIdle: () => void;
}

interface Waiter {
  readonly last: Segment;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Stores the own segments of a replica in their order. What a full disk refuses is tried again, and no later segment
 * overtakes it: other replicas take nothing after a number that is missing.
 */
export class SegmentWriter {
  readonly #init: SegmentWriterInit;
  #unstored: Segment[] = [];
  #waiters: Waiter[] = [];
  #running: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(init: SegmentWriterInit) {
    this.#init = init;
  }

  get busy(): boolean {
    return this.#unstored.length > 0;
  }

  add(segment: Segment): void {
    this.#unstored.push(segment);
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      this.#init.onIdle();
    });
  }

  /** Resolves when all segments so far are stored, and rejects when the disk refuses one of them. */
  stored(): Promise<void> {
    const last = this.#unstored.at(-1);
    if (!last) return Promise.resolve();
    return new Promise((resolve, reject) => void this.#waiters.push({ last, resolve, reject }));
  }

  /** Resolves when everything is stored, or was refused once more. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (let failures = 0; this.#unstored.length > 0; ) {
      const batch = [...this.#unstored];
      try {
        await this.#init.write(batch);
      } catch (error) {
        if (failures === 0) this.#init.onFailure(error);
        for (const { reject } of this.#waiters.splice(0)) reject(error);
        if (this.#closing.signal.aborted) return;
        await wait(this.#init.runtime, backoffMs(failures++, FIRST_RETRY_MS, LONGEST_RETRY_MS), this.#closing.signal);
        continue;
      }
      failures = 0;
      this.#unstored.splice(0, batch.length);
      for (const segment of batch) this.#init.onStored(segment);
      const stored = this.#waiters.filter(({ last }) => !this.#unstored.includes(last));
      this.#waiters = this.#waiters.filter(({ last }) => this.#unstored.includes(last));
      for (const { resolve } of stored) resolve();
    }
  }
}
