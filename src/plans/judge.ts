import type { Readable } from 'node:stream';
import { readSchema } from '../mcp/schema.js';
import { EclipticError } from '../runtime/errors.js';
import { endOfText } from '../runtime/text.js';
import type { Children } from '../system/process/children.js';
import { type AgentById, type Assignment, reasonOf } from './dispatcher.js';
import type { Answer, Judgement, TaskState, Verdict } from './loop-state.js';
import type { PlanTask } from './plan-schema.js';
import type { RunRecord } from './run-records.js';

type Judged = Omit<Assignment, 'onProgress'>;

const VERDICTS: readonly Verdict[] = ['approved', 'needs-revision', 'rejected'];

/** Judges results by the validators of a plan. Rejects where a validator gives no verdict. */
export class Judge {
  readonly #agent: AgentById;
  readonly #children: Children | undefined;

  /** Without `children`, results cannot be checked by commands. */
  constructor(agent: AgentById, children: Children | undefined) {
    this.#agent = agent;
    this.#children = children;
  }

  /** Each validator in turn, the cheapest first, until one does not approve. */
  async judge(assignment: Judged, result: unknown): Promise<Judgement> {
    const { validate = {} } = assignment.task;
    const feedback: string[] = [];
    const judges = [
      validate.schema && (() => judgeBySchema(validate.schema!, assignment.task.id, result)),
      validate.command && (() => this.#byCommand(validate.command!, assignment, result)),
      validate.agent && (() => this.#byAgent(validate.agent!, assignment, result)),
    ];
    for (const judge of judges) {
      const judgement = judge ? await judge() : undefined;
      if (judgement?.feedback) feedback.push(judgement.feedback);
      if (judgement && judgement.verdict !== 'approved') return judgement;
    }
    return { verdict: 'approved', feedback: feedback.join('\n') || undefined };
  }

  #byCommand(command: readonly string[], assignment: Judged, result: unknown) {
    if (this.#children) return judgeByCommand(this.#children, command, assignment, result);
    throw new EclipticError('PROCESS_START_FAILED', 'this node starts no programs');
  }

  async #byAgent(agent: string, { run, task, settings, input, signal }: Judged, result: unknown): Promise<Judgement> {
    const { id, description } = task;
    const question = { task: id, description, attempt: input.attempt, input: task.input, result };
    const options = { timeoutMs: settings.timeoutMs, signal };
    return readVerdict(agent, await this.#agent(run.agent).request(agent, withoutGaps(question), options));
  }
}

async function judgeBySchema(
  schema: Readonly<Record<string, unknown>>,
  task: string,
  result: unknown,
): Promise<Judgement> {
  const verdict = await readSchema(schema, 'output', `the results of "${task}"`).check(result);
  if (!('faults' in verdict)) return { verdict: 'approved' };
  return { verdict: 'needs-revision', feedback: `the result does not fit its schema: ${verdict.faults.join('; ')}` };
}

/** `{ verdict, feedback? }`, or the verdict alone. */
function readVerdict(agent: string, answer: unknown): Judgement {
  const { verdict, feedback } = (typeof answer === 'string' ? { verdict: answer } : (answer ?? {})) as {
    verdict?: unknown;
    feedback?: unknown;
  };
  const said = typeof verdict === 'string' ? verdict.toLowerCase().replaceAll(/[ _]/g, '-') : undefined;
  const known = VERDICTS.find((one) => one === said);
  if (known) return { verdict: known, feedback: typeof feedback === 'string' ? feedback : undefined };
  const wanted = VERDICTS.map((one) => `"${one}"`).join(', ');
  throw new EclipticError('INVALID_RESULT', `${agent} gave no verdict: { verdict } must be one of ${wanted}`);
}

/** An envelope refuses `undefined`, which JSON would drop. */
function withoutGaps(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined));
}

/** The end of a command's output is the feedback. */
const MAX_OUTPUT_CHARS = 8_192;

/** The program gets the result as JSON on its standard input. Exit code 0 approves; any other wants a revision. */
async function judgeByCommand(
  children: Children,
  [command, ...args]: readonly string[],
  { run, task, input, signal }: Judged,
  result: unknown,
): Promise<Judgement> {
  const env = { ECLIPTIC_RUN: run.id, ECLIPTIC_TASK: task.id, ECLIPTIC_ATTEMPT: String(input.attempt) };
  const child = await children.start({ command: command!, args, cwd: run.folder, env, name: `${task.id}: ${command}` });
  const stop = () => void child.stop();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const printed = endOf(child.stdout);
    // A program that does not read its input may still judge.
    await child.write(`${JSON.stringify(result ?? null)}\n`).catch(() => {});
    child.endInput();
    const exit = await child.exited;
    if (signal.aborted) throw reasonOf(signal);
    if (exit.kind === 'signal') throw child.failure();
    const feedback = [(await printed).trim(), ...child.stderr].filter((part) => part !== '').join('\n');
    if (exit.code === 0) return { verdict: 'approved', feedback };
    return { verdict: 'needs-revision', feedback: feedback || `${command} ended with code ${exit.code}` };
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

async function endOf(stream: Readable): Promise<string> {
  let text = '';
  stream.setEncoding('utf8');
  try {
    for await (const chunk of stream as AsyncIterable<string>) text = endOfText(text + chunk, MAX_OUTPUT_CHARS);
  } catch {
    // The pipe was closed early; the text so far counts.
  }
  return text;
}

export interface Escalation {
  readonly run: RunRecord;
  readonly task: PlanTask;
  readonly state: TaskState;
  /** The agent to ask, if there is one. */
  readonly agent: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Asks an L0 agent about a task that failed. Where its answer cannot be followed, the operator decides. */
export async function askAdviser(agents: AgentById, escalation: Escalation): Promise<Answer> {
  const { run, task, state, agent, timeoutMs, signal } = escalation;
  if (agent === undefined) return { action: 'operator' };
  const { attempt: attempts, reason, feedback, result = null } = state;
  const about = { run: run.id, plan: run.name, task: task.id, description: task.description };
  const question = { escalation: { ...about, attempts, reason: { ...reason }, feedback, result } };
  const answer = await agents(run.agent).request(agent, question, { timeoutMs, signal });
  return readAnswer(answer);
}

function readAnswer(said: unknown): Answer {
  const { action, feedback, result, reason } = (said ?? {}) as Readonly<Record<string, unknown>>;
  switch (action) {
    case 'retry':
      return typeof feedback === 'string' ? { action, feedback } : { action };
    case 'accept':
      return result === undefined ? { action: 'operator' } : { action, result };
    case 'fail':
      return { action, reason: typeof reason === 'string' ? reason : 'it was given up' };
    default:
      return { action: 'operator' };
  }
}
