export type Complexity = 'simple' | 'medium' | 'complex';
export type ProposalStatus = 'pending' | 'accepted' | 'rejected' | 'timed-out';

/** A proposal as one side sees it at present. Agents are named by their addresses on this node. */
export interface TaskProposal {
  proposalId: string;
  taskDescription: string;
  requiredCapabilities: string[];
  estimatedComplexity: Complexity;
  /** Within this time the proposer must have the answer, by its own clock. */
  deadlineMs: number;
  proposerAgentId: string;
  status: ProposalStatus;
  acceptedBy?: string;
  rejectionReason?: string;
  alternativeSuggestion?: string;
  correlationId: string;
}

export interface ProposalInit {
  /** An agent's id or address. Without it, the first that has all required capabilities and may be asked. */
  to?: string;
  taskDescription: string;
  requiredCapabilities?: readonly string[];
  /** Default 'medium'. */
  estimatedComplexity?: Complexity;
  /** Default 30 s. */
  deadlineMs?: number;
  /** Any JSON for the worker. */
  input?: unknown;
  /** Why this goes over the recipient's rank; a proposal from L2 or L3 to L0 or L1 needs it. */
  justification?: string;
  /** Kept on disk on both sides, until it is settled. */
  durable?: boolean;
  /** The conversation it belongs to. Default: one of its own. */
  thread?: string;
}

export interface Bid {
  /** How long the work will take. Default: by the proposal's complexity. */
  estimatedCompletionMs?: number;
  /** Default: the number of proposals that the agent has accepted and not finished. */
  load?: number;
}

/** A proposal as its proposer holds it. */
export interface Negotiation {
  /** Always the current view. */
  readonly proposal: TaskProposal;
  /** The addressee; of several, the winner. */
  readonly to: string | undefined;
  readonly durable: boolean;
  /** Resolves when the proposal is with its addressee, or, if durable, on disk; rejects when it was refused. */
  readonly sent: Promise<void>;
  /** Resolves once, when it is accepted, rejected or timed out; rejects only when it could not be made at all. */
  readonly answered: Promise<TaskProposal>;
  /** The result of the work. Rejects with `PROPOSAL_REJECTED`, `PROPOSAL_TIMEOUT`, or the worker's error. */
  readonly result: Promise<unknown>;
  /** Calls back with the worker's progress. Returns the function that unsubscribes. */
  onProgress(handler: (value: unknown) => void): () => void;
  /** Takes the proposal back; once it is accepted, makes the worker stop. */
  withdraw(reason?: string): void;
}

/** Accepted work, confirmed by the proposer. */
export interface Engagement {
  readonly proposal: TaskProposal;
  readonly input: unknown;
  /** Aborted when the proposer withdraws, or is gone. */
  readonly signal: AbortSignal;
  progress(value: unknown): void;
  /** Hands over the result. Resolves when it is on its way; of a durable proposal, on disk. */
  complete(result?: unknown): Promise<void>;
  fail(error: unknown): Promise<void>;
}

/** A proposal as its addressee gets it. */
export interface ReceivedProposal {
  readonly proposal: TaskProposal;
  /** The address of the proposer. */
  readonly from: string;
  readonly input: unknown;
  /** Was it received in an earlier run of this node? */
  readonly resumed: boolean;
  /** Aborted when it times out or is withdrawn before this side has answered. */
  readonly signal: AbortSignal;
  /** Resolves when the proposer has confirmed: the work is this agent's. Rejects when it was too late. */
  accept(bid?: Bid): Promise<Engagement>;
  /** With a reason code such as `busy`, and perhaps another agent that could do it. */
  reject(reason: string, options?: { alternative?: string }): Promise<void>;
}

/** Decides about a proposal. An unanswered proposal times out; an error rejects it. */
export type ProposalHandler = (proposal: ReceivedProposal) => unknown;

/** Why an answer was refused. */
export type RefusedAnswer = 'late' | 'duplicate' | 'crossed' | 'forged';
