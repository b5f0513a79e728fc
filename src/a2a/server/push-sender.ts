import { createHmac } from 'node:crypto';
import { EclipticError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Connections } from '../../system/fetch/exchange.js';
import { AllowList, type AllowPrivate, parseTarget, resolveTarget, systemResolve } from '../../system/fetch/target.js';
import { postWebhook } from '../../system/fetch/webhook.js';
import { refuse } from '../protocol/reading.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-rules.js';
import type { StoredTask } from './stored-task.js';
import type { PushConfig, TaskRecords } from './task-records.js';

export interface PushDeliveryComponents {
  runtime: Runtime;
  connections: Connections;
  allowPrivate: AllowPrivate;
  /** Every event up to `sequence` was sent or given up; `over` after the last one. */
  onTold: (sequence: number, over: boolean) => void;
}

/** Events that may wait for one webhook; above that, the oldest are dropped. */
const MAX_WAITING = 1_000;
/** Progress is recorded when the queue is empty, and after this many events. */
const TOLD_EVERY = 100;

/** Sends the events of one task to one webhook, in order and with retries. */
export class PushDelivery {
  readonly taskId: string;
  readonly #components: PushDeliveryComponents;
  readonly #config: PushConfig;
  readonly #waiting = new Fifo<TaskEvent>();
  readonly #ended = new AbortController();
  #work: Promise<void> | undefined;
  /** The number of the last event that was queued. */
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

  /** Queues events in order and skips those that were queued before. */
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

  /** Queues the last events of the task. Resolves when the queue is empty. */
  async finish(events: readonly TaskEvent[]): Promise<void> {
    this.push(events);
    await this.#work;
    if (!this.#ended.signal.aborted) this.#components.onTold(this.#latest, true);
  }

  /** Drops the queue and ends the request in flight. */
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
    const body = JSON.stringify(event);
    const headers = { ...this.#headersFor(body), 'Ecliptic-Event-Id': `${this.taskId}:${sequence}` };
    const outcome = await postWebhook(runtime, this.#config.url, {
      ...{ headers, body, connections, allowPrivate, signal: this.#ended.signal },
      onFailure: (attempt, reason) => {
        runtime.logger.debug({ task: this.taskId, attempt, reason }, 'webhook not reached');
      },
    });
    return 'status' in outcome;
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
        // Lets a receiver that knows the token authenticate the body.
        'Ecliptic-Signature': `sha256=${createHmac('sha256', token).update(body).digest('hex')}`,
      }),
    };
  }

  #giveUp({ sequence }: TaskEvent): void {
    const fields = { task: this.taskId, config: this.#config.id, sequence };
    this.#components.runtime.logger.warn(fields, 'webhook event dropped');
  }
}

export interface PushSenderComponents {
  runtime: Runtime;
  records: TaskRecords;
  connections: Connections;
}

export interface PushSenderInit {
  /** Private addresses that may be called. */
  allowPrivate?: AllowPrivate;
}

/**
 * Sends task events to webhooks, never to private addresses that are not allowed. The progress of each webhook is
 * stored, so that events pending at a stop are sent after the restart; events sent since the last record are sent
 * again.
 */
export class PushSender {
  readonly #components: PushSenderComponents;
  readonly #allowPrivate: AllowPrivate;
  /** Tasks that have not ended. */
  readonly #followed = new Map<string, StoredTask>();
  /** By task and configuration. */
  readonly #deliveries = new Map<string, Map<string, PushDelivery>>();
  /** Deliveries of ended tasks that are still sending. */
  readonly #last = new Set<PushDelivery>();

  constructor(components: PushSenderComponents, { allowPrivate = false }: PushSenderInit) {
    this.#components = components;
    this.#allowPrivate = allowPrivate;
  }

  /**
   * Throws for a URL that may not be called. An unresolvable name and a private address get the same answer, so that
   * internal names cannot be probed.
   */
  async check(url: string): Promise<void> {
    try {
      await resolveTarget(parseTarget(url), new AllowList(this.#allowPrivate), systemResolve);
    } catch (error) {
      if (!(error instanceof EclipticError)) throw error;
      refuse('url', 'must be an address that may be called from here');
    }
  }

  /** Watches a task. A resumed task has its webhooks already. */
  async follow(stored: StoredTask, resumed: boolean): Promise<void> {
    const { id } = stored;
    this.#followed.set(id, stored);
    stored.watch({
      happened: (events, task) => {
        for (const delivery of this.#deliveries.get(id)?.values() ?? []) delivery.push(events);
        if (isTerminal(task.status.state)) this.#end(id);
      },
      broke: () => this.#end(id),
    });
    if (!resumed) return;
    const { records } = this.#components;
    for (const { config, told } of await records.pushes(id)) {
      this.#put(id, config).push(await records.eventsAfter(id, told ?? stored.record.model.sequence));
    }
  }

  /** Sends the pending events of ended tasks. Tasks that go on are resumed with their backlog. */
  async recover(): Promise<void> {
    const { records } = this.#components;
    for (const { taskId, config, told } of await records.pendingPushes()) {
      const state = (await records.load(taskId))?.model.task.status.state;
      if (state === undefined || !isTerminal(state)) continue;
      const events = await records.eventsAfter(taskId, told);
      this.#finish(this.#delivery(taskId, config), events);
    }
  }

  async add(taskId: string, config: PushConfig): Promise<void> {
    const stored = this.#followed.get(taskId);
    // Queues events from here on, also while the configuration is being saved.
    if (stored) this.#put(taskId, config);
    try {
      await this.#components.records.savePush(taskId, config, stored?.record.model.sequence);
    } catch (error) {
      this.#drop(taskId, config.id);
      throw error;
    }
  }

  async remove(taskId: string, id: string): Promise<void> {
    this.#drop(taskId, id);
    await this.#components.records.removePush(taskId, id);
  }

  close(): void {
    for (const id of [...this.#followed.keys()]) this.#end(id);
    for (const delivery of this.#last) delivery.end();
  }

  #drop(taskId: string, id: string): void {
    const deliveries = this.#deliveries.get(taskId);
    deliveries?.get(id)?.end();
    deliveries?.delete(id);
    for (const delivery of this.#last) if (delivery.taskId === taskId && delivery.id === id) delivery.end();
  }

  #put(taskId: string, config: PushConfig): PushDelivery {
    const deliveries = this.#deliveries.get(taskId) ?? new Map<string, PushDelivery>();
    deliveries.get(config.id)?.end();
    const delivery = this.#delivery(taskId, config);
    deliveries.set(config.id, delivery);
    this.#deliveries.set(taskId, deliveries);
    return delivery;
  }

  #delivery(taskId: string, config: PushConfig): PushDelivery {
    const { runtime, connections, records } = this.#components;
    const onTold = (sequence: number, over: boolean) => {
      records.savePush(taskId, config, sequence, over).catch((err) => {
        runtime.logger.error({ err, task: taskId, config: config.id }, 'webhook progress not saved');
      });
    };
    return new PushDelivery({ runtime, connections, allowPrivate: this.#allowPrivate, onTold }, taskId, config);
  }

  #end(taskId: string): void {
    this.#followed.delete(taskId);
    for (const delivery of this.#deliveries.get(taskId)?.values() ?? []) this.#finish(delivery, []);
    this.#deliveries.delete(taskId);
  }

  #finish(delivery: PushDelivery, events: readonly TaskEvent[]): void {
    this.#last.add(delivery);
    void delivery.finish(events).then(() => this.#last.delete(delivery));
  }
}
