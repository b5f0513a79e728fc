import { describeError, EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import { weighJson } from './json-value.js';
import { LIMITS } from './limits.js';

/** What an `error` envelope carries. */
export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Details larger than this stay at home. */
const MAX_DETAIL_BYTES = 65_536;

/**
 * An error as its recipient may see it. Catalogue errors travel with their code; anything else a handler threw
 * becomes `HANDLER_FAILED` with its message, and its stack stays at home.
 */
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

/** Details come from anywhere, and must be JSON, of a decent size, to travel. */
function plain(details: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const weight = weighJson(details, MAX_DETAIL_BYTES);
  return typeof weight === 'number' ? details : {};
}
