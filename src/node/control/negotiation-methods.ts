import type { Agent } from '../../agent/agent.js';
import type { Negotiation, TaskProposal } from '../../work/proposals/proposal.js';
import type { ProposalSide } from '../../work/proposals/task-negotiator.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** What is told of a proposal while it is followed, one after the other; its result, or its error, is the call's own. */
export type ProposalEvent =
  | { readonly event: 'pending' | 'answered'; readonly to: string | null; readonly proposal: TaskProposal }
  | { readonly event: 'progress'; readonly value: unknown };

/** A row of the proposals' table. */
export interface ProposalListRow {
  /** The agent of this node, and the one at the other side. */
  readonly agent: string;
  readonly side: 'sent' | 'received';
  readonly peer: string;
  readonly work: string;
  readonly durable: boolean;
  readonly proposal: TaskProposal;
}

export interface NegotiationMethodsComponents {
  agents: () => readonly Agent[];
  agentById(id: string): Agent;
  /** The owner, as an agent of this node. */
  operator(): Agent;
  /** An address that a person may have shortened, in full. */
  inFull(address: string): string;
}

const COMPLEXITIES = ['simple', 'medium', 'complex'] as const;

/** The owner's operations on proposals. */
export function negotiationMethods(components: NegotiationMethodsComponents): Readonly<Record<string, ControlMethod>> {
  const { agents, agentById, operator, inFull } = components;
  return {
    // The proposal as it stands, then what happens to it; the result ends the call, as its error does.
    async propose(params, { emit, signal }) {
      const read = new Params(params);
      const { as, to, justification, deadlineMs, durable, complexity, all } = read.optional({
        as: 'string',
        to: 'string',
        justification: 'string',
        deadlineMs: 'number',
        durable: 'boolean',
        complexity: 'string',
        all: 'boolean',
      });
      const agent = as === undefined ? operator() : agentById(as);
      const init = {
        taskDescription: read.string('description'),
        requiredCapabilities: read.listOf('capabilities', isText, 'a list of capability ids') ?? [],
        estimatedComplexity: read.oneOf('complexity', complexity ?? 'medium', COMPLEXITIES),
        ...{ justification, deadlineMs, durable },
        ...('input' in params && { input: params.input }),
      };
      const negotiation = all
        ? agent.proposeToAll(init)
        : agent.propose({ ...init, to: to === undefined ? undefined : inFull(to) });
      return follow(negotiation, emit, signal);
    },
    proposals(params) {
      const { agent: only, pending } = new Params(params).optional({ agent: 'string', pending: 'boolean' });
      const asked = agents().filter(({ id }) => only === undefined || id === only);
      const rows = sidesOf(asked)
        .filter(({ proposal }) => !pending || proposal.status === 'pending')
        .map(rowOf);
      return fitting(rows, (row) => JSON.stringify(row).length);
    },
  };
}

async function follow(
  negotiation: Negotiation,
  emit: (event: ProposalEvent) => void,
  signal: AbortSignal,
): Promise<unknown> {
  negotiation.onProgress((value) => emit({ event: 'progress', value }));
  const tell = (event: 'pending' | 'answered', proposal: TaskProposal) =>
    emit({ event, to: negotiation.to ?? null, proposal });
  // Whoever goes away while nothing is durable wants it no more.
  const leave = () => {
    if (!negotiation.durable) negotiation.withdraw('the caller went away');
  };
  signal.addEventListener('abort', leave);
  try {
    const { result } = negotiation;
    await negotiation.sent;
    // An agent of this node may have answered by now.
    const { acceptedBy: _, rejectionReason: _reason, alternativeSuggestion: _other, ...made } = negotiation.proposal;
    tell('pending', { ...made, status: 'pending' });
    tell('answered', await negotiation.answered);
    return await result;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** A proposal as an agent of this node knows it. */
type AgentSide = ProposalSide & { readonly agent: string };

/** Each proposal that these agents made or got, once: between two of them, the side of its maker stands for both. */
export function sidesOf(agents: readonly Agent[]): AgentSide[] {
  const sides = agents.flatMap(({ id, proposalSides }) =>
    proposalSides.map(({ side, peer, durable, proposal, input, state }) => {
      return { agent: id, side, peer, durable, proposal, input, state };
    }),
  );
  const sent = new Set(sides.filter(({ side }) => side === 'sent').map(({ proposal }) => proposal.proposalId));
  return sides.filter(({ side, proposal }) => side === 'sent' || !sent.has(proposal.proposalId));
}

function rowOf({ agent, side, peer, durable, proposal, state }: AgentSide): ProposalListRow {
  return { agent, side, peer, work: state.work, durable, proposal };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
