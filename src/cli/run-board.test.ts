import { afterEach, describe, expect, it, vi } from 'vitest';
import type { RunNews, TaskView } from '../plans/run-news.js';
import { Output } from './output.js';
import { RunBoard, summaryText } from './run-board.js';

const task = (id: string, more: Partial<TaskView> = {}): TaskView => ({
  id,
  phase: 'waiting',
  attempt: 0,
  by: null,
  reason: null,
  since: 0,
  ...more,
});

const NEWS: RunNews[] = [
  {
    event: 'run',
    id: 'R1',
    key: 'k',
    name: 'release',
    agent: 'sun',
    status: 'running',
    createdAt: 0,
    startedAt: 0,
    updatedAt: 0,
    tasks: [task('api', { phase: 'running', attempt: 1 }), task('ui')],
  },
  { event: 'progress', run: 'R1', id: 'api', by: 'mars', value: 'half\u001b[2Jway' },
  {
    event: 'task',
    run: 'R1',
    ...task('api', { phase: 'done', attempt: 1, by: 'mars', result: 'half\u001b[2Jway\n  done' }),
  },
  { event: 'task', run: 'R1', ...task('ui', { phase: 'running', attempt: 1 }) },
  {
    event: 'task',
    run: 'R1',
    ...task('ui', { phase: 'escalated', attempt: 2, reason: { code: 'RESULT_REFUSED', message: 'too\nlong' } }),
  },
  { event: 'ended', run: 'R1', status: 'escalated', counts: { done: 1, escalated: 1 }, durationMs: 1_500 },
];

afterEach(() => {
  vi.restoreAllMocks();
});

/** What is written while the news come, on a terminal or not. */
function show(json: boolean, terminal: boolean, all = NEWS): string {
  let written = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written += text;
    return true;
  });
  const before = Object.getOwnPropertyDescriptor(process.stdout, 'isTTY');
  Object.defineProperty(process.stdout, 'isTTY', { value: terminal, configurable: true });
  try {
    const board = new RunBoard(new Output(json, { NO_COLOR: '1' }));
    for (const news of all) board.take(news);
    board.close();
  } finally {
    if (before) Object.defineProperty(process.stdout, 'isTTY', before);
    else Reflect.deleteProperty(process.stdout, 'isTTY');
  }
  return written;
}

describe('what is shown of a run [RL10]', () => {
  it('is a line for each piece of news', () => {
    expect(show(false, false).trim().split('\n')).toEqual([
      'release (R1): 1 running, 1 waiting',
      'api: … half\ufffd[2Jway',
      'api: done by mars',
      '  half\ufffd[2Jway',
      '    done',
      'ui: running',
      'ui: escalated, attempt 2 (RESULT_REFUSED: too)',
    ]);
  });

  it('ends with counts, time, usage, and the tasks that are not done [WK.P1]', () => {
    const end = NEWS.at(-1) as Extract<RunNews, { event: 'ended' }>;
    const usage = { inputTokens: 12_345, outputTokens: 67, modelCalls: 3, costUsd: 0.25 };
    const tasks = [task('api', { phase: 'done' }), task('ui', { phase: 'escalated', attempt: 2 })];
    expect(summaryText({ ...end, usage }, tasks).split('\n')).toEqual([
      'escalated: 1 done, 1 escalated in 1.5 s',
      '  ui: escalated, attempt 2',
      'usage: 12,345 input and 67 output tokens, 3 model calls, $0.2500',
    ]);
  });

  it('is a result that is too long up to a limit, and the command that gives all of it [WK.P1]', () => {
    const result = 'x'.repeat(50_000);
    const long: RunNews = { event: 'task', run: 'R1', ...task('api', { phase: 'done', by: 'mars', result }) };
    const shown = show(false, false, [long]);
    expect(shown.length).toBeLessThan(11_000);
    expect(shown).toContain('ecliptic plan report R1 --out DIR');
  });

  it('is each event as JSON for programs, on a terminal too', () => {
    const lines = show(true, true).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(JSON.parse(JSON.stringify(NEWS)));
  });

  it('is redrawn below what has happened on a terminal', () => {
    const screen: string[] = [''];
    const text = show(false, true);
    // As a terminal would: up, and everything below gone.
    for (const part of text.replaceAll('\u001b', '').split(/(\[\d+A\[J|\n)/)) {
      const up = /^\[(\d+)A/.exec(part)?.[1];
      if (up !== undefined) screen.splice(screen.length - 1 - Number(up), Number(up) + 1, '');
      else if (part === '\n') screen.push('');
      else screen[screen.length - 1] += part;
    }
    expect(text).toContain('── 1 running, 1 waiting\n  api: running … half\ufffd[2Jway\n');
    expect(screen).toEqual([
      'release (R1): 1 running, 1 waiting',
      'api: done by mars',
      '  half\ufffd[2Jway',
      '    done',
      'ui: running',
      'ui: escalated, attempt 2 (RESULT_REFUSED: too)',
      '',
    ]);
  });
});
