import { cutText } from '../../runtime/text.js';
import { beginningWith, type Store, type Write } from '../../store/store.js';
import type { TaskRow } from '../../store/tables.js';
import type { SendFacts } from '../protocol/same-send.js';
import { textOf } from '../protocol/simple.js';
import { compareTasks, matchesFilter } from '../protocol/task-list.js';
import type { TaskEvent, TaskModel } from '../protocol/task-machine.js';
import { isTerminal, TASK_STATES } from '../protocol/task-states.js';
import type { ListTasksRequest } from '../protocol/types.js';
import type { Session } from './process-manager.js';
import type { Profiles } from './profiles.js';
import type { PushConfig, TaskRecord, TaskRecords } from './task-records.js';

/** A webhook as it is kept. */
interface KeptPush {
  readonly config: PushConfig;
  readonly told?: number | undefined;
  readonly over?: boolean | undefined;
}

/** The latest of one caller's tasks that a list is made from. */
const MAX_LISTED = 10_000;
const SESSION_NAME_CHARS = 50;

/** Tasks on disk: what is saved outlives the process. */
export class StoreTaskRecords implements TaskRecords {
  readonly #store: Store;
  readonly #profiles: Profiles;

  constructor(store: Store, profiles: Profiles) {
    this.#store = store;
    this.#profiles = profiles;
  }

  save(record: TaskRecord, events: readonly TaskEvent[]): Promise<void> {
    const { id } = record.model.task;
    const writes: Write[] = [{ put: 'tasks', row: toRow(record) }];
    const [first] = events;
    if (first) {
      const row = { task: id, sequence: first.sequence, events: JSON.stringify(events) };
      writes.push({ insert: 'taskEvents', row });
      // A task begins with its first event, and its session with it.
      if (first.sequence === 1) writes.push({ insert: 'sessions', row: this.#session(record) });
    }
    return this.#store.write(writes);
  }

  async load(id: string): Promise<TaskRecord | undefined> {
    const [row] = await this.#store.read({ from: 'tasks', where: { id } });
    return row && fromRow(row);
  }

  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    const rows = await this.#store.read({ from: 'tasks', ...beginningWith('id', prefix), orderBy: 'id', limit });
    return rows.map(({ id }) => id);
  }

  async eventsAfter(id: string, after: number): Promise<TaskEvent[]> {
    const rows = await this.#store.read({ from: 'taskEvents', where: { task: id }, orderBy: 'sequence' });
    const events = rows.flatMap((row) => JSON.parse(row.events) as TaskEvent[]);
    return events.filter(({ sequence }) => sequence > after);
  }

  async list(owner: string | undefined, request: ListTasksRequest): Promise<TaskRecord[]> {
    const rows = await this.#store.read({
      from: 'tasks',
      where: { ...(owner !== undefined && { owner }), ...(request.status && { state: request.status }) },
      orderBy: 'statusAt',
      descending: true,
      limit: MAX_LISTED,
    });
    const records = rows.map(fromRow).filter(({ model }) => matchesFilter(model.task, request));
    return records.sort((a, b) => compareTasks(a.model.task, b.model.task));
  }

  async recentSends(limit: number): Promise<(Pick<TaskRecord, 'owner' | 'sendKey'> & { id: string })[]> {
    // Ids are in the order of their making.
    const rows = await this.#store.read({ from: 'tasks', orderBy: 'id', descending: true, limit });
    return rows.map(({ id, owner, sendKey }) => ({ id, owner, sendKey })).reverse();
  }

  async unfinished(): Promise<TaskRecord[]> {
    const state = TASK_STATES.filter((one) => !isTerminal(one));
    return (await this.#store.read({ from: 'tasks', where: { state } })).map(fromRow);
  }

  savePush(task: string, config: PushConfig, told?: number, over?: boolean): Promise<void> {
    const kept: KeptPush = { config, told, over };
    return this.#store.write([{ put: 'pushConfigs', row: { task, id: config.id, config: JSON.stringify(kept) } }]);
  }

  removePush(task: string, id: string): Promise<void> {
    return this.#store.write([{ delete: 'pushConfigs', where: { task, id } }]);
  }

  async pushes(task: string): Promise<{ config: PushConfig; told: number | undefined }[]> {
    const rows = await this.#store.read({ from: 'pushConfigs', where: { task } });
    return rows.map((row) => readPush(row.config)).map(({ config, told }) => ({ config, told }));
  }

  async pendingPushes(): Promise<{ taskId: string; config: PushConfig; told: number }[]> {
    const rows = await this.#store.read({ from: 'pushConfigs' });
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
    await this.#store.write([{ insert: 'sessions', row }]);
  }

  #session({ agent, sessionId: id, createdAt, model }: TaskRecord) {
    const prompt = textOf(model.task.history?.[0]?.parts ?? []);
    const name = `A2A Task: ${cutText(prompt, SESSION_NAME_CHARS)}`;
    const project = this.#profiles.of(agent)?.defaultProjectId ?? null;
    return { id, project, agent, name, prompt, source: 'agent', createdAt };
  }
}

/** Releases before progress was recorded kept the configuration alone. */
function readPush(text: string): KeptPush {
  const kept = JSON.parse(text) as KeptPush | PushConfig;
  return 'url' in kept ? { config: kept } : kept;
}

/** What of a model is not in its task. */
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
