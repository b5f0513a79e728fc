import { parseJson } from '../../a2a/protocol/json-rpc.js';
import type { Operations } from '../../a2a/server/operations.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type Exchange, readBody, requireJsonBody } from '../server/http-server.js';
import type { TurnEnd, TurnEvent } from './agent-turn.js';
import type { ChatAgents } from './chat-agents.js';

export interface ChatComponents {
  readonly runtime: Runtime;
  readonly operations: Operations;
  readonly agents: ChatAgents;
}

/** Calls back with each event; resolves with the end. */
export async function each(
  events: AsyncGenerator<TurnEvent, TurnEnd>,
  take: (event: TurnEvent) => Promise<void>,
): Promise<TurnEnd> {
  for (;;) {
    const step = await events.next();
    if (step.done) return step.value;
    await take(step.value);
  }
}

/** Throws if the agent failed; a refusal is an answer. */
export function answerOf({ state, text, reason }: TurnEnd): { content: string | null; refusal: string | null } {
  if (state === 'TASK_STATE_REJECTED') return { content: null, refusal: reason || 'the agent refuses the task' };
  if (state === 'TASK_STATE_CANCELED') throw new EclipticError('CANCELLED', 'the task was canceled');
  if (state === 'TASK_STATE_FAILED') throw new EclipticError('REMOTE_FAILED', reason || 'the task failed');
  return { content: text, refusal: null };
}

/** The answer to a caller that set a schema for it. Throws for text that is not JSON. */
export function formedAnswerOf(
  end: TurnEnd,
  schema: object | undefined,
  { agent, field }: { readonly agent: string; readonly field: string },
): ReturnType<typeof answerOf> {
  const answer = answerOf(end);
  if (schema === undefined || answer.content === null || isQuestion(end.state) || isJson(answer.content)) return answer;
  const message = `${agent} answered with text that is not JSON: it takes no JSON schema; leave out ${field}`;
  throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', message, { agentId: agent, field });
}

/** Does the agent wait for its caller? */
export function isQuestion(state: TurnEnd['state']): boolean {
  return state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED';
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export async function readJson({ request }: Exchange): Promise<unknown> {
  requireJsonBody(request.headers);
  return parseJson((await readBody(request)).toString());
}
