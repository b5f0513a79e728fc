import type { RunNews, TaskView } from '../plans/run-news.js';
import { countsOf } from '../plans/run-news.js';
import { LiveArea } from './live-area.js';
import { type Output, oneLine } from './output.js';
import { countsText, taskText } from './run-text.js';

const UNDER_WAY: ReadonlySet<string> = new Set(['running', 'validating', 'pausing', 'escalating']);
/** Rows of what is under way that are drawn at most. */
const MAX_ROWS = 15;

/**
 * Shows a run as it goes: on a terminal, what is under way is redrawn below what has happened; elsewhere each piece of
 * news is a line, for programs as JSON.
 */
export class RunBoard {
  readonly #output: Output;
  readonly #tasks = new Map<string, TaskView>();
  /** What was last said of each task that is under way. */
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

  /** What is to be said of it, for people. */
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
