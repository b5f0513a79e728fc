import type { SendFacts } from '../protocol/same-send.js';
import type { TaskEvent, TaskModel } from '../protocol/task-machine.js';
import type { ListTasksRequest, TaskPushNotificationConfig } from '../protocol/types.js';
import type { Session } from './process-manager.js';

export type PushConfig = TaskPushNotificationConfig & { readonly id: string };

/** A task as it is kept: what it is, whose it is, who works on it. */
export interface TaskRecord {
  /** The caller that it belongs to. */
  readonly owner: string;
  /** The agent that works on it. */
  readonly agent: string;
  readonly sessionId: string;
  readonly createdAt: number;
  /** What its sender called the sending: the same again is the same task. */
  readonly sendKey: string;
  /** What the send asked for; tasks of releases before this was recorded have none. */
  readonly asked?: SendFacts | undefined;
  /** May the agent be given it again after a restart? */
  readonly resumable: boolean;
  readonly model: TaskModel;
}

/** Where tasks are kept. What `save` resolves for is on disk; without one it is kept at once, and there is nothing to wait for. */
export interface TaskRecords {
  save(record: TaskRecord, events: readonly TaskEvent[]): Promise<void> | undefined;
  load(id: string): Promise<TaskRecord | undefined>;
  /** Ids of tasks that begin with this, and are longer. */
  idsBeginning(prefix: string, limit: number): Promise<string[]>;
  /** Events of a task after that number, in order. */
  eventsAfter(id: string, sequence: number): Promise<TaskEvent[]>;
  /**
   * A caller's tasks (without one, everybody's), of one agent where a tenant is named, that pass the request's filters,
   * the latest status first.
   */
  list(owner: string | undefined, request: ListTasksRequest): Promise<TaskRecord[]>;
  /** The latest sends, the oldest first. */
  recentSends(limit: number): Promise<(Pick<TaskRecord, 'owner' | 'sendKey'> & { id: string })[]>;
  /** Tasks that had not ended. */
  unfinished(): Promise<TaskRecord[]>;
  /** A session that belongs to no task of these. */
  saveSession(session: Session, createdAt: number): Promise<void>;
  /** Saves a webhook, with the number of the last event that it was told; `over` where the task has no more for it. */
  savePush(taskId: string, config: PushConfig, told?: number, over?: boolean): Promise<void>;
  removePush(taskId: string, id: string): Promise<void>;
  pushes(taskId: string): Promise<{ readonly config: PushConfig; readonly told: number | undefined }[]>;
  /** Webhooks of an earlier run that may have events to hear of yet. */
  pendingPushes(): Promise<{ readonly taskId: string; readonly config: PushConfig; readonly told: number }[]>;
}
