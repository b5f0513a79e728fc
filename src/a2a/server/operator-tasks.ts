import { taskNotFound } from '../protocol/task-access.js';
import type { Task, TaskState } from '../protocol/types.js';
import type { Subscription } from './subscription.js';
import type { TaskRecord, TaskRecords } from './task-records.js';
import type { TaskService } from './task-service.js';

export interface OperatorTasksComponents {
  tasks: TaskService;
  records: TaskRecords;
}

export interface TaskWish {
  readonly state?: TaskState | undefined;
  readonly caller?: string | undefined;
  readonly limit: number;
}

/** Every caller's tasks, for the owner of the node. */
export class OperatorTasks {
  readonly #components: OperatorTasksComponents;

  constructor(components: OperatorTasksComponents) {
    this.#components = components;
  }

  /** The latest first. */
  async list({ state, caller, limit }: TaskWish): Promise<TaskRecord[]> {
    const found = await this.#components.records.list(caller, { ...(state && { status: state }) });
    return found.slice(0, limit);
  }

  idsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#components.records.idsBeginning(prefix, limit);
  }

  async get(id: string): Promise<TaskRecord> {
    return this.#components.tasks.get(await this.#ownerOf(id), id);
  }

  async cancel(id: string): Promise<Task> {
    return this.#components.tasks.cancel(await this.#ownerOf(id), id);
  }

  /** What happens to a task after that event. */
  async follow(id: string, after: number): Promise<Subscription> {
    return this.#components.tasks.subscribe(await this.#ownerOf(id), id, after);
  }

  /** Nobody hears of a task before it is kept, so that its record can be found. */
  async #ownerOf(id: string): Promise<string> {
    const record = await this.#components.records.load(id);
    if (!record) throw taskNotFound(id);
    return record.owner;
  }
}
