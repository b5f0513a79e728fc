import type { WorkerTask } from '../adapter/worker-task.js';

/** How a program gets its task on standard input. */
export type TaskFormat = 'text' | 'json';

/** A larger value is on standard input only: systems limit the environment, some to 32 KiB for a variable. */
export const MAX_VARIABLE_BYTES = 32_768;

/** A task as the text of a program's standard input. It ends with a newline, because `read` of a shell wants one. */
export function standardInput(task: WorkerTask, format: TaskFormat): string {
  const said = format === 'json' ? asJson(task) : asText(task);
  return said.endsWith('\n') ? said : `${said}\n`;
}

function asJson({ text, context, from, conversation, outputSchema, knowledge }: WorkerTask): string {
  const more = { ...(outputSchema && { outputSchema }), ...(knowledge && { knowledge: knowledge.entries }) };
  return JSON.stringify({ text, context, from, conversation, ...more });
}

function asText({ text, context }: WorkerTask): string {
  return Object.keys(context).length === 0 ? text : `${text}\n\n${JSON.stringify(context, null, 2)}`;
}

/** The same in environment variables, without those that do not fit into one. */
export function taskVariables(task: WorkerTask, correlationId: string): Record<string, string> {
  const { input, results, feedback, attempt } = task.context;
  const values: Record<string, string | undefined> = {
    TEXT: task.text,
    INPUT: JSON.stringify(input),
    RESULTS: JSON.stringify(results),
    FEEDBACK: linesOf(feedback),
    ATTEMPT: String(typeof attempt === 'number' ? attempt : 1),
    ID: correlationId,
    FROM: task.from,
  };
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && fits(value)) variables[`ECLIPTIC_TASK_${name}`] = value;
  }
  return variables;
}

function linesOf(feedback: unknown): string | undefined {
  if (typeof feedback === 'string') return feedback;
  if (!Array.isArray(feedback)) return undefined;
  return feedback.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n');
}

/** No variable can have a NUL character. */
function fits(value: string): boolean {
  return Buffer.byteLength(value) <= MAX_VARIABLE_BYTES && !value.includes('\0');
}
