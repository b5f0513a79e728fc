export type Complexity = 'simple' | 'medium' | 'complex';
export type ProposalStatus = 'pending' | 'accepted' | 'rejected' | 'timed-out';

/** A proposal as one side sees it at present. Agents are named by their addresses, as this node knows them. */
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

/** What is proposed, and to whom. */
export interface ProposalInit {
  /** An agent's id or address. Without it, the first that has all required capabilities and may be asked. */
  to?: string;
  taskDescription: string;
  requiredCapabilities?: readonly string[];
  /** Default 'medium'. */
  estimatedComplexity?: Complexity;
  /** Default 30 s. */
  deadlineMs?: number;
  /** Any JSON for whoever does the work. */
  input?: unknown;
  /** Why this goes over the recipient's rank; a proposal from L2 or L3 to L0 or L1 needs it. */
  justification?: string;
  /** Kept on disk on both sides, until it is settled. */
  durable?: boolean;
  /** The conversation it belongs to. Default: one of its own. */
  thread?: string;
}

/** What an agent says when it accepts. */
export interface Bid {
  /** How long the work will take. Default: by the proposal's complexity. */
  estimatedCompletionMs?: number;
  /** How much the agent has to do already. Default: the work that it has accepted and not finished. */
  load?: number;
}

/** A proposal as its proposer holds it. */
export interface Negotiation {
  /** Always the current view. */
  readonly proposal: TaskProposal;
  /** Whom it was proposed to; of several, whom it was awarded to. */
  readonly to: string | undefined;
  readonly durable: boolean;
  /** Resolves when the proposal is with its addressee, or, if durable, on disk; rejects when it was refused. */
  readonly sent: Promise<void>;
  /** Resolves once, when it is accepted, rejected or timed out; rejects only when it could not be made at all. */
  readonly answered: Promise<TaskProposal>;
  /** What the work gave. Rejects typed: `PROPOSAL_REJECTED`, `PROPOSAL_TIMEOUT`, or the worker's error. */
  readonly result: Promise<unknown>;
  /** Calls back with every progress that the worker tells. Returns the way to stop. */
  onProgress(handler: (value: unknown) => void): () => void;
  /** Takes the proposal back; once it is accepted, makes the worker stop. */
  withdraw(reason?: string): void;
}

/** Work that was accepted, and confirmed by the proposer. */
export interface Engagement {
  readonly proposal: TaskProposal;
  readonly input: unknown;
  /** Aborted when the proposer takes its proposal back, or is gone. */
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
  /** Was it handed over before, in an earlier run of this node? */
  readonly resumed: boolean;
  /** Aborted when it is over before this side has answered: timed out, or taken back. */
  readonly signal: AbortSignal;
  /** Resolves when the proposer has confirmed: the work is this agent's. Rejects when it was too late. */
  accept(bid?: Bid): Promise<Engagement>;
  /** With a reason code such as `busy`, and perhaps another agent that could do it. */
  reject(reason: string, options?: { alternative?: string }): Promise<void>;
}

/** What an agent does with proposals to it. What it does not answer times out; what it throws rejects. */
export type ProposalHandler = (proposal: ReceivedProposal) => unknown;

/** Why an answer was refused. */
export type RefusedAnswer = 'late' | 'duplicate' | 'crossed' | 'forged';
