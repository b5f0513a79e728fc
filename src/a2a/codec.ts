import { EclipticError } from '../runtime/errors.js';
import { checkEnvelope, type ValidEnvelope } from './envelope.js';
import { LIMITS } from './limits.js';
import type { A2AEnvelope } from './schemas.js';

/** The JSON text of an envelope, its schema version included. */
export function serializeEnvelope(envelope: A2AEnvelope): string {
  return JSON.stringify(checkEnvelope(envelope));
}

/** Reads what `serializeEnvelope` wrote, on this machine or another. */
export function deserializeEnvelope(text: string): ValidEnvelope {
  return checkEnvelope(parseJson(text));
}

function parseJson(text: string): unknown {
  if (typeof text !== 'string') throw new EclipticError('INVALID_ENVELOPE', 'an envelope is read from JSON text');
  if (text.length > LIMITS.envelopeChars) {
    throw new EclipticError('PAYLOAD_TOO_LARGE', `the text is longer than ${LIMITS.envelopeChars} characters`);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new EclipticError('INVALID_ENVELOPE', 'the text is not JSON', {}, cause);
  }
}
