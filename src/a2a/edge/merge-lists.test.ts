import { describe, expect, it } from 'vitest';
import { compareTasks, pageOf } from '../protocol/task-list.js';
import type { ListTasksResponse, Task } from '../protocol/types.js';
import { fitList, mergeLists } from './merge-lists.js';

function task(id: string, second: number, text = ''): Task {
  const timestamp = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
  const history = text === '' ? [] : [{ messageId: id, role: 'ROLE_USER' as const, parts: [{ text }] }];
  return { id, contextId: 'c', status: { state: 'TASK_STATE_COMPLETED', timestamp }, history };
}

const sorted = (tasks: readonly Task[]) => [...tasks].sort(compareTasks);

describe('merged lists of tasks', () => {
  it('give each task once, in order, whatever each node sends at a time [EG.4]', () => {
    // Many have the same time, so that the order by id matters.
    const nodes = ['a', 'b', 'c'].map((node, place) =>
      sorted(Array.from({ length: 7 + 5 * place }, (_, index) => task(`${index}.${node}`, (index * (place + 1)) % 5))),
    );
    for (const pageSize of [1, 2, 3, 5, 100]) {
      for (const chars of [1, 400, 100_000]) {
        const seen: string[] = [];
        let pageToken: string | undefined;
        do {
          const request = { pageSize, ...(pageToken && { pageToken }) };
          const page = mergeLists(
            nodes.map((tasks) => fitList(pageOf(tasks, request), chars)),
            request,
          );
          expect(page.tasks.length).toBeLessThanOrEqual(pageSize);
          expect(page.totalSize).toBe(36);
          seen.push(...page.tasks.map(({ id }) => id));
          pageToken = page.nextPageToken;
        } while (pageToken !== '');
        expect(seen).toEqual(sorted(nodes.flat()).map(({ id }) => id));
      }
    }
  });

  it('go on rightly when a node comes or goes between two pages [EG.4]', () => {
    const [a, b] = ['a', 'b'].map((node) =>
      sorted(Array.from({ length: 6 }, (_, index) => task(`${index}.${node}`, index))),
    );
    const page = (lists: readonly (readonly Task[])[], pageToken?: string): ListTasksResponse => {
      const request = { pageSize: 4, ...(pageToken && { pageToken }) };
      return mergeLists(
        lists.map((tasks) => pageOf(tasks, request)),
        request,
      );
    };
    const first = page([a!, b!]);
    const alone = page([a!], first.nextPageToken);
    expect(alone.tasks.map(({ id }) => id)).toEqual(['3.a', '2.a', '1.a', '0.a']);
    const back = page([a!, b!], first.nextPageToken);
    expect(back.tasks.map(({ id }) => id)).toEqual(['3.b', '3.a', '2.b', '2.a']);
  });

  it('shorten a task that does not fit alone, and keep the place of those that are left out [EG.10]', () => {
    const tasks = sorted([task('1', 3, 'x'.repeat(500)), task('2', 2), task('3', 1)]);
    const fitted = fitList(pageOf(tasks, {}), 150);
    expect(fitted.tasks.map(({ id, history }) => [id, history])).toEqual([['1', undefined]]);
    const rest = pageOf(tasks, { pageToken: fitted.nextPageToken });
    expect(rest.tasks.map(({ id }) => id)).toEqual(['2', '3']);
  });
});
