import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { AllowList, type AllowPrivate } from '../../system/fetch/allow-list.js';
import type { Connections } from '../../system/fetch/connections.js';
import { resolveTarget, systemResolve } from '../../system/fetch/resolve.js';
import { parseTarget } from '../../system/fetch/target.js';
import { refuse } from '../protocol/reading.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-states.js';
import { PushDelivery } from './push-delivery.js';
import type { StoredTask } from './stored-task.js';
import type { PushConfig, TaskRecords } from './task-records.js';

export interface PushSenderComponents {
  runtime: Runtime;
  records: TaskRecords;
  connections: Connections;
}

export interface PushSenderInit {
  /** Private addresses that may be called. */
  allowPrivate?: AllowPrivate | undefined;
}

/**
 * Tells webhooks of the events of the tasks they were given for, and never at an address that is ours alone. How far
 * each webhook has been told is recorded, so that events that were pending when the node stopped are sent after its
 * restart; those sent since the last record are sent again.
 */
export class PushSender {
  readonly #components: PushSenderComponents;
  readonly #allowPrivate: AllowPrivate;
  /** Tasks that go on. */
  readonly #followed = new Map<string, StoredTask>();
  /** Of those, the ones that have webhooks: by task and configuration. */
  readonly #deliveries = new Map<string, Map<string, PushDelivery>>();
  /** Of tasks that have ended, while something is still to be sent. */
  readonly #last = new Set<PushDelivery>();

  constructor(components: PushSenderComponents, { allowPrivate = false }: PushSenderInit) {
    this.#components = components;
    this.#allowPrivate = allowPrivate;
  }

  /**
   * Throws for a URL that will not be called. A name that does not resolve and one with a private address get the same
   * answer, so that nobody learns here which inside names exist.
   */
  async check(url: string): Promise<void> {
    try {
      await resolveTarget(parseTarget(url), new AllowList(this.#allowPrivate), systemResolve);
    } catch (error) {
      if (!(error instanceof EclipticError)) throw error;
      refuse('url', 'must be an address that may be called from here');
    }
  }

  /** Listens to a task; one that goes on after a restart has its webhooks already. */
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

  /** Sends what ended tasks had still to tell when the node stopped. Those that go on are followed with their backlog. */
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
    // It hears of everything from here on, while it is saved too.
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
        runtime.logger.error({ err, task: taskId, config: config.id }, 'webhook progress could not be recorded');
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
