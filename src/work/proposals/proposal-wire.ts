import type { WireError } from '../../mesh/codec.js';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import { LIMITS } from '../../mesh/limits.js';
import { type A2AMessageType, PROPOSAL_LIMITS } from '../../mesh/schemas.js';
import { isErrorCode } from '../../runtime/errors.js';
import type { Offer } from './machine.js';
import type { Complexity } from './proposal.js';

/** The key under which messages that belong to a proposal, and are no answer to it, name it. */
export const PROPOSAL = 'ecliptic/proposal';

/** What a `task-proposal` carries. */
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

/** What a `task-accept` carries. */
export interface AcceptPayload extends Offer {
  readonly proposalId: string;
  /** The accepting agent, as `id@node`. */
  readonly acceptedBy: string;
  /** Was it said before? */
  readonly again?: boolean;
}

/** What a `task-reject` carries. */
export interface RejectPayload {
  readonly proposalId: string;
  readonly rejectionReason: string;
  readonly alternativeSuggestion?: string;
}

/** What the proposer tells in a `notification`. */
export type Notice = 'confirm' | 'received';

/** A payload that claims to belong to a proposal, and does not say what it must. */
export interface Fault {
  readonly fault: string;
  /** Which proposal, as far as it says. */
  readonly proposalId: string | undefined;
}

const ANSWERS: ReadonlySet<string> = new Set<A2AMessageType>(['task-proposal', 'task-accept', 'task-reject']);

type Fields = Readonly<Record<string, unknown>>;

const COMPLEXITIES: ReadonlySet<unknown> = new Set<Complexity>(['simple', 'medium', 'complex']);

/** Reads a proposal; undefined for a message that is none of ours. One without an id of its own has its message's. */
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
  // Anybody may send anything under this type; only what names a proposal is answered for being none.
  return isId(fields.proposalId) ? { fault: fault ?? 'proposalId', proposalId: fields.proposalId } : undefined;
}

/** What keeps these from being the terms of a proposal. Agrees with `TaskProposalPayloadSchema`. */
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

/** Which proposal a message of another type belongs to; undefined when to none. */
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
