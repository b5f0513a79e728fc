import { toEclipticError } from '../runtime/errors.js';
import type { Failure } from './admission.js';
import type { ValidEnvelope } from './envelope.js';
import type { Carrier } from './ports.js';
import type { RegistryEntry } from './registry-index.js';

/** Takes an envelope to an agent of another node, which names the ends its own way. */
export function carryTo(
  carrier: Carrier,
  envelope: ValidEnvelope,
  source: RegistryEntry,
  target: RegistryEntry,
): Promise<void> {
  return carrier.carry(target.node!, envelope.readdress(source.card.id, target.card.id));
}

/** Why it is not where it was to go. */
export function failureOf(error: unknown): Failure {
  const { code, message: reason, details } = toEclipticError(error, 'DELIVERY_FAILED');
  return { code, reason, outcome: details.outcome as Failure['outcome'] };
}
