import { EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';

/** What an `error` envelope carries. */
export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * An error as its recipient may see it. Catalogue errors travel with their code; anything else a handler threw
 * becomes `HANDLER_FAILED` with its message, and its stack stays at home.
 */
export function toWireError(error: unknown): WireError {
  if (error instanceof EclipticError)
    return { code: error.code, message: error.message, details: plain(error.details) };
  return { code: 'HANDLER_FAILED', message: error instanceof Error ? error.message : String(error), details: {} };
}

export function fromWireError(payload: unknown, from: string): EclipticError {
  const { code, message, details } = (payload ?? {}) as Partial<Record<keyof WireError, unknown>>;
  return new EclipticError(
    isErrorCode(code) ? code : 'HANDLER_FAILED',
    typeof message === 'string' ? message : `${from} answered with an error`,
    { ...(typeof details === 'object' ? details : {}), from },
  );
}

/** Details come from anywhere, and must be JSON to travel. */
function plain(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  try {
    return JSON.parse(JSON.stringify(details));
  } catch {
    return {};
  }
}
