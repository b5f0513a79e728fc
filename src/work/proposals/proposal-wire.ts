import type { WireError } from '../../mesh/codec.js';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import { LIMITS } from '../../mesh/limits.js';
import { type A2AMessageType, PROPOSAL_LIMITS } from '../../mesh/schemas.js';
import { isErrorCode } from '../../runtime/errors.js';
import type { Offer } from './machine.js';
import type { Complexity } from './proposal.js';

/** The key of a proposal's id in messages other than proposals and answers. */
export const PROPOSAL = 'ecliptic/proposal';

/** The payload of a `task-proposal`. */
export interface ProposalPayload {
  readonly proposalId: string;
  readonly taskDescription: string;
  readonly requiredCapabilities: readonly string[];
  readonly estimatedComplexity: Complexity;
  readonly deadlineMs: number;
  readonly input?: unknown;
  /** Must the addressee keep it on disk? */
  readonly durable?: boolean;
}

/** The payload of a `task-accept`. */
export interface AcceptPayload extends Offer {
  readonly proposalId: string;
  /** The accepting agent, as `id@node`. */
  readonly acceptedBy: string;
  /** A repetition. */
  readonly again?: boolean;
}

/** The payload of a `task-reject`. */
export interface RejectPayload {
  readonly proposalId: string;
  readonly rejectionReason: string;
  readonly alternativeSuggestion?: string;
}

/** The proposer's notifications. */
export type Notice = 'confirm' | 'received';

/** An invalid payload that names a proposal. */
export interface Fault {
  readonly fault: string;
  readonly proposalId: string | undefined;
}

const ANSWERS: ReadonlySet<string> = new Set<A2AMessageType>(['task-proposal', 'task-accept', 'task-reject']);

type Fields = Readonly<Record<string, unknown>>;

const COMPLEXITIES: ReadonlySet<unknown> = new Set<Complexity>(['simple', 'medium', 'complex']);

/** Reads a proposal; undefined for any other message. Without a `proposalId`, the message's id counts. */
export function readProposal({ id, correlationId, payload }: ValidEnvelope): ProposalPayload | Fault | undefined {
  const fields = fieldsOf(payload);
  if (!fields) return undefined;
  const fault = faultOfTerms(fields) ?? (correlationId === undefined ? 'it has no correlation id' : undefined);
  const { proposalId = id, input, durable } = fields;
  if (fault === undefined && isId(proposalId)) {
    const { taskDescription, requiredCapabilities, estimatedComplexity, deadlineMs } =
      fields as unknown as ProposalPayload;
    const terms = { proposalId, taskDescription, requiredCapabilities, estimatedComplexity, deadlineMs };
    if (input === undefined && durable !== true) return terms;
    return { ...terms, ...(input !== undefined && { input }), ...(durable === true && { durable }) };
  }
  // Any payload may come under this type; only one that names a proposal is answered as invalid.
  return isId(fields.proposalId) ? { fault: fault ?? 'proposalId', proposalId: fields.proposalId } : undefined;
}

/** Why these are no valid terms of a proposal. Agrees with `TaskProposalPayloadSchema`. */
export function faultOfTerms(fields: { readonly [Name in keyof ProposalPayload]?: unknown }): string | undefined {
  const { taskDescription, requiredCapabilities, estimatedComplexity, deadlineMs } = fields;
  if (typeof taskDescription !== 'string' || taskDescription.length > PROPOSAL_LIMITS.descriptionChars) {
    return `taskDescription must be text of at most ${PROPOSAL_LIMITS.descriptionChars} characters`;
  }
  if (!isList(requiredCapabilities)) return 'requiredCapabilities must be a list of at most 256 capability ids';
  if (!COMPLEXITIES.has(estimatedComplexity)) return 'estimatedComplexity must be simple, medium or complex';
  if (!isPositive(deadlineMs) || deadlineMs > PROPOSAL_LIMITS.deadlineMs) {
    return `deadlineMs must be a positive number of at most ${PROPOSAL_LIMITS.deadlineMs}`;
  }
  return undefined;
}

export function readAccept(payload: unknown): AcceptPayload | Fault | undefined {
  const fields = fieldsOf(payload);
  if (!fields || !isId(fields.proposalId)) return undefined;
  const { proposalId, acceptedBy, estimatedCompletionMs, load = 0, again } = fields;
  if (typeof acceptedBy !== 'string' || acceptedBy.length > LIMITS.nameChars) return faultIn(fields, 'acceptedBy');
  if (!isPositive(estimatedCompletionMs)) return faultIn(fields, 'estimatedCompletionMs');
  if (typeof load !== 'number' || !(load >= 0)) return faultIn(fields, 'load');
  return { proposalId, acceptedBy, estimatedCompletionMs, load, again: again === true };
}

export function readReject(payload: unknown): RejectPayload | Fault | undefined {
  const fields = fieldsOf(payload);
  if (!fields || !isId(fields.proposalId)) return undefined;
  const { proposalId, rejectionReason, alternativeSuggestion } = fields;
  if (!isName(rejectionReason)) return faultIn(fields, 'rejectionReason');
  if (alternativeSuggestion !== undefined && !isName(alternativeSuggestion)) {
    return faultIn(fields, 'alternativeSuggestion');
  }
  return { proposalId, rejectionReason, ...(alternativeSuggestion !== undefined && { alternativeSuggestion }) };
}

/** May a message, other than a request, belong to a proposal? */
export function isOfProposal({ type, payload }: ValidEnvelope): boolean {
  return ANSWERS.has(type) || proposalIn(payload) !== undefined;
}

/** The proposal that a message of another type names. */
export function proposalIn(payload: unknown): string | undefined {
  const id = fieldsOf(payload)?.[PROPOSAL];
  return isId(id) ? id : undefined;
}

export function readNotice(payload: unknown): Notice | undefined {
  const notice = fieldsOf(payload)?.notice;
  return notice === 'confirm' || notice === 'received' ? notice : undefined;
}

export function readError(payload: unknown): WireError {
  const { code, message, details } = fieldsOf(payload) ?? {};
  return {
    code: isErrorCode(code) ? code : 'HANDLER_FAILED',
    message: typeof message === 'string' ? message : 'the other side failed',
    details: fieldsOf(details) ?? {},
  };
}

export function isFault<T extends object>(read: T | Fault): read is Fault {
  return 'fault' in read;
}

export function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= LIMITS.nameChars;
}

function faultIn({ proposalId }: Fields, field: string): Fault {
  return { fault: `${field} is missing or wrong`, proposalId: proposalId as string };
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= LIMITS.idChars;
}

function isPositive(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) > 0;
}

function isList(value: unknown): value is string[] {
  return Array.isArray(value) && value.length <= LIMITS.cardListEntries && value.every(isId);
}
