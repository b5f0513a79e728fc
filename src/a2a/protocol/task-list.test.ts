import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writeTimestamp } from './reading.js';
import { compareTasks, matchesFilter, pageOf, readPageToken, viewTask } from './task-list.js';
import type { Message, Task } from './types.js';

function taskAt(ms: number, id: string): Task {
  return { id, contextId: 'c', status: { state: 'TASK_STATE_WORKING', timestamp: writeTimestamp(ms) } };
}

describe('a list of tasks', () => {
  it('begins at the very moment that is asked for [A2A-1.9.11 A2A-2.5.4]', () => {
    const task = taskAt(1_000, 't');
    const passes = (ms: number) => matchesFilter(task, { statusTimestampAfter: writeTimestamp(ms) });
    expect([passes(999), passes(1_000), passes(1_001)]).toEqual([true, true, false]);
    expect(matchesFilter(task, { contextId: 'd' })).toBe(false);
    expect(matchesFilter(task, { status: 'TASK_STATE_FAILED' })).toBe(false);
    expect(matchesFilter(task, { status: 'TASK_STATE_WORKING', contextId: 'c' })).toBe(true);
  });

  it('has the latest status first, and every task once', () => {
    const tasks = fc.uniqueArray(fc.tuple(fc.nat(5), fc.stringMatching(/^[a-e]{1,4}$/)), { selector: ([, id]) => id });
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 4 }), (made, pageSize) => {
        const sorted = made.map(([ms, id]) => taskAt(ms, id)).sort(compareTasks);
        const seen: Task[] = [];
        let pageToken: string | undefined;
        do {
          const page = pageOf(sorted, { pageSize, ...(pageToken === undefined ? {} : { pageToken }) });
          expect(page).toMatchObject({ pageSize, totalSize: sorted.length });
          seen.push(...page.tasks);
          pageToken = page.nextPageToken || undefined;
        } while (pageToken !== undefined);
        expect(seen).toEqual(sorted);
      }),
    );
  });

  it('goes on where it was when the task at its cursor has changed or is gone [A2A-2.5.5]', () => {
    const tasks = [taskAt(5, 'e'), taskAt(4, 'd'), taskAt(3, 'c'), taskAt(2, 'b')];
    const { nextPageToken } = pageOf(tasks, { pageSize: 2 });
    const changed = [taskAt(9, 'd'), taskAt(5, 'e'), taskAt(3, 'c'), taskAt(2, 'b')];
    const gone = [taskAt(5, 'e'), taskAt(3, 'c'), taskAt(2, 'b')];
    for (const now of [tasks, changed, gone]) {
      const page = pageOf(now, { pageSize: 2, pageToken: nextPageToken });
      expect([page.tasks.map(({ id }) => id), page.nextPageToken]).toEqual([['c', 'b'], '']);
    }
  });

  it('may be empty, and always says where it ends [A2A-1.9.9]', () => {
    expect(pageOf([], {})).toEqual({ tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 });
  });

  it('takes no token but its own', () => {
    for (const token of [
      'x',
      '',
      Buffer.from('[1,2]').toString('base64url'),
      Buffer.from('{}').toString('base64url'),
    ]) {
      expect(() => readPageToken(token)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }));
    }
  });
});

describe('a view of a task', () => {
  const message = (messageId: string): Message => ({ messageId, role: 'ROLE_USER', parts: [{ text: 'x' }] });
  const task: Task = {
    ...taskAt(1, 't'),
    history: [message('1'), message('2'), message('3')],
    artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }],
  };

  it('has the newest messages, or none', () => {
    const history = (historyLength: number | undefined) =>
      viewTask(task, historyLength === undefined ? {} : { historyLength }).history?.map(({ messageId }) => messageId);
    expect([history(undefined), history(5), history(2)]).toEqual([
      ['1', '2', '3'],
      ['1', '2', '3'],
      ['2', '3'],
    ]);
    expect('history' in viewTask(task, { historyLength: 0 })).toBe(false);
  });

  it('has no artifacts in a list, unless they are asked for', () => {
    expect('artifacts' in pageOf([task], {}).tasks[0]!).toBe(false);
    expect(pageOf([task], { includeArtifacts: true }).tasks[0]).toBe(task);
    expect(viewTask(task, {})).toBe(task);
  });
});
