import type { Phase } from '../plans/loop-state.js';
import { countsOf, type RunNews, type RunView, type TaskView } from '../plans/run-news.js';
import { cutText } from '../runtime/text.js';
import { LiveArea } from './live-area.js';
import { type Output, oneLine } from './output.js';

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
    for (const line of lines) this.#output.line(oneLine(line));
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
        return [`${news.name} (${news.id}): ${countsText(countsOf(news.tasks))}`];
      }
      case 'task': {
        const { run: _, event: __, ...task } = news;
        this.#tasks.set(task.id, task);
        this.#progress.delete(task.id);
        const drawn = this.#area.live && (task.phase === 'waiting' || task.phase === 'validating');
        return drawn ? [] : [taskText(task)];
      }
      case 'progress': {
        const said = typeof news.value === 'string' ? news.value : JSON.stringify(news.value);
        this.#progress.set(news.id, said);
        return this.#area.live ? [] : [`${news.id}: … ${said}`];
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

export function runText({ id, name, status, agent, createdAt, updatedAt, tasks }: RunView): string {
  return [
    `${id}  ${name}: ${status}`,
    `agent      ${agent}`,
    `started    ${new Date(createdAt).toISOString()}`,
    `updated    ${new Date(updatedAt).toISOString()}`,
    ...tasks.map((task) => `  ${taskText(task)}${resultText(task)}`),
  ].join('\n');
}

/** The results of finished tasks, the counts, and the state of every other task. */
export function summaryText(
  { status, counts }: Extract<RunNews, { event: 'ended' }>,
  tasks: Iterable<TaskView>,
): string {
  const all = [...tasks];
  return [
    ...all.filter(({ phase }) => phase === 'done').map(({ id, result }) => `${id}:\n${indented(wholeText(result))}`),
    `${status}: ${countsText(counts)}`,
    ...all.filter(({ phase }) => phase !== 'done').map((task) => `  ${taskText(task)}`),
  ].join('\n');
}

function wholeText(result: unknown): string {
  if (result === undefined) return '(too large to show)';
  return typeof result === 'string' ? result : JSON.stringify(result, null, 2);
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
}

function countsText(counts: Readonly<Partial<Record<Phase, number>>>): string {
  return Object.entries(counts)
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
}

function resultText({ phase, result }: TaskView): string {
  if (phase !== 'done' || result === undefined) return '';
  return `  ${cutText(JSON.stringify(result), 120)}`;
}
