import type { Phase } from '../plans/loop-state.js';
import type { RunNews, RunView, TaskView } from '../plans/run-news.js';
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

/** How it ended, each task's result, and what keeps the others from being done. */
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

/** A text as it is, anything else as JSON. */
function wholeText(result: unknown): string {
  if (result === undefined) return '(too large to show)';
  return typeof result === 'string' ? result : JSON.stringify(result, null, 2);
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
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
