import { PAGE_SIZE } from './limits.js';
import { refuse } from './reading.js';
import type { ListTasksRequest, ListTasksResponse, Task } from './types.js';

/** The filter, order and pages of a list of tasks. */

/** The time is inclusive. */
export function matchesFilter(task: Task, { contextId, status, statusTimestampAfter }: ListTasksRequest): boolean {
  if (contextId !== undefined && task.contextId !== contextId) return false;
  if (status !== undefined && task.status.state !== status) return false;
  // Both are UTC with milliseconds, so that text order is time order.
  return statusTimestampAfter === undefined || timeOf(task) >= statusTimestampAfter;
}

/** The latest status first, then by id. */
export function compareTasks(a: Task, b: Task): number {
  return order(timeOf(b), timeOf(a)) || order(b.id, a.id);
}

/**
 * One page of filtered, ordered tasks. A cursor is a position in the order, so it stays valid when its task changes or
 * is pruned.
 */
export function pageOf(tasks: readonly Task[], request: ListTasksRequest): ListTasksResponse {
  const { pageSize = PAGE_SIZE.usual, pageToken } = request;
  const after = pageToken === undefined ? undefined : readPageToken(pageToken);
  const start = after === undefined ? 0 : firstAfter(tasks, after);
  const page = tasks.slice(start, start + pageSize);
  const more = start + page.length < tasks.length;
  return {
    tasks: page.map((task) => viewTask(task, { ...request, includeArtifacts: request.includeArtifacts ?? false })),
    nextPageToken: more ? writePageToken(placeOf(page.at(-1)!)) : '',
    pageSize,
    totalSize: tasks.length,
  };
}

/** The task with the newest `historyLength` messages, with or without artifacts. */
export function viewTask(
  task: Task,
  { historyLength, includeArtifacts = true }: Pick<ListTasksRequest, 'historyLength' | 'includeArtifacts'>,
): Task {
  const trims = historyLength !== undefined && (task.history?.length ?? 0) > historyLength;
  if (!trims && historyLength !== 0 && (includeArtifacts || task.artifacts === undefined)) return task;
  const { history, artifacts, ...others } = task;
  return {
    ...others,
    ...(history === undefined || historyLength === 0
      ? {}
      : { history: trims ? history.slice(-historyLength) : history }),
    ...(artifacts === undefined || !includeArtifacts ? {} : { artifacts }),
  };
}

export interface ListPlace {
  readonly time: string;
  readonly id: string;
}

export function placeOf(task: Task): ListPlace {
  return { time: timeOf(task), id: task.id };
}

export function writePageToken({ time, id }: ListPlace): string {
  return Buffer.from(JSON.stringify([time, id])).toString('base64url');
}

export function readPageToken(token: string): ListPlace {
  try {
    const value: unknown = JSON.parse(Buffer.from(token, 'base64url').toString());
    if (Array.isArray(value) && value.length === 2 && value.every((entry) => typeof entry === 'string')) {
      const [time, id] = value as [string, string];
      return { time, id };
    }
  } catch {
    // Refused below.
  }
  refuse('pageToken', 'was not given by this agent');
}

function firstAfter(tasks: readonly Task[], place: ListPlace): number {
  const index = tasks.findIndex((task) => {
    const time = timeOf(task);
    return time < place.time || (time === place.time && task.id < place.id);
  });
  return index < 0 ? tasks.length : index;
}

function timeOf(task: Task): string {
  return task.status.timestamp ?? '';
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
