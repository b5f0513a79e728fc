import { compareTasks, matchesFilter } from '../protocol/task-list.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-states.js';
import type { ListTasksRequest } from '../protocol/types.js';
import type { PushConfig, TaskRecord, TaskRecords } from './task-records.js';

/** Above this, the oldest of those that have ended are forgotten, so many at a time. */
const CAPACITY = 1_000;
const PRUNED_AT_ONCE = 100;

interface Kept {
  record: TaskRecord;
  readonly events: TaskEvent[];
  readonly pushes: Map<string, PushConfig>;
}

/** Tasks of a node without a store: the latest thousand. One that has not ended is never forgotten. */
export class MemoryTaskRecords implements TaskRecords {
  readonly #tasks = new Map<string, Kept>();
  /** Ids of those that have ended, the oldest first. */
  readonly #ended = new Set<string>();

  save(record: TaskRecord, events: readonly TaskEvent[]): Promise<void> | undefined {
    const { id, status } = record.model.task;
    const known = this.#tasks.get(id);
    if (known) {
      known.record = record;
      known.events.push(...events);
    } else this.#tasks.set(id, { record, events: [...events], pushes: new Map() });
    if (isTerminal(status.state)) this.#ended.add(id);
    if (this.#tasks.size > CAPACITY) this.#prune();
    return undefined;
  }

  async load(id: string): Promise<TaskRecord | undefined> {
    return this.#tasks.get(id)?.record;
  }

  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    return [...this.#tasks.keys()].filter((id) => id !== prefix && id.startsWith(prefix)).slice(0, limit);
  }

  async eventsAfter(id: string, after: number): Promise<TaskEvent[]> {
    return (this.#tasks.get(id)?.events ?? []).filter(({ sequence }) => sequence > after);
  }

  async list(owner: string | undefined, request: ListTasksRequest): Promise<TaskRecord[]> {
    const { tenant } = request;
    const wanted = [...this.#tasks.values()]
      .map(({ record }) => record)
      .filter(
        (record) =>
          (owner === undefined || record.owner === owner) && (tenant === undefined || record.agent === tenant),
      )
      .filter(({ model }) => matchesFilter(model.task, request));
    return wanted.sort((a, b) => compareTasks(a.model.task, b.model.task));
  }

  async recentSends(): Promise<[]> {
    return [];
  }

  async unfinished(): Promise<TaskRecord[]> {
    return [];
  }

  /** Nothing outlives this process anyway. */
  async saveSession(): Promise<void> {}

  async savePush(taskId: string, config: PushConfig): Promise<void> {
    this.#tasks.get(taskId)?.pushes.set(config.id, config);
  }

  async removePush(taskId: string, id: string): Promise<void> {
    this.#tasks.get(taskId)?.pushes.delete(id);
  }

  async pushes(taskId: string): Promise<{ config: PushConfig; told: undefined }[]> {
    return [...(this.#tasks.get(taskId)?.pushes.values() ?? [])].map((config) => ({ config, told: undefined }));
  }

  async pendingPushes(): Promise<[]> {
    return [];
  }

  #prune(): void {
    let left = PRUNED_AT_ONCE;
    for (const id of this.#ended) {
      if (left-- === 0) return;
      this.#ended.delete(id);
      this.#tasks.delete(id);
    }
  }
}
