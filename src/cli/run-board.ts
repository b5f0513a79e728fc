import { describeValue } from '../plans/answers.js';
import { countsOf, endOf, type RunNews, type RunView, type TaskView } from '../plans/run-news.js';
import { cutText } from '../runtime/text.js';
import { branchIn, describeBranch } from '../work/branch-report.js';
import { LiveArea } from './live-area.js';
import { type Output, oneLine, printable } from './output.js';
import { countsText, durationText, usageText } from './run-text.js';

const UNDER_WAY: ReadonlySet<string> = new Set(['running', 'validating', 'pausing', 'escalating']);
/** More tasks in progress are not drawn. */
const MAX_ROWS = 15;

/**
 * Shows the events of a run. On a terminal the tasks in progress are redrawn below the finished ones; elsewhere each
 * event is a line, as JSON for programs.
 */
export class RunBoard {
  readonly #output: Output;
  readonly #tasks = new Map<string, TaskView>();
  /** The last progress of each task. */
  readonly #progress = new Map<string, string>();
  readonly #area: LiveArea;

  constructor(output: Output) {
    this.#output = output;
    this.#area = new LiveArea(output);
  }

  get tasks(): Iterable<TaskView> {
    return this.#tasks.values();
  }

  take(news: RunNews): void {
    const lines = this.#learn(news);
    if (this.#output.json) {
      this.#output.line(JSON.stringify(news));
      return;
    }
    this.#area.erase();
    for (const line of lines) this.#output.line(line);
    if (news.event !== 'ended') this.#draw();
  }

  close(): void {
    this.#area.erase();
  }

  /** Takes an event in; returns lines for people. */
  #learn(news: RunNews): string[] {
    switch (news.event) {
      case 'run': {
        for (const task of news.tasks) this.#tasks.set(task.id, task);
        const done = news.tasks.filter(({ phase }) => phase === 'done');
        const counts = countsText(countsOf(news.tasks));
        return [oneLine(`${news.name} (${news.id}): ${counts}`), ...done.flatMap((task) => taskLines(task, news.id))];
      }
      case 'task': {
        const { run, event: _, ...task } = news;
        this.#tasks.set(task.id, task);
        this.#progress.delete(task.id);
        const drawn = this.#area.live && (task.phase === 'waiting' || task.phase === 'validating');
        return drawn ? [] : taskLines(task, run);
      }
      case 'progress': {
        const branch = branchIn(news.value);
        const said = branch
          ? describeBranch(branch)
          : typeof news.value === 'string'
            ? news.value
            : JSON.stringify(news.value);
        this.#progress.set(news.id, said);
        return this.#area.live ? [] : [oneLine(`${news.id}: … ${said}`)];
      }
      case 'ended':
        return [];
    }
  }

  #draw(): void {
    const active = [...this.#tasks.values()].filter(({ phase }) => UNDER_WAY.has(phase));
    const rows = active.slice(0, MAX_ROWS).map((task) => {
      const said = this.#progress.get(task.id);
      return `  ${taskText(task)}${said === undefined ? '' : ` … ${said}`}`;
    });
    this.#area.draw([`── ${countsText(countsOf(this.#tasks.values()))}`, ...rows]);
  }
}

type TaskLine = Pick<TaskView, 'id' | 'phase' | 'attempt' | 'by' | 'reason'>;

/** A task on one line: `api: running, attempt 2 (the result does not fit …)`. */
function taskText({ id, phase, attempt, by, reason }: TaskLine): string {
  const often = attempt > 1 ? `, attempt ${attempt}` : '';
  const who = by === null || phase === 'running' ? '' : ` by ${by}`;
  const why = reason === null ? '' : ` (${reason.code}: ${reason.message.split('\n')[0]})`;
  return `${id}: ${phase}${phase === 'done' ? who : ''}${often}${phase === 'done' ? '' : why}`;
}

/** A task and, if it is done, its result. */
function taskLines(task: TaskView, run: string): string[] {
  const { phase, result, branch } = task;
  return [
    oneLine(taskText(task)),
    ...(phase === 'done' && branch ? [oneLine(`  ${describeBranch(branch)}`)] : []),
    ...(phase === 'done' ? [printable(indented(shownText(result, run)))] : []),
  ];
}

export function runText(view: RunView): string {
  const { id, name, status, agent, createdAt, updatedAt, tasks } = view;
  const { usage } = endOf(view);
  return [
    `${id}  ${name}: ${status}`,
    `agent      ${agent}`,
    `started    ${new Date(createdAt).toISOString()}`,
    `updated    ${new Date(updatedAt).toISOString()}`,
    ...(usage ? [`usage      ${usageText(usage)}`] : []),
    ...tasks.flatMap((task) => [
      `  ${taskText(task)}${resultText(task)}`,
      ...(task.branch ? [`    ${oneLine(describeBranch(task.branch))}`] : []),
    ]),
  ].join('\n');
}

/** The counts, the time, the usage, and the state of every task that is not done. */
export function summaryText(
  { status, counts, durationMs, usage }: Extract<RunNews, { event: 'ended' }>,
  tasks: Iterable<TaskView>,
): string {
  const open = [...tasks].filter(({ phase }) => phase !== 'done');
  return [
    `${status}: ${countsText(counts)} in ${durationText(durationMs)}`,
    ...open.map((task) => `  ${taskText(task)}`),
    ...(usage ? [`usage: ${usageText(usage)}`] : []),
  ].join('\n');
}

/** Longer results are cut on a terminal. */
const MAX_SHOWN_CHARS = 10_000;

function shownText(result: unknown, run: string): string {
  const text = result === undefined ? undefined : describeValue(result);
  if (text !== undefined && text.length <= MAX_SHOWN_CHARS) return text;
  const start = text === undefined ? '' : `${cutText(text, MAX_SHOWN_CHARS)}\n`;
  return `${start}… (too long to show; all of it: ecliptic plan report ${run} --out DIR)`;
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
}

function resultText({ phase, result }: TaskView): string {
  if (phase !== 'done' || result === undefined) return '';
  return `  ${cutText(JSON.stringify(result), 120)}`;
}
