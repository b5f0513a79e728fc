import type { AgentTask } from '../agent/agent-tasks.js';

/** A use of a tool that a framework stops for. */
export interface Wish {
  readonly tool: string;
  readonly input: unknown;
  readonly reason?: string | undefined;
}

export interface Verdict {
  readonly approved: boolean;
  readonly reason?: string;
}

const YES = /^\s*(y|yes|ok|okay|approved?|allow(ed)?|true)\b/i;

/** Asks the caller of the task: its answer is data with `approved`, or words that begin with yes. Anything else is a no. */
export async function askApproval(task: AgentTask, wish: Wish): Promise<Verdict> {
  if (!task.canAsk) return { approved: false, reason: 'the caller of the task cannot be asked' };
  const { tool, input, reason } = wish;
  const about = reason === undefined ? '' : ` (${reason})`;
  const text = `May the tool "${tool}" run${about} with ${JSON.stringify(input)}? Answer yes, or no and why.`;
  const { parts } = await task.ask([{ text }, { data: { approval: { tool, input } } }]);
  for (const { data } of parts) {
    if (typeof data !== 'object' || data === null || !('approved' in data)) continue;
    const { approved, reason: why } = data as { approved: unknown; reason?: unknown };
    return { approved: approved === true, ...(typeof why === 'string' && { reason: why }) };
  }
  const said = parts.flatMap(({ text: words }) => words ?? []).join('\n');
  return YES.test(said) ? { approved: true } : { approved: false, reason: said || 'the caller did not approve' };
}
