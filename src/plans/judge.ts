import { readSchema } from '../mcp/schema.js';
import { EclipticError } from '../runtime/errors.js';
import type { Children } from '../system/process/children.js';
import { judgeByCommand } from './command-judge.js';
import type { Assignment } from './dispatcher.js';
import type { AgentById } from './loop-agent.js';
import type { Judgement, Verdict } from './loop-state.js';

export interface JudgeComponents {
  readonly agent: AgentById;
  /** For plans whose results are checked by commands. */
  readonly children: Children | undefined;
}

const VERDICTS: readonly Verdict[] = ['approved', 'needs-revision', 'rejected'];

/** Judges results as a plan says. Rejects where nobody can judge; that is no verdict. */
export class Judge {
  readonly #components: JudgeComponents;

  constructor(components: JudgeComponents) {
    this.#components = components;
  }

  /** Each validator in turn, the cheapest first, until one does not approve. */
  async judge(assignment: Omit<Assignment, 'onProgress'>, result: unknown): Promise<Judgement> {
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

  #byCommand(command: readonly string[], assignment: Omit<Assignment, 'onProgress'>, result: unknown) {
    const { children } = this.#components;
    if (children) return judgeByCommand(children, command, assignment, result);
    throw new EclipticError('PROCESS_START_FAILED', 'this node starts no programs');
  }

  async #byAgent(
    agent: string,
    { run, task, settings, input, signal }: Omit<Assignment, 'onProgress'>,
    result: unknown,
  ): Promise<Judgement> {
    const question = {
      task: task.id,
      description: task.description,
      attempt: input.attempt,
      input: task.input,
      result,
    };
    const options = { timeoutMs: settings.timeoutMs, signal };
    return readVerdict(agent, await this.#components.agent(run.agent).request(agent, withoutGaps(question), options));
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

/** An envelope takes nothing that JSON would drop. */
function withoutGaps(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined));
}
