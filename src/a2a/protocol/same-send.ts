import { canonicalJson } from '../../network/membership/statement.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Message, SendMessageRequest } from './types.js';

/** What a send asks for besides its message: recorded with its task, so that a repeated key can be compared. */
export interface SendFacts {
  readonly contextId?: string | undefined;
  readonly tenant?: string | undefined;
  readonly skill?: string | undefined;
}

export function sendFacts({ message, metadata }: SendMessageRequest, tenant: string | undefined): SendFacts {
  return { contextId: message.contextId, tenant, skill: skillIn(metadata) ?? skillIn(message.metadata) };
}

/**
 * A repeated key means the first task only if it repeats the request. Metadata may differ: a retry has trace ids of its
 * own. Tasks of earlier releases have no facts; of those the message alone is compared.
 */
export function requireSameSend(
  first: { readonly message: Message; readonly facts: SendFacts | undefined },
  again: { readonly message: Message; readonly facts: SendFacts },
): void {
  const { facts } = first;
  const differs = (['contextId', 'tenant', 'skill'] as const).find(
    (name) => facts !== undefined && facts[name] !== again.facts[name],
  );
  if (differs !== undefined) throw conflict(differs);
  requireSameMessage(first.message, again.message);
}

/** The same message again, be its own id the same or not. */
export function requireSameMessage(first: Message, again: Message): void {
  const differs = (['parts', 'referenceTaskIds'] as const).find((name) => !isSameContent(first[name], again[name]));
  if (differs !== undefined) throw conflict(differs);
}

/** Is it the same JSON, in whatever order its members are? */
export function isSameContent(one: unknown, other: unknown): boolean {
  return canonicalJson(one ?? null) === canonicalJson(other ?? null);
}

function conflict(differs: string): EclipticError {
  const text = `the message id or Idempotency-Key belongs to an earlier request; this one differs in its ${differs}`;
  return new EclipticError('IDEMPOTENCY_CONFLICT', text, { differs });
}

function skillIn(metadata: Message['metadata']): string | undefined {
  const skill = metadata?.skill ?? metadata?.skillId;
  return typeof skill === 'string' && skill !== '' ? skill : undefined;
}
