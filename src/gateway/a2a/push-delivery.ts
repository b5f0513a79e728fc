import { createHmac } from 'node:crypto';
import type { TaskEvent } from '../../a2a-protocol/task-machine.js';
import type { TaskPushNotificationConfig } from '../../a2a-protocol/types.js';
import type { AllowPrivate } from '../../net/allow-list.js';
import type { Connections } from '../../net/connections.js';
import { guardedFetch } from '../../net/guarded-fetch.js';
import { describeError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { Runtime } from '../../runtime/runtime.js';

export interface PushDeliveryComponents {
  runtime: Runtime;
  connections: Connections;
  /** Private addresses that may be called. */
  allowPrivate: AllowPrivate;
}

const ATTEMPTS = 5;
const FIRST_DELAY_MS = 1_000;
const TIMEOUT_MS = 15_000;
/** Events that may wait for one webhook; of more, the oldest are left out. */
const MAX_WAITING = 1_000;

/** One webhook's events of one task: in order, each tried again and again for a while. */
export class PushDelivery {
  readonly #components: PushDeliveryComponents;
  readonly #taskId: string;
  readonly #config: TaskPushNotificationConfig;
  readonly #waiting = new Fifo<TaskEvent>();
  readonly #ended = new AbortController();
  #work: Promise<void> | undefined;

  constructor(components: PushDeliveryComponents, taskId: string, config: TaskPushNotificationConfig) {
    this.#components = components;
    this.#taskId = taskId;
    this.#config = config;
  }

  push(events: readonly TaskEvent[]): void {
    for (const event of events) this.#waiting.push(event);
    while (this.#waiting.length > MAX_WAITING) this.#giveUp(this.#waiting.shift()!);
    this.#work ??= this.#sendAll().finally(() => {
      this.#work = undefined;
    });
  }

  /** Resolves when nothing waits any more. */
  get sent(): Promise<void> {
    return this.#work ?? Promise.resolve();
  }

  /** Nothing more is sent, not even what waits. */
  end(): void {
    this.#waiting.drain();
    this.#ended.abort();
  }

  async #sendAll(): Promise<void> {
    for (let event = this.#waiting.shift(); event; event = this.#waiting.shift()) {
      if (!(await this.#send(event)) && !this.#ended.signal.aborted) this.#giveUp(event);
    }
  }

  async #send({ sequence, event }: TaskEvent): Promise<boolean> {
    const { runtime, connections, allowPrivate } = this.#components;
    const { signal } = this.#ended;
    const body = JSON.stringify(event);
    const headers = { ...this.#headersFor(body), 'Ecliptic-Event-Id': `${this.#taskId}:${sequence}` };
    const options = { method: 'POST', headers, body, timeoutMs: TIMEOUT_MS, redirects: 0, connections, allowPrivate };
    for (let attempt = 1; attempt <= ATTEMPTS && !signal.aborted; attempt++) {
      try {
        const { status } = await guardedFetch(runtime, this.#config.url, { ...options, signal });
        if (status < 500 && status !== 429) return true;
      } catch (error) {
        const fields = { task: this.#taskId, attempt, reason: describeError(error) };
        runtime.logger.debug(fields, 'a webhook was not reached');
      }
      if (attempt < ATTEMPTS) await this.#pause(FIRST_DELAY_MS * 2 ** (attempt - 1));
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
    const fields = { task: this.#taskId, config: this.#config.id, sequence };
    this.#components.runtime.logger.warn(fields, 'a webhook was not told of an event');
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const { signal } = this.#ended;
      const end = () => {
        timer.cancel();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = this.#components.runtime.setTimer(end, ms);
      signal.addEventListener('abort', end);
    });
  }
}
