import { isTerminal } from '../../a2a-protocol/task-states.js';
import type { TaskPushNotificationConfig } from '../../a2a-protocol/types.js';
import { AllowList, type AllowPrivate } from '../../net/allow-list.js';
import type { Connections } from '../../net/connections.js';
import { resolveTarget, systemResolve } from '../../net/resolve.js';
import { parseTarget } from '../../net/target.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { LiveTask } from './live-task.js';
import { PushDelivery } from './push-delivery.js';
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

type Config = TaskPushNotificationConfig & { readonly id: string };

/** Tells webhooks of the events of the tasks they were given for, and never at an address that is ours alone. */
export class PushSender {
  readonly #components: PushSenderComponents;
  readonly #allowPrivate: AllowPrivate;
  /** Tasks that go on. */
  readonly #followed = new Set<string>();
  /** Of those, the ones that have webhooks: by task and configuration. */
  readonly #deliveries = new Map<string, Map<string, PushDelivery>>();
  /** Of tasks that have ended, while something is still to be sent. */
  readonly #last = new Set<PushDelivery>();

  constructor(components: PushSenderComponents, { allowPrivate = false }: PushSenderInit) {
    this.#components = components;
    this.#allowPrivate = allowPrivate;
  }

  /** Throws why a URL will not be called. */
  async check(url: string): Promise<void> {
    await resolveTarget(parseTarget(url), new AllowList(this.#allowPrivate), systemResolve);
  }

  /** Listens to a task; one that goes on after a restart has its webhooks already. */
  async follow(live: LiveTask, resumed: boolean): Promise<void> {
    const { id } = live;
    this.#followed.add(id);
    live.watch({
      happened: (events, task) => {
        for (const delivery of this.#deliveries.get(id)?.values() ?? []) delivery.push(events);
        if (isTerminal(task.status.state)) this.#end(id);
      },
      broke: () => this.#end(id),
    });
    if (!resumed) return;
    for (const config of await this.#components.records.pushes(id)) this.#put(id, config);
  }

  async add(taskId: string, config: Config): Promise<void> {
    await this.#components.records.savePush(taskId, config);
    if (this.#followed.has(taskId)) this.#put(taskId, config);
  }

  async remove(taskId: string, id: string): Promise<void> {
    await this.#components.records.removePush(taskId, id);
    const deliveries = this.#deliveries.get(taskId);
    deliveries?.get(id)?.end();
    deliveries?.delete(id);
  }

  close(): void {
    for (const id of this.#followed) this.#end(id);
    for (const delivery of this.#last) delivery.end();
  }

  #put(taskId: string, config: Config): void {
    const { runtime, connections } = this.#components;
    const deliveries = this.#deliveries.get(taskId) ?? new Map<string, PushDelivery>();
    deliveries.get(config.id)?.end();
    deliveries.set(
      config.id,
      new PushDelivery({ runtime, connections, allowPrivate: this.#allowPrivate }, taskId, config),
    );
    this.#deliveries.set(taskId, deliveries);
  }

  #end(taskId: string): void {
    this.#followed.delete(taskId);
    for (const delivery of this.#deliveries.get(taskId)?.values() ?? []) {
      this.#last.add(delivery);
      void delivery.sent.then(() => this.#last.delete(delivery));
    }
    this.#deliveries.delete(taskId);
  }
}
