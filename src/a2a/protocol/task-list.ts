import { PAGE_SIZE } from './limits.js';
import { refuse } from './reading.js';
import type { ListTasksRequest, ListTasksResponse, Task } from './types.js';

/** Which tasks a list shows, in which order, and where its next page begins. */

/** Does a task pass the request's filters? The time is inclusive. Who may see it is another question. */
export function matchesFilter(task: Task, { contextId, status, statusTimestampAfter }: ListTasksRequest): boolean {
  if (contextId !== undefined && task.contextId !== contextId) return false;
  if (status !== undefined && task.status.state !== status) return false;
  // Both are UTC with milliseconds, so that their order is that of their letters.
  return statusTimestampAfter === undefined || timeOf(task) >= statusTimestampAfter;
}

/** The latest status first; tasks of the same moment by their ids. */
export function compareTasks(a: Task, b: Task): number {
  return order(timeOf(b), timeOf(a)) || order(b.id, a.id);
}

/**
 * A page of tasks that are in order and have passed the filters. A cursor is a place in the order, not a task: it
 * stays where it is when the task it was made from moves on or is forgotten.
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

/** A task as its reader asked for it: the newest messages of its history, or none; with or without its artifacts. */
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

/** A place in the order of a list. */
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
    // Not one of ours, as below.
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
