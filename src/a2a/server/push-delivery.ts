import { createHmac } from 'node:crypto';
import { wait } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { describeError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AllowPrivate } from '../../system/fetch/allow-list.js';
import type { Connections } from '../../system/fetch/connections.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import type { PushConfig } from './task-records.js';

export interface PushDeliveryComponents {
  runtime: Runtime;
  connections: Connections;
  /** Private addresses that may be called. */
  allowPrivate: AllowPrivate;
  /** Every event up to that number was sent or given up; with `over`, there are no more. */
  onTold: (sequence: number, over: boolean) => void;
}

const ATTEMPTS = 5;
const FIRST_DELAY_MS = 1_000;
const TIMEOUT_MS = 15_000;
/** Events that may wait for one webhook; of more, the oldest are left out. */
const MAX_WAITING = 1_000;
/** Progress is recorded whenever nothing waits, and after so many events. */
const TOLD_EVERY = 100;

/** One webhook's events of one task: in order, each tried again and again for a while. */
export class PushDelivery {
  readonly taskId: string;
  readonly #components: PushDeliveryComponents;
  readonly #config: PushConfig;
  readonly #waiting = new Fifo<TaskEvent>();
  readonly #ended = new AbortController();
  #work: Promise<void> | undefined;
  /** The number of the last event that was handed over. */
  #latest = 0;
  #unrecorded = 0;

  constructor(components: PushDeliveryComponents, taskId: string, config: PushConfig) {
    this.#components = components;
    this.taskId = taskId;
    this.#config = config;
  }

  get id(): string {
    return this.#config.id;
  }

  /** Takes events in order; those that it had before are left out. */
  push(events: readonly TaskEvent[]): void {
    for (const event of events) {
      if (event.sequence <= this.#latest) continue;
      this.#latest = event.sequence;
      this.#waiting.push(event);
    }
    if (this.#waiting.length === 0) return;
    while (this.#waiting.length > MAX_WAITING) this.#giveUp(this.#waiting.shift()!);
    this.#work ??= this.#sendAll().finally(() => {
      this.#work = undefined;
    });
  }

  /** The last events of the task. Resolves when nothing waits any more. */
  async finish(events: readonly TaskEvent[]): Promise<void> {
    this.push(events);
    await this.#work;
    if (!this.#ended.signal.aborted) this.#components.onTold(this.#latest, true);
  }

  /** Nothing more is sent, not even what waits. */
  end(): void {
    this.#waiting.drain();
    this.#ended.abort();
  }

  async #sendAll(): Promise<void> {
    for (let event = this.#waiting.shift(); event; event = this.#waiting.shift()) {
      const sent = await this.#send(event);
      if (this.#ended.signal.aborted) return;
      if (!sent) this.#giveUp(event);
      if (++this.#unrecorded >= TOLD_EVERY || this.#waiting.length === 0) {
        this.#unrecorded = 0;
        this.#components.onTold(event.sequence, false);
      }
    }
  }

  async #send({ sequence, event }: TaskEvent): Promise<boolean> {
    const { runtime, connections, allowPrivate } = this.#components;
    const { signal } = this.#ended;
    const body = JSON.stringify(event);
    const headers = { ...this.#headersFor(body), 'Ecliptic-Event-Id': `${this.taskId}:${sequence}` };
    const options = { method: 'POST', headers, body, timeoutMs: TIMEOUT_MS, redirects: 0, connections, allowPrivate };
    for (let attempt = 1; attempt <= ATTEMPTS && !signal.aborted; attempt++) {
      try {
        const { status } = await guardedFetch(runtime, this.#config.url, { ...options, signal });
        if (status < 500 && status !== 429) return true;
      } catch (error) {
        const fields = { task: this.taskId, attempt, reason: describeError(error) };
        runtime.logger.debug(fields, 'a webhook was not reached');
      }
      if (attempt < ATTEMPTS) await wait(runtime, backoffMs(attempt - 1, FIRST_DELAY_MS), signal);
    }
    return false;
  }

  #headersFor(body: string): Record<string, string> {
    const { token, authentication } = this.#config;
    return {
      'Content-Type': 'application/a2a+json',
      'A2A-Version': '1.0',
      ...(authentication && {
        Authorization: `${authentication.scheme} ${authentication.credentials ?? ''}`.trim(),
      }),
      ...(token !== undefined && {
        'X-A2A-Notification-Token': token,
        // Who knows the token can tell that nobody else made this.
        'Ecliptic-Signature': `sha256=${createHmac('sha256', token).update(body).digest('hex')}`,
      }),
    };
  }

  #giveUp({ sequence }: TaskEvent): void {
    const fields = { task: this.taskId, config: this.#config.id, sequence };
    this.#components.runtime.logger.warn(fields, 'a webhook was not told of an event');
  }
}
