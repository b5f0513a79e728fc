import { cutText } from '../../runtime/text.js';
import { beginningWith, type Store, type Write } from '../../store/store.js';
import { textOf } from '../protocol/simple.js';
import { compareTasks, matchesFilter } from '../protocol/task-list.js';
import {
  createTask,
  type NewTask,
  stepTask,
  type TaskEvent,
  type TaskInput,
  type TaskModel,
} from '../protocol/task-machine.js';
import { isTerminal, type SendFacts } from '../protocol/task-rules.js';
import type { ListTasksRequest, TaskPushNotificationConfig } from '../protocol/types.js';
import { TASK_STATES } from '../protocol/types.js';
import type { Session } from './process-manager.js';
import type { Profiles } from './profiles.js';
import { pushConfigs, sessions, type TaskRow, taskEvents, tasks as taskTable } from './tables.js';

export type PushConfig = TaskPushNotificationConfig & { readonly id: string };

/** The facts of a task that are known before it is created. */
export interface TaskTerms {
  /** The address of the caller. */
  readonly owner: string;
  readonly agent: string;
  readonly sessionId: string;
  readonly createdAt: number;
  /** Another send with the same key is the same task. */
  readonly sendKey: string;
  /** Undefined for tasks of releases that did not record it. */
  readonly asked?: SendFacts;
}

export interface TaskRecord extends TaskTerms {
  /** The agent can resume the task after a restart. */
  readonly resumable: boolean;
  readonly model: TaskModel;
}

/** A task as it was created. */
export interface TaskOrigin {
  readonly terms: TaskTerms;
  readonly task: NewTask;
}

/** All that has happened to a task since then, if that is one input: its record and its events follow from this. */
export interface TaskSteps extends TaskOrigin {
  readonly input: TaskInput;
}

/**
 * The storage of tasks. `save` resolves when the data is on disk; it returns undefined if it was saved synchronously.
 */
export interface TaskRecords {
  save(record: TaskRecord, events: readonly TaskEvent[], steps?: TaskSteps): Promise<void> | undefined;
  load(id: string): Promise<TaskRecord | undefined>;
  /** Ids that start with `prefix` and are longer. */
  idsBeginning(prefix: string, limit: number): Promise<string[]>;
  eventsAfter(id: string, sequence: number): Promise<TaskEvent[]>;
  /** The tasks of a caller, or all; of one agent if a tenant is named; filtered, latest status first. */
  list(owner: string | undefined, request: ListTasksRequest, limit?: number): Promise<TaskRecord[]>;
  /** Oldest first. */
  recentSends(limit: number): Promise<(Pick<TaskRecord, 'owner' | 'sendKey'> & { id: string })[]>;
  unfinished(): Promise<TaskRecord[]>;
  /** Saves a session that has no task here. */
  saveSession(session: Session, createdAt: number): Promise<void>;
  /** Saves a webhook and the number of the last event sent to it; `over` after the last event of the task. */
  savePush(taskId: string, config: PushConfig, told?: number, over?: boolean): Promise<void>;
  removePush(taskId: string, id: string): Promise<void>;
  pushes(taskId: string): Promise<{ readonly config: PushConfig; readonly told: number | undefined }[]>;
  /** Webhooks of an earlier run that may have pending events. */
  pendingPushes(): Promise<{ readonly taskId: string; readonly config: PushConfig; readonly told: number }[]>;
}

/** Above the capacity, the oldest ended tasks are pruned. */
const CAPACITY = 1_000;
const PRUNED_AT_ONCE = 100;

interface StoredEntry {
  record: TaskRecord;
  readonly events: TaskEvent[];
}

/**
 * The steps of a task that was answered at once, in place of what follows from them: a dozen objects instead of forty. Most
 * are never looked at, and what survives collections is a tenth of such a task's cost.
 */
class AnsweredEntry implements Readonly<StoredEntry> {
  readonly #steps: TaskSteps;

  constructor(steps: TaskSteps) {
    this.#steps = steps;
  }

