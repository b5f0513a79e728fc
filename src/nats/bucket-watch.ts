import type { KV, KvWatchEntry } from '@nats-io/kv';
import { describeError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { NatsConnection } from './connection.js';

const RETRY_MS = 500;

interface BucketWatchInit {
  open: () => Promise<KV>;
  onEntry: (entry: KvWatchEntry) => void;
  /** Called each time the watch begins, before its first entry: all entries come again. */
  onBegin?: (bucket: KV) => void;
}

/** Follows every key of a bucket, from its present entries on; begins again after each loss of the broker. */
export class BucketWatch {
  readonly #runtime: Runtime;
  readonly #connection: NatsConnection;
  readonly #init: BucketWatchInit;
  readonly #remove: (() => void)[] = [];
  #watching: { stop(): void } | undefined;
  #retry: Timer | undefined;
  /** Counts beginnings: one that was overtaken ends. */
  #turn = 0;
  /** Why the bucket cannot be watched; absent while it is. */
  failure: string | undefined;

  constructor(components: { runtime: Runtime; connection: NatsConnection }, init: BucketWatchInit) {
    this.#runtime = components.runtime;
    this.#connection = components.connection;
    this.#init = init;
  }

  start(): void {
    const { onConnected, onDisconnected } = {
      onConnected: this.#connection.onConnected(() => void this.#begin()),
      onDisconnected: this.#connection.onDisconnected(() => this.#end()),
    };
    this.#remove.push(onConnected, onDisconnected);
  }

  stop(): void {
    for (const remove of this.#remove.splice(0)) remove();
    this.#end();
  }

  async #begin(): Promise<void> {
    this.#end();
    const turn = this.#turn;
    try {
      const bucket = await this.#init.open();
      if (turn !== this.#turn) return;
      this.failure = undefined;
      this.#init.onBegin?.(bucket);
      const watching = await bucket.watch();
      if (turn !== this.#turn) return watching.stop();
      this.#watching = watching;
      for await (const entry of watching) {
        if (turn !== this.#turn) return;
        this.#init.onEntry(entry);
      }
    } catch (error) {
      if (turn === this.#turn) this.failure = describeError(error);
      this.#runtime.logger.debug({ err: error }, 'NATS bucket cannot be watched');
    }
    if (turn === this.#turn) this.#retry = this.#runtime.setTimer(() => void this.#begin(), RETRY_MS);
  }

  #end(): void {
    this.#turn++;
    this.#retry?.cancel();
    this.#watching?.stop();
    this.#watching = undefined;
  }
}
