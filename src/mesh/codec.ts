import { describeError, EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import { checkEnvelope, fromFields, type ValidEnvelope } from './envelope.js';
import { weighJson } from './json-value.js';
import { LIMITS } from './limits.js';
import type { A2AEnvelope } from './schemas.js';

export function serializeEnvelope(envelope: A2AEnvelope): string {
  return JSON.stringify(checkEnvelope(envelope));
}

export function deserializeEnvelope(text: string): ValidEnvelope {
  return checkEnvelope(parseJson(text));
}

/** An envelope on the wire between nodes: the values of its fields in a fixed order. */
export type PackedEnvelope = readonly unknown[];

/** Packs an envelope as JSON, without the brackets. Written by hand for speed: most fields need no escaping. */
export function packEnvelope(envelope: ValidEnvelope): string {
  const { schemaVersion, id, sender, recipient, type, timestamp, payload, correlationId, metadata } = envelope;
  const always = `${schemaVersion},${quote(id)},"${sender}",${quote(recipient)},"${type}",${timestamp},${JSON.stringify(payload)}`;
  if (metadata === undefined) return correlationId === undefined ? always : `${always},${quote(correlationId)}`;
  return `${always},${correlationId === undefined ? null : quote(correlationId)},${JSON.stringify(metadata)}`;
}

/** A packed envelope as JSON. */
export function envelopeText(envelope: ValidEnvelope): string {
  return `[${packEnvelope(envelope)}]`;
}

const PLAIN = /^[\w@-]*$/;

function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** The inverse of `packEnvelope`, from index `at` on; throws `INVALID_ENVELOPE`. */
export function unpackEnvelope(packed: PackedEnvelope, at = 0): ValidEnvelope {
  const thread = packed[at + 7] ?? undefined;
  const envelope = fromFields(
    packed[at],
    packed[at + 1],
    packed[at + 2],
    packed[at + 3],
    thread,
    packed[at + 4],
    packed[at + 5],
    packed[at + 6],
    packed[at + 8],
  );
  if (envelope) return envelope;
  throw new EclipticError('INVALID_ENVELOPE', 'a field of the packed envelope is wrong');
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

export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

const MAX_DETAIL_BYTES = 65_536;

/** An error for its recipient: with its code if it is of the catalogue, otherwise `HANDLER_FAILED`; never its stack. */
export function toWireError(error: unknown): WireError {
  const message = cutText(describeError(error), LIMITS.textChars);
  if (!(error instanceof EclipticError)) return { code: 'HANDLER_FAILED', message, details: {} };
  return { code: error.code, message, details: plain(error.details) };
}

export function fromWireError(payload: unknown, from: string): EclipticError {
  const { code, message, details } = (payload ?? {}) as Partial<Record<keyof WireError, unknown>>;
  return new EclipticError(
    isErrorCode(code) ? code : 'HANDLER_FAILED',
    typeof message === 'string' ? message : `${from} answered with an error`,
    { ...(typeof details === 'object' ? details : {}), from },
  );
}

/** Only details that are JSON of limited size are sent. */
function plain(details: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const weight = weighJson(details, MAX_DETAIL_BYTES);
  return typeof weight === 'number' ? details : {};
}