  get record(): TaskRecord {
    const step = this.#taken();
    return { ...this.#steps.terms, resumable: false, model: step.model };
  }

  get events(): TaskEvent[] {
    return this.#taken().events;
  }

  #taken(): { readonly model: TaskModel; readonly events: TaskEvent[] } {
    const { task, input } = this.#steps;
    const { model, events } = createTask(task);
    const step = stepTask(model, input);
    return { model: step.model, events: step.outcome === 'applied' ? [...events, ...step.events] : [...events] };
  }
}

/** Tasks of a node without a store. A task that has not ended is never pruned. */
export class MemoryTaskRecords implements TaskRecords {
  readonly #tasks = new Map<string, StoredEntry | AnsweredEntry>();
  readonly #pushes = new Map<string, Map<string, PushConfig>>();
  /** In the order of their ends. */
  readonly #ended = new Set<string>();

  save(record: TaskRecord, events: readonly TaskEvent[], steps?: TaskSteps): Promise<void> | undefined {
    const { id, status } = record.model.task;
    const known = this.#tasks.get(id);
    if (steps) this.#tasks.set(id, new AnsweredEntry(steps));
    else if (known && !(known instanceof AnsweredEntry)) {
      known.record = record;
      known.events.push(...events);
    } else this.#tasks.set(id, { record, events: [...(known?.events ?? []), ...events] });
    if (isTerminal(status.state)) this.#ended.add(id);
    if (this.#tasks.size > CAPACITY) this.#prune();
    return undefined;
  }

  find(id: string): TaskRecord | undefined {
    return this.#tasks.get(id)?.record;
  }

  async load(id: string): Promise<TaskRecord | undefined> {
    return this.find(id);
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

  /** Sessions are only kept for restarts. */
  async saveSession(): Promise<void> {}

  async savePush(taskId: string, config: PushConfig): Promise<void> {
    if (!this.#tasks.has(taskId)) return;
    const pushes = this.#pushes.get(taskId) ?? new Map<string, PushConfig>();
    this.#pushes.set(taskId, pushes.set(config.id, config));
  }

  async removePush(taskId: string, id: string): Promise<void> {
    this.#pushes.get(taskId)?.delete(id);
  }

  async pushes(taskId: string): Promise<{ config: PushConfig; told: undefined }[]> {
    return [...(this.#pushes.get(taskId)?.values() ?? [])].map((config) => ({ config, told: undefined }));
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
      this.#pushes.delete(id);
    }
  }
}

interface KeptPush {
  readonly config: PushConfig;
  readonly told?: number;
  readonly over?: boolean;
}

/** Bounds the memory of one list. */
const MAX_LISTED = 10_000;
const SESSION_NAME_CHARS = 50;

export class StoreTaskRecords implements TaskRecords {
  readonly #store: Store;
  readonly #profiles: Profiles;

  constructor(store: Store, profiles: Profiles) {
    this.#store = store;
    this.#profiles = profiles;
  }

  save(record: TaskRecord, events: readonly TaskEvent[]): Promise<void> {
    const { id } = record.model.task;
    const writes: Write[] = [taskTable.put(toRow(record))];
    const [first] = events;
    if (first) {
      const row = { task: id, sequence: first.sequence, events: JSON.stringify(events) };
      writes.push(taskEvents.insert(row));
      // The session is created with the task.
      if (first.sequence === 1) writes.push(sessions.insert(this.#session(record)));
    }
    return this.#store.write(writes);
  }

  async load(id: string): Promise<TaskRecord | undefined> {
    const [row] = await this.#store.read(taskTable, { where: { id } });
    return row && fromRow(row);
  }

  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    const rows = await this.#store.read(taskTable, { ...beginningWith('id', prefix), orderBy: 'id', limit });
    return rows.map(({ id }) => id);
  }

  async eventsAfter(id: string, after: number): Promise<TaskEvent[]> {
    const rows = await this.#store.read(taskEvents, { where: { task: id }, orderBy: 'sequence' });
    const events = rows.flatMap((row) => JSON.parse(row.events) as TaskEvent[]);
    return events.filter(({ sequence }) => sequence > after);
  }

  async list(owner: string | undefined, request: ListTasksRequest, limit = MAX_LISTED): Promise<TaskRecord[]> {
    const rows = await this.#store.read(taskTable, {
      where: { ...(owner !== undefined && { owner }), ...(request.status && { state: request.status }) },
      orderBy: 'statusAt',
      descending: true,
      limit,
    });
    const { tenant } = request;
    const records = rows
      .filter(({ agent }) => tenant === undefined || agent === tenant)
      .map(fromRow)
      .filter(({ model }) => matchesFilter(model.task, request));
    return records.sort((a, b) => compareTasks(a.model.task, b.model.task));
  }

  async recentSends(limit: number): Promise<(Pick<TaskRecord, 'owner' | 'sendKey'> & { id: string })[]> {
    // Ids are in the order of their making.
    const rows = await this.#store.read(taskTable, { orderBy: 'id', descending: true, limit });
    return rows.map(({ id, owner, sendKey }) => ({ id, owner, sendKey })).reverse();
  }

  async unfinished(): Promise<TaskRecord[]> {
    const state = TASK_STATES.filter((one) => !isTerminal(one));
    return (await this.#store.read(taskTable, { where: { state } })).map(fromRow);
  }

  savePush(task: string, config: PushConfig, told?: number, over?: boolean): Promise<void> {
    const kept: KeptPush = { config, told, over };
    return this.#store.write([pushConfigs.put({ task, id: config.id, config: JSON.stringify(kept) })]);
  }

  removePush(task: string, id: string): Promise<void> {
    return this.#store.write([pushConfigs.delete({ task, id })]);
  }

  async pushes(task: string): Promise<{ config: PushConfig; told: number | undefined }[]> {
    const rows = await this.#store.read(pushConfigs, { where: { task } });
    return rows.map((row) => readPush(row.config)).map(({ config, told }) => ({ config, told }));
  }

  async pendingPushes(): Promise<{ taskId: string; config: PushConfig; told: number }[]> {
    const rows = await this.#store.read(pushConfigs);
    return rows.flatMap(({ task: taskId, config: text }) => {
      const { config, told, over } = readPush(text);
      return told === undefined || over ? [] : [{ taskId, config, told }];
    });
  }

  async saveSession(
    { id, projectId, agentId, name, initialPrompt, source }: Session,
    createdAt: number,
  ): Promise<void> {
    const row = { id, project: projectId, agent: agentId, name, prompt: initialPrompt, source, createdAt };
    await this.#store.write([sessions.insert(row)]);
  }

  #session({ agent, sessionId: id, createdAt, model }: TaskRecord) {
    const prompt = textOf(model.task.history?.[0]?.parts ?? []);
    const name = `A2A Task: ${cutText(prompt, SESSION_NAME_CHARS)}`;
    const project = this.#profiles.of(agent)?.defaultProjectId ?? null;
    return { id, project, agent, name, prompt, source: 'agent', createdAt };
  }
}

/** Earlier releases stored the configuration alone. */
function readPush(text: string): KeptPush {
  const kept = JSON.parse(text) as KeptPush | PushConfig;
  return 'url' in kept ? { config: kept } : kept;
}

type Rest = Omit<TaskModel, 'task'>;

function toRow({ owner, agent, sessionId, createdAt, sendKey, asked, resumable, model }: TaskRecord): TaskRow {
  const { task, ...rest } = model;
  return {
    id: task.id,
    owner,
    agent,
    session: sessionId,
    context: task.contextId,
    state: task.status.state,
    statusAt: model.at,
    createdAt,
    resumable: resumable ? 1 : 0,
    sendKey,
    document: JSON.stringify([task, rest, asked]),
  };
}

function fromRow({ owner, agent, session: sessionId, createdAt, sendKey, resumable, document }: TaskRow): TaskRecord {
  const [task, rest, asked] = JSON.parse(document) as [TaskModel['task'], Rest, SendFacts?];
  const model = { ...rest, task };
  return { owner, agent, sessionId, createdAt, sendKey, asked, resumable: resumable === 1, model };
}
