import type { EclipticError } from '../../runtime/errors.js';
import type { Negotiation, ProposalInit, TaskProposal } from './proposal.js';

/** A proposal that could not be made: whoever holds it is told why, in the same way as of any other. */
export class FailedNegotiation implements Negotiation {
  readonly proposal: TaskProposal;
  readonly to = undefined;
  readonly durable = false;
  readonly #error: EclipticError;

  constructor(proposalId: string, proposerAgentId: string, init: ProposalInit, error: EclipticError) {
    this.#error = error;
    this.proposal = {
      proposalId,
      taskDescription: init.taskDescription,
      requiredCapabilities: [...(init.requiredCapabilities ?? [])],
      estimatedComplexity: init.estimatedComplexity ?? 'medium',
      deadlineMs: init.deadlineMs ?? 0,
      proposerAgentId,
      status: 'rejected',
      rejectionReason: error.code,
      correlationId: init.thread ?? proposalId,
    };
  }

  get sent(): Promise<void> {
    return this.#rejected();
  }

  get answered(): Promise<TaskProposal> {
    return this.#rejected();
  }

  get result(): Promise<unknown> {
    return this.#rejected();
  }

  onProgress(): () => void {
    return () => {};
  }

  withdraw(): void {}

  #rejected(): Promise<never> {
    const rejected = Promise.reject(this.#error);
    rejected.catch(() => {});
    return rejected;
  }
}
