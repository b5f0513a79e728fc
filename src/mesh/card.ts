import { EclipticError } from '../runtime/errors.js';
import { type AgentCard, AgentCardSchema } from './schemas.js';

/**
 * Takes anything that claims to be a card; gives back a frozen copy of one that is, or throws `INVALID_CARD` with
 * every fault listed.
 */
export function checkCard(value: unknown): AgentCard {
  const parsed = AgentCardSchema.safeParse(value);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'card'}: ${issue.message}`);
    throw new EclipticError('INVALID_CARD', `not a valid agent card: ${faults.join('; ')}`, { faults });
  }
  // The copy goes through JSON because that is what a card must survive; the caller's own object stays its own.
  return freezeDeep(JSON.parse(JSON.stringify(parsed.data)) as AgentCard);
}

function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) freezeDeep(member);
    Object.freeze(value);
  }
  return value;
}
