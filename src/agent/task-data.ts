import type { Message as A2AMessage } from '../a2a/protocol/types.js';

/** The data of a task as its worker reads it. */
export interface TaskData {
  /** The `input` of a plan's task or a swarm's sub-task; of any other task, its whole data. */
  readonly input: unknown;
  readonly results: Readonly<Record<string, unknown>>;
  readonly feedback: readonly string[];
  readonly attempt: number;
}

/** Fields whose text says what a task without words of its own is about. */
const WORDS = ['text', 'description', 'title', 'taskDescription'] as const;

export function textOf({ parts }: Pick<A2AMessage, 'parts'>): string {
  if (parts.length === 1) return parts[0]!.text ?? '';
  return parts.flatMap(({ text }) => (text === undefined ? [] : [text])).join('\n');
}

/** The words of a message; of one that has only data, the words in the data, else the data as JSON. */
export function wordsOf(message: Pick<A2AMessage, 'parts'>): string {
  const text = textOf(message);
  if (text.trim() !== '') return text;
  const data = dataOf(message);
  if (data === undefined) return text;
  return (isFields(data) ? wordsIn(data) : undefined) ?? (typeof data === 'string' ? data : JSON.stringify(data));
}

function wordsIn(data: Fields): string | undefined {
  for (const name of WORDS) {
    const value = data[name];
    if (typeof value === 'string' && value.trim() !== '') return value;
  }
  // The data of a plan's task or sub-task holds the author's own under `input`.
  return isWrapped(data) && isFields(data.input) ? wordsIn(data.input) : undefined;
}

export function dataOf({ parts }: Pick<A2AMessage, 'parts'>): unknown {
  return parts.find(({ data }) => data !== undefined)?.data;
}

export function readTaskData(data: unknown): TaskData {
  if (!isFields(data)) return { input: data, results: {}, feedback: [], attempt: 1 };
  const own = {
    input: isWrapped(data) ? data.input : data,
    results: isFields(data.results) ? data.results : {},
    feedback: Array.isArray(data.feedback) ? data.feedback.filter((one) => typeof one === 'string') : [],
    attempt: typeof data.attempt === 'number' ? data.attempt : 1,
  };
  // A sub-task of a plan's task gets the data of that task as its input.
  if (!isOfSwarm(data) || !isFields(data.input) || !isOfPlan(data.input)) return own;
  const whole = readTaskData(data.input);
  return { ...whole, results: { ...whole.results, ...own.results } };
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isWrapped(data: Fields): boolean {
  return isOfPlan(data) || isOfSwarm(data);
}

/** `TaskInput` of a plan. */
function isOfPlan({ run, task, attempt, results }: Fields): boolean {
  return typeof run === 'string' && typeof task === 'string' && typeof attempt === 'number' && isFields(results);
}

/** `SubTaskInput` of a swarm. */
function isOfSwarm({ swarm, subTask, results }: Fields): boolean {
  return typeof swarm === 'string' && typeof subTask === 'string' && isFields(results);
}
