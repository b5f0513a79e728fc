import type { Readable } from 'node:stream';
import { readSchema } from '../mcp/schema.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { endOfText } from '../runtime/text.js';
import type { Children } from '../system/process/children.js';
import { valueIn } from './answers.js';
import { type AgentById, type Assignment, reasonOf } from './dispatcher.js';
import type { Answer, Judgement, TaskState, Verdict } from './loop-state.js';
import { judgeOf, type PlanTask } from './plan-schema.js';
import { adviceQuestion, verdictQuestion } from './questions.js';
import type { RunRecord } from './run-records.js';

type Judged = Omit<Assignment, 'onProgress' | 'onAccepted'>;

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
  async judge(assignment: Judged, given: unknown): Promise<Judgement> {
    const { schema, command, ...rest } = assignment.task.validate ?? {};
    const agent = judgeOf(rest);
    const checked = schema && (await judgeBySchema(schema, assignment.task.id, given));
    if (checked && checked.verdict !== 'approved') return checked;
    // The later validators and the dependent tasks get the value that was checked.
    const result = checked && 'result' in checked ? checked.result : given;
    const feedback: string[] = [];
    for (const judge of [
      command && (() => this.#byCommand(command, assignment, result)),
      agent && (() => this.#byAgent(agent, assignment, result)),
    ]) {
      const judgement = judge ? await judge() : undefined;
      if (judgement?.feedback) feedback.push(judgement.feedback);
      if (judgement && judgement.verdict !== 'approved') return judgement;
    }
    const said = feedback.join('\n') || undefined;
    return { verdict: 'approved', feedback: said, ...(result !== given && { result }) };
  }

  #byCommand(command: readonly string[], assignment: Judged, result: unknown) {
    if (this.#children) return judgeByCommand(this.#children, command, assignment, result);
    throw new EclipticError('PROCESS_START_FAILED', 'this node starts no programs');
  }

  async #byAgent(agent: string, { run, task, settings, input, signal }: Judged, result: unknown): Promise<Judgement> {
    const question = verdictQuestion({ ...task, input: input.input }, input.attempt, result);
    const options = { timeoutMs: settings.timeoutMs, signal };
    try {
      return readVerdict(agent, await this.#agent(run.agent).request(agent, question, options));
    } catch (error) {
      const { code, message, details } = toEclipticError(error, 'HANDLER_FAILED');
      throw new EclipticError(code, `the validator ${agent} gave no verdict: ${message}`, details, error);
    }
  }
}

async function judgeBySchema(
  schema: Readonly<Record<string, unknown>>,
  task: string,
  result: unknown,
): Promise<Judgement> {
  const shape = readSchema(schema, 'output', `the results of "${task}"`);
  const verdict = await shape.check(result);
  if (!('faults' in verdict)) return { verdict: 'approved' };
  const value = valueIn(result, { anywhere: true });
  const read = value === result ? verdict : await shape.check(value);
  if (!('faults' in read)) return { verdict: 'approved', result: value };
  return { verdict: 'needs-revision', feedback: `the result does not fit its schema: ${read.faults.join('; ')}` };
}

/** `{ verdict, feedback? }`, also as JSON text, or the verdict alone. */
function readVerdict(agent: string, said: unknown): Judgement {
  const answer = valueIn(said);
  const { verdict, feedback } = (typeof answer === 'string' ? { verdict: answer } : (answer ?? {})) as {
    verdict?: unknown;
    feedback?: unknown;
  };
  const named = typeof verdict === 'string' ? verdict.trim().toLowerCase().replaceAll(/[ _]/g, '-') : undefined;
  const known = VERDICTS.find((one) => one === named);
  if (known) return { verdict: known, feedback: typeof feedback === 'string' ? feedback : undefined };
  const wanted = VERDICTS.map((one) => `"${one}"`).join(', ');
  throw new EclipticError('INVALID_RESULT', `${agent} gave no verdict: { verdict } must be one of ${wanted}`);
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
  const question = adviceQuestion({ ...about, attempts, reason: { ...reason }, feedback, result });
  const answer = await agents(run.agent).request(agent, question, { timeoutMs, signal });
  return readAnswer(answer, state.result);
}

/** Without a result of its own, `accept` takes the latest one. */
function readAnswer(said: unknown, latest: unknown): Answer {
  const answer = (valueIn(said) ?? {}) as Readonly<Record<string, unknown>>;
  const { action, feedback, result = latest, reason } = answer;
  switch (action) {
    case 'retry':
      return typeof feedback === 'string' && feedback !== '' ? { action, feedback } : { action };
    case 'accept':
      return result === undefined ? { action: 'operator' } : { action, result };
    case 'fail':
      return { action, reason: typeof reason === 'string' && reason !== '' ? reason : 'it was given up' };
    default:
      return { action: 'operator' };
  }
}
