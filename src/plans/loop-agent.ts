import type { Agent } from '../agent/agent.js';
import { EclipticError } from '../runtime/errors.js';

/** What the loop needs of an agent that hands out tasks. */
export type LoopAgent = Pick<Agent, 'id' | 'propose' | 'negotiations' | 'request' | 'swarm' | 'swarms'>;

export type AgentById = (id: string) => LoopAgent;

/** Is nobody waiting because the node stops? Then whoever can goes on with the work, until the node is there again. */
export function isNodeStopping(signal: AbortSignal): boolean {
  return reasonOf(signal).code === 'NODE_STOPPED';
}

/** Why a wait was given up, as an error. */
export function reasonOf(signal: AbortSignal): EclipticError {
  const { reason } = signal;
  return reason instanceof EclipticError ? reason : new EclipticError('CANCELLED', 'nobody waits for it any more');
}
