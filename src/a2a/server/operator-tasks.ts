import { OPERATOR } from '../../http/auth/caller-auth.js';
import { EclipticError } from '../../runtime/errors.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import { taskNotFound } from '../protocol/task-rules.js';
import type { Task, TaskState } from '../protocol/types.js';
import type { StoredTask, Subscription } from './stored-task.js';
import type { TaskRecord, TaskRecords } from './task-records.js';
import type { GivenTask, TaskService } from './task-service.js';

export interface OperatorTasksComponents {
  tasks: TaskService;
  records: TaskRecords;
}

export interface TaskFilter {
  readonly state?: TaskState;
  readonly caller?: string;
  readonly context?: string;
  readonly limit: number;
}

/** The tasks of every caller, for the node's owner. */
export class OperatorTasks {
  readonly #components: OperatorTasksComponents;

  constructor(components: OperatorTasksComponents) {
    this.#components = components;
  }

  async list({ state, caller, context: contextId, limit }: TaskFilter): Promise<TaskRecord[]> {
    const filter = { ...(state && { status: state }), ...(contextId !== undefined && { contextId }) };
    const found = await this.#components.records.list(caller, filter, limit);
    return found.slice(0, limit);
  }

  idsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#components.records.idsBeginning(prefix, limit);
  }

  async get(id: string): Promise<TaskRecord> {
    return this.#components.tasks.get(await this.#ownerOf(id), id);
  }

  /** Everything that was published about a task, oldest first. */
  events(id: string): Promise<TaskEvent[]> {
    return this.#components.records.eventsAfter(id, 0);
  }

  async cancel(id: string): Promise<Task> {
    return this.#components.tasks.cancel(await this.#ownerOf(id), id);
  }

  /** Gives an agent, here or on another node, a task of the owner. */
  give(agent: string, task: GivenTask, timeoutMs?: number): Promise<StoredTask> {
    const terms = { agent, ...(timeoutMs !== undefined && { timeoutMs }) };
    return this.#components.tasks.give(OPERATOR.address, task, terms);
  }

  /** Answers the question of a task that the owner gave. */
  async answer(id: string, text: string): Promise<Task> {
    const owner = await this.#ownerOf(id);
    if (owner !== OPERATOR.address) {
      throw new EclipticError('SENDER_REFUSED', `the task is of ${owner}, who must answer its question`, {
        taskId: id,
      });
    }
    await this.#components.tasks.answer(owner, id, text);
    return (await this.#components.tasks.get(owner, id)).model.task;
  }

  async follow(id: string, after: number): Promise<Subscription> {
    return this.#components.tasks.subscribe(await this.#ownerOf(id), id, after);
  }

  /** A task is stored before its id is shown, so its record can be found. */
  async #ownerOf(id: string): Promise<string> {
    const record = await this.#components.records.load(id);
    if (!record) throw taskNotFound(id);
    return record.owner;
  }
}
