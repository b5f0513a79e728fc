import { parseJson } from '../../a2a/protocol/json-rpc.js';
import type { Operations } from '../../a2a/server/operations.js';
import type { Party } from '../../mesh/policy.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type Exchange, readBody, requireJsonBody } from '../server/http-server.js';
import type { TurnEnd, TurnEvent } from './agent-turn.js';

/** An agent that a caller may use. */
export interface ListedAgent {
  readonly address: string;
  readonly description: string;
}

export interface ChatComponents {
  readonly runtime: Runtime;
  readonly operations: Operations;
  /** The agents that the caller may give tasks. */
  readonly agents: (caller: Party) => readonly ListedAgent[];
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

export async function readJson({ request }: Exchange): Promise<unknown> {
  requireJsonBody(request.headers);
  return parseJson((await readBody(request)).toString());
}
