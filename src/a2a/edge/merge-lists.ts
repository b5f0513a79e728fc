import { PAGE_SIZE } from '../protocol/limits.js';
import { compareTasks, placeOf, viewTask, writePageToken } from '../protocol/task-list.js';
import type { ListTasksRequest, ListTasksResponse, Task } from '../protocol/types.js';

/**
 * One page of the lists of several nodes, each in the order of `compareTasks` and after the same place. A list that goes on
 * is known up to its last task only, so no page goes beyond the first of these ends; the next one begins there.
 */
export function mergeLists(
  lists: readonly ListTasksResponse[],
  { pageSize = PAGE_SIZE.usual }: Pick<ListTasksRequest, 'pageSize'>,
): ListTasksResponse {
  const goesOn = lists.filter(({ nextPageToken, tasks }) => nextPageToken !== '' && tasks.length > 0);
  const ends = goesOn.map(({ tasks }) => tasks.at(-1)!).sort(compareTasks);
  const all = lists.flatMap(({ tasks }) => tasks).sort(compareTasks);
  const known = ends[0] ? all.filter((task) => compareTasks(task, ends[0]!) <= 0) : all;
  const tasks = known.slice(0, pageSize);
  const more = goesOn.length > 0 || tasks.length < all.length;
  return {
    tasks,
    nextPageToken: more && tasks.length > 0 ? writePageToken(placeOf(tasks.at(-1)!)) : '',
    pageSize,
    totalSize: lists.reduce((sum, { totalSize }) => sum + totalSize, 0),
  };
}

/** As many tasks of a page as fit, and at least one, without its history and artifacts if it is too long alone. */
export function fitList(list: ListTasksResponse, maxChars: number): ListTasksResponse {
  const tasks: Task[] = [];
  let room = maxChars;
  for (const task of list.tasks) {
    const chars = JSON.stringify(task).length;
    if (chars > room && tasks.length > 0) break;
    tasks.push(chars > room ? viewTask(task, { historyLength: 0, includeArtifacts: false }) : task);
    room -= chars;
  }
  if (tasks.length === list.tasks.length) return { ...list, tasks };
  return { ...list, tasks, nextPageToken: writePageToken(placeOf(tasks.at(-1)!)) };
}
