import type { ProposalRow } from '../../store/tables.js';
import type { NegotiationContext } from './negotiation-context.js';
import type { ProposalStatus, TaskProposal } from './proposal.js';
import type { ProposalPayload } from './proposal-wire.js';

/** What both sides of a proposal know of its answer. */
interface Answer {
  readonly status: ProposalStatus;
  readonly reason?: string;
  readonly alternative?: string;
}

/** A proposal as its two agents see it, with what became of it so far. */
export function shownProposal(
  payload: ProposalPayload,
  { status, reason, alternative }: Answer,
  { proposer, addressee, thread }: { proposer: string; addressee: string; thread: string },
): TaskProposal {
  const { proposalId, taskDescription, requiredCapabilities, estimatedComplexity, deadlineMs } = payload;
  return {
    proposalId,
    taskDescription,
    requiredCapabilities: [...requiredCapabilities],
    estimatedComplexity,
    deadlineMs,
    proposerAgentId: proposer,
    status,
    ...(status === 'accepted' && { acceptedBy: addressee }),
    ...(reason !== undefined && { rejectionReason: reason }),
    ...(alternative !== undefined && { alternativeSuggestion: alternative }),
    correlationId: thread,
  };
}

/** A side of a proposal as the disk keeps it. */
export function proposalRow(
  { agentId, runtime }: NegotiationContext,
  { side, peer, id, open }: { side: ProposalRow['side']; peer: string; id: string; open: boolean },
  status: ProposalStatus,
  document: object,
): ProposalRow {
  return {
    agent: agentId,
    side,
    peer,
    id,
    status,
    open: open ? 1 : 0,
    at: runtime.now(),
    document: JSON.stringify(document),
  };
}

/** What a proposal on disk asks for. */
export function descriptionIn({ document }: ProposalRow): string {
  const { terms, payload = terms?.payload } = JSON.parse(document) as {
    terms?: { payload?: { taskDescription?: string } };
    payload?: { taskDescription?: string };
  };
  return payload?.taskDescription ?? '';
}
