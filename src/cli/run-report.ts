import type { Usage } from '../agent/usage.js';
import type { ControlClient } from '../node/control/client.js';
import { describeValue } from '../plans/answers.js';
import type { Phase, Reason, RunStatus } from '../plans/loop-state.js';
import { asData } from '../plans/questions.js';
import { countsOf, endOf, type RunNews, type RunView, usageOf } from '../plans/run-news.js';
import type { TaskDetail } from '../plans/run-report.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { type BranchReport, describeBranch } from '../work/branch-report.js';
import { oneLine, printable } from './output.js';
import type { ReportFolder } from './report-folder.js';
import { countsText, durationText, usageText } from './run-text.js';

/** The content of `report.json`. */
export interface RunReport {
  readonly format: 'ecliptic-run-report';
  readonly version: 1;
  readonly run: string;
  readonly plan: string;
  readonly description?: string;
  /** The agent that handed out the tasks. */
  readonly agent: string;
  readonly status: RunStatus;
  /** Is every task done? */
  readonly complete: boolean;
  /** Why the report may be out of date: its writer lost the node. */
  readonly interrupted?: string;
  readonly startedAt: string;
  readonly updatedAt: string;
  readonly durationMs: number;
  readonly counts: Readonly<Partial<Record<Phase, number>>>;
  readonly usage: Usage | null;
  readonly tasks: readonly TaskReport[];
}

interface TaskReport {
  readonly id: string;
  readonly description?: string;
  readonly state: Phase;
  readonly agent: string | null;
  /** 0: done in an earlier run. */
  readonly attempts: number;
  /** From the first attempt to the end; null while it is open, and if it was done in an earlier run. */
  readonly durationMs: number | null;
  readonly feedback: readonly string[];
  /** Why it is not done. */
  readonly reason: Reason | null;
  readonly usage: Usage | null;
  /** The branch of its git worktree. */
  readonly branch?: BranchReport;
  /** Files with its result, in the folder of the report. */
  readonly files: readonly string[];
}

type RunFacts = Omit<RunView, 'tasks'> & { readonly description?: string };

const REPORTS = ['report.json', 'report.md'] as const;
const OVER: ReadonlySet<Phase> = new Set<Phase>(['done', 'failed', 'blocked', 'escalated']);

/** Writes the results and the report of a run into a folder, while it goes on and when it has ended. */
export class RunReporter {
  readonly #folder: ReportFolder;
  readonly #tasks = new Map<string, TaskDetail>();
  readonly #files = new Map<string, readonly string[]>();
  #names: ReadonlyMap<string, string> = new Map();
  #run: RunFacts | undefined;
  /** The first failure. The run is followed to its end nevertheless. */
  #failure: EclipticError | undefined;

  constructor(folder: ReportFolder) {
    this.#folder = folder;
  }

  /** Refuses before the run if foreign files are in the way. */
  assertFree(ids: readonly string[]): void {
    const results = [...fileNames(ids).values()].flatMap((name) => [`${name}.md`, `${name}.json`]);
    this.#folder.assertFree([...REPORTS, ...results]);
  }

  take(news: RunNews): void {
    if (news.event === 'run') {
      const { event: _, tasks, ...run } = news;
      const first = this.#run === undefined;
      this.#begin(run);
      for (const { result, ...task } of tasks) this.#learn({ ...task, feedback: [] }, result);
      // A report of an earlier run must not be mistaken for one of this run.
      if (first) this.#try(() => this.#write());
    } else if (news.event === 'task') {
      const { event: _, run: __, result, ...task } = news;
      this.#learn({ ...task, feedback: [] }, result);
      if (this.#run) this.#run = { ...this.#run, updatedAt: Math.max(this.#run.updatedAt, task.since) };
    } else if (news.event === 'ended' && this.#run) this.#run = { ...this.#run, status: news.status };
  }

  /** Writes the report with everything that the node knows about the run; returns its path. */
  async complete(client: ControlClient, id: string): Promise<string> {
    let json: string[] = [];
    await client.call('run.report', { id }, (piece) => {
      if (piece.event === 'run') {
        const { event: _, ...run } = piece;
        this.#begin(run);
      } else if (piece.event === 'task') {
        const { event: _, ...task } = piece;
        this.#learn(task);
      } else {
        json.push(piece.json);
        if (!piece.last) return;
        this.#try(() => this.#keepResult(piece.id, JSON.parse(json.join('')) as unknown));
        json = [];
      }
    });
    this.#try(() => this.#write());
    if (this.#failure) throw this.#failure;
    return this.#folder.path;
  }

  /** The node is gone, or its user leaves: writes the report with all that is known. */
  interrupt(reason: string): void {
    this.#try(() => this.#write(reason));
  }

  #begin(run: RunFacts): void {
    this.#run = run;
  }

  #learn(task: TaskDetail, result?: unknown): void {
    const known = this.#tasks.get(task.id);
    this.#tasks.set(task.id, task);
    if (!known) this.#names = fileNames([...this.#tasks.keys()]);
    if (task.phase !== 'done') this.#files.delete(task.id);
    else if (result !== undefined) this.#try(() => this.#keepResult(task.id, result));
  }

  #keepResult(id: string, result: unknown): void {
    const name = this.#names.get(id)!;
    const isText = typeof result === 'string';
    const files: [name: string, content: string | Buffer][] = [
      [`${name}.${isText ? 'md' : 'json'}`, `${describeValue(result)}\n`],
      ...filesIn(result).map(({ name: own, content }): [string, Buffer] => [`${name}+${own}`, content]),
    ];
    for (const [file, content] of files) this.#folder.write(file, content);
    this.#files.set(
      id,
      files.map(([file]) => file),
    );
  }

  #write(interrupted?: string): void {
    if (!this.#run) return;
    const report = reportOf(this.#run, [...this.#tasks.values()], this.#files, interrupted);
    this.#folder.removeAllBut(new Set([...REPORTS, ...[...this.#files.values()].flat()]));
    this.#folder.write('report.json', `${JSON.stringify(report, null, 2)}\n`);
    this.#folder.write('report.md', printable(reportMarkdown(report)));
  }

  #try(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#failure ??= error instanceof EclipticError ? error : new EclipticError('USAGE', describeError(error));
    }
  }
}

