import type { Phase } from '../orchestrator/ralph/loop-state.js';
import type { RunNews, RunView, TaskView } from '../orchestrator/ralph/run-news.js';
import { cutText } from '../runtime/text.js';

type TaskLine = Pick<TaskView, 'id' | 'phase' | 'attempt' | 'by' | 'reason'>;

/** Where a task is, on one line: `api: running, attempt 2 (the result does not fit …)`. */
export function taskText({ id, phase, attempt, by, reason }: TaskLine): string {
  const often = attempt > 1 ? `, attempt ${attempt}` : '';
  const who = by === null || phase === 'running' ? '' : ` by ${by}`;
  const why = reason === null ? '' : ` (${reason.code}: ${reason.message.split('\n')[0]})`;
  return `${id}: ${phase}${phase === 'done' ? who : ''}${often}${phase === 'done' ? '' : why}`;
}

export function runText({ id, name, status, agent, createdAt, updatedAt, tasks }: RunView): string {
  return [
    `${id}  ${name}: ${status}`,
    `agent      ${agent}`,
    `began      ${new Date(createdAt).toISOString()}`,
    `last news  ${new Date(updatedAt).toISOString()}`,
    ...tasks.map((task) => `  ${taskText(task)}${resultText(task)}`),
  ].join('\n');
}

/** How it ended, and what keeps it from being done. */
export function summaryText(
  { status, counts }: Extract<RunNews, { event: 'ended' }>,
  tasks: Iterable<TaskLine>,
): string {
  const open = [...tasks].filter(({ phase }) => phase !== 'done');
  return [`${status}: ${countsText(counts)}`, ...open.map((task) => `  ${taskText(task)}`)].join('\n');
}

export function countsText(counts: Readonly<Partial<Record<Phase, number>>>): string {
  return Object.entries(counts)
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
}

function resultText({ phase, result }: TaskView): string {
  if (phase !== 'done' || result === undefined) return '';
  return `  ${cutText(JSON.stringify(result), 120)}`;
}
