import type { TaskState } from '../a2a/protocol/types.js';
import { isCanceled } from '../work/proposals/machine.js';
import type { ProposalSide } from '../work/proposals/proposal-side.js';
import type { Agent } from './agent.js';

/** A proposal as one of these agents knows it. */
export type AgentSide = Pick<
  ProposalSide,
  'side' | 'peer' | 'durable' | 'proposal' | 'input' | 'state' | 'changedAt'
> & {
  readonly agent: string;
};

/** Each proposal that these agents made or received, once: between two of them, only the maker's side. */
export function proposalSides(agents: readonly Agent[]): AgentSide[] {
  const sides = agents.flatMap(({ id, proposalSides: own }) =>
    own.map(({ side, peer, durable, proposal, input, state, changedAt }) => {
      return { agent: id, side, peer, durable, proposal, input, state, changedAt };
    }),
  );
  const sent = new Set(sides.filter(({ side }) => side === 'sent').map(({ proposal }) => proposal.proposalId));
  return sides.filter(({ side, proposal }) => side === 'sent' || !sent.has(proposal.proposalId));
}

/** The state of the work on a proposal, in the words of A2A. */
export function stateOfProposal({ proposal: { status }, state }: AgentSide): TaskState {
  const { work } = state;
  if (isCanceled(state)) return 'TASK_STATE_CANCELED';
  if (status === 'pending') return 'TASK_STATE_SUBMITTED';
  if (status === 'rejected') return 'TASK_STATE_REJECTED';
  if (status === 'timed-out' || work === 'failed') return 'TASK_STATE_FAILED';
  return work === 'done' ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_WORKING';
}
