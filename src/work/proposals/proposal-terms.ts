import { EclipticError } from '../../runtime/errors.js';
import type { ProposalInit } from './proposal.js';
import { faultOfTerms, type ProposalPayload } from './proposal-wire.js';
import type { SentTerms } from './sent-proposal.js';

const DEFAULT_DEADLINE_MS = 30_000;

/** What is proposed to one addressee; throws what is wrong with it. */
export function termsOf(init: ProposalInit, proposalId: string, to: string, group?: string): SentTerms {
  const { taskDescription, input, justification, durable, thread = proposalId } = init;
  const payload: ProposalPayload = {
    proposalId,
    taskDescription,
    requiredCapabilities: init.requiredCapabilities ?? [],
    estimatedComplexity: init.estimatedComplexity ?? 'medium',
    deadlineMs: init.deadlineMs ?? DEFAULT_DEADLINE_MS,
    ...(input !== undefined && { input }),
    ...(durable && { durable }),
  };
  const fault = faultOfTerms(payload);
  if (fault) throw new EclipticError('INVALID_ENVELOPE', fault, { faults: [fault] });
  const more = { ...(justification !== undefined && { justification }), ...(group !== undefined && { group }) };
  return { payload, to, thread, ...more };
}