/** A name for each task's files, different from each other and from the report on any file system. */
function fileNames(ids: readonly string[]): Map<string, string> {
  const used = new Set(['report']);
  const names = new Map<string, string>();
  for (const id of ids) {
    let name = id;
    for (let number = 2; used.has(name.toLowerCase()); number++) name = `${id}-${number}`;
    used.add(name.toLowerCase());
    names.set(id, name);
  }
  return names;
}

/** The files in a result: A2A parts with a file name, or `{ files: [{ name, text or raw }] }`. */
function filesIn(result: unknown): { name: string; content: Buffer }[] {
  const { files = result } = (typeof result === 'object' && result !== null ? result : {}) as { files?: unknown };
  const used = new Set<string>();
  return (Array.isArray(files) ? files : []).flatMap((file: unknown) => {
    const { filename, name = filename, text, raw } = (file ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof name !== 'string' || (typeof text !== 'string' && typeof raw !== 'string')) return [];
    const safe = name.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').slice(-100) || 'file';
    let unique = safe;
    for (let number = 2; used.has(unique.toLowerCase()); number++) unique = `${number}_${safe}`;
    used.add(unique.toLowerCase());
    return [
      { name: unique, content: typeof text === 'string' ? Buffer.from(text) : Buffer.from(raw as string, 'base64') },
    ];
  });
}

function reportOf(
  run: RunFacts,
  tasks: readonly TaskDetail[],
  files: ReadonlyMap<string, readonly string[]>,
  interrupted: string | undefined,
): RunReport {
  const { id, name, description, agent, status, startedAt, updatedAt } = run;
  const { durationMs } = endOf({ ...run, tasks });
  return {
    format: 'ecliptic-run-report',
    version: 1,
    run: id,
    plan: name,
    ...(description !== undefined && { description }),
    agent,
    status,
    complete: status === 'done' && tasks.every(({ phase }) => phase === 'done'),
    ...(interrupted !== undefined && { interrupted }),
    startedAt: new Date(startedAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    durationMs,
    counts: countsOf(tasks),
    usage: usageOf(tasks) ?? null,
    tasks: tasks.map((task) => ({
      id: task.id,
      ...(task.description !== undefined && { description: task.description }),
      state: task.phase,
      agent: task.by,
      attempts: task.attempt,
      durationMs: OVER.has(task.phase) && task.startedAt !== undefined ? task.since - task.startedAt : null,
      feedback: task.feedback,
      reason: task.phase === 'done' ? null : task.reason,
      usage: task.usage ?? null,
      ...(task.branch && { branch: task.branch }),
      files: files.get(task.id) ?? [],
    })),
  };
}

function reportMarkdown(report: RunReport): string {
  const { run, plan, description, agent, status, interrupted, startedAt, durationMs, counts, usage, tasks } = report;
  const rows = tasks.map((task) => {
    const time = task.durationMs === null ? '' : durationText(task.durationMs);
    const results = task.files.map((file) => `[${file}](${file})`).join(', ');
    const cells = [task.id, task.state, task.agent ?? '', task.attempts, time, task.usage ? usageText(task.usage) : ''];
    return `| ${[...cells.map((cell) => plain(String(cell))), results].join(' | ')} |`;
  });
  const lines = [
    `# ${plain(plan)}: ${status}`,
    ...(description === undefined ? [] : [asData(description)]),
    `${countsText(counts)} in ${durationText(durationMs)}. Run ${run} by ${plain(agent)}, started ${startedAt}.`,
    ...(usage ? [`Usage: ${usageText(usage)}.`] : []),
    ...(interrupted === undefined ? [] : [`**This report is incomplete:** ${plain(interrupted)}`]),
    ['| task | state | agent | attempts | time | usage | result |', '|---|---|---|---|---|---|---|', ...rows].join(
      '\n',
    ),
    ...tasks.flatMap(taskSection),
  ];
  return `${lines.join('\n\n')}\n`;
}

/** More about a task that is not done, was done after feedback, or left a branch. */
function taskSection({ id, state, description, reason, feedback, branch }: TaskReport): string[] {
  if (state === 'done' && feedback.length === 0 && branch === undefined) return [];
  return [
    `## ${id}: ${state}`,
    ...(description === undefined ? [] : [asData(description)]),
    ...(branch === undefined ? [] : [asData(describeBranch(branch))]),
    ...(reason === null ? [] : [`Reason (${reason.code}):\n\n${asData(reason.message)}`]),
    ...(feedback.length === 0 ? [] : [`Feedback that it received:\n\n${feedback.map(asData).join('\n\n')}`]),
  ];
}

/** Text on one line that Markdown shows as it is. */
function plain(text: string): string {
  return oneLine(text).replaceAll(/[\\`*_[\]<>|#]/g, '\\$&');
}
