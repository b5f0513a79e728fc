import { createHmac } from 'node:crypto';
import type { TaskEvent } from '../../a2a-protocol/task-machine.js';
import type { TaskPushNotificationConfig } from '../../a2a-protocol/types.js';
import { AllowList, type AllowPrivate } from '../../net/allow-list.js';
import type { Connections } from '../../net/connections.js';
import { guardedFetch } from '../../net/guarded-fetch.js';
import { resolveTarget, systemResolve } from '../../net/resolve.js';
import { parseTarget } from '../../net/target.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { LiveTask } from './live-task.js';
import type { TaskRecords } from './task-records.js';

export interface PushSenderComponents {
  runtime: Runtime;
  records: TaskRecords;
  connections: Connections;
}

export interface PushSenderInit {
  /** Private addresses that may be called. */
  allowPrivate?: AllowPrivate | undefined;
}

const ATTEMPTS = 5;
const FIRST_DELAY_MS = 1_000;
const TIMEOUT_MS = 15_000;

/** Tells webhooks of a task's events: in order, again and again for a while, and never at an address that is ours alone. */
export class PushSender {
  readonly #components: PushSenderComponents;
  readonly #init: PushSenderInit;
  /** What is on its way to each configuration, so that its events stay in order. */
  readonly #queues = new Map<string, Promise<void>>();
  readonly #gone = new AbortController();

  constructor(components: PushSenderComponents, init: PushSenderInit) {
    this.#components = components;
    this.#init = init;
  }

  /** Throws why a URL will not be called. */
  async check(url: string): Promise<void> {
    await resolveTarget(parseTarget(url), new AllowList(this.#init.allowPrivate ?? false), systemResolve);
  }

  follow(live: LiveTask): void {
    live.watch((events) => void this.#tell(live.id, events));
  }

  close(): void {
    this.#gone.abort();
  }

  async #tell(taskId: string, events: readonly TaskEvent[]): Promise<void> {
    for (const config of await this.#components.records.pushes(taskId).catch(() => [])) {
      const key = `${taskId} ${config.id}`;
      const before = this.#queues.get(key) ?? Promise.resolve();
      const sent = before.then(async () => {
        for (const event of events) await this.#send(taskId, config, event);
      });
      this.#queues.set(key, sent);
      void sent.finally(() => {
        if (this.#queues.get(key) === sent) this.#queues.delete(key);
      });
    }
  }

  async #send(taskId: string, config: TaskPushNotificationConfig, { sequence, event }: TaskEvent): Promise<void> {
    const { runtime, connections } = this.#components;
    const body = JSON.stringify(event);
    const { token, authentication } = config;
    const headers: Record<string, string> = {
      'Content-Type': 'application/a2a+json',
      'A2A-Version': '1.0',
      'Ecliptic-Event-Id': `${taskId}:${sequence}`,
      ...(authentication && {
        Authorization: `${authentication.scheme} ${authentication.credentials ?? ''}`.trim(),
      }),
      ...(token !== undefined && {
        'X-A2A-Notification-Token': token,
        // Who knows the token can tell that nobody else made this.
        'Ecliptic-Signature': `sha256=${createHmac('sha256', token).update(body).digest('hex')}`,
      }),
    };
    for (let attempt = 1; attempt <= ATTEMPTS && !this.#gone.signal.aborted; attempt++) {
      try {
        const { status } = await guardedFetch(runtime, config.url, {
          method: 'POST',
          headers,
          body,
          timeoutMs: TIMEOUT_MS,
          redirects: 0,
          connections,
          signal: this.#gone.signal,
          ...(this.#init.allowPrivate !== undefined && { allowPrivate: this.#init.allowPrivate }),
        });
        if (status < 500 && status !== 429) return;
      } catch (error) {
        runtime.logger.debug({ task: taskId, attempt, reason: describeError(error) }, 'a webhook was not reached');
      }
      if (attempt < ATTEMPTS) await this.#pause(FIRST_DELAY_MS * 2 ** (attempt - 1));
    }
    runtime.logger.warn({ task: taskId, config: config.id }, 'a webhook was not told of an event');
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const { signal } = this.#gone;
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
