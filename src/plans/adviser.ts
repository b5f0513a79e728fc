import type { AgentById } from './loop-agent.js';
import type { Answer, TaskState } from './loop-state.js';
import type { PlanTask } from './plan-schema.js';
import type { RunRecord } from './run-records.js';

export interface Escalation {
  readonly run: RunRecord;
  readonly task: PlanTask;
  readonly state: TaskState;
  /** Whom to ask; undefined where nobody is to be asked. */
  readonly agent: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Asks an L0 agent what is to become of a task that nobody managed. Where it does not say so in a way that can be
 * followed, the operator decides.
 */
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
