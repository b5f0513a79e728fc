import { EclipticError, type ErrorCode, isErrorCode } from '../../runtime/errors.js';

/**
 * The owner's protocol: one JSON object a line, over a local socket. Both sides begin with a hello; then the client
 * sends requests and the server answers each with a result or an error, and a subscription with events until its end.
 */
export const PROTOCOL = { min: 1, max: 1 } as const;

/** Characters of one line. A payload at its largest, escaped at its worst, still fits. */
export const MAX_FRAME_CHARS = 8 * 1_048_576;

interface Hello {
  readonly hello: { readonly min: number; readonly max: number };
}

/** What the server says of itself in its hello. */
export interface ServerHello extends Hello {
  readonly node: string;
  readonly pid: number;
  readonly version: string;
}

export interface RequestFrame {
  readonly id: number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

export type ReplyFrame =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly event: unknown }
  | { readonly id: number; readonly error: WireError };

interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The version both sides speak, or a typed error that names both. */
export function negotiate(other: unknown): number {
  const { min, max } = ((other as Hello | null)?.hello ?? {}) as { min?: unknown; max?: unknown };
  if (!Number.isInteger(min) || !Number.isInteger(max)) {
    throw new EclipticError('INVALID_FRAME', 'the other side did not say which versions it speaks');
  }
  const version = Math.min(max as number, PROTOCOL.max);
  if (version < Math.max(min as number, PROTOCOL.min)) {
    const details = { ours: PROTOCOL, theirs: { min, max } };
    throw new EclipticError(
      'PROTOCOL_MISMATCH',
      `the other side speaks control protocol ${min} to ${max}, this one ${PROTOCOL.min} to ${PROTOCOL.max}`,
      details,
    );
  }
  return version;
}

export function checkRequest(frame: unknown): RequestFrame {
  const { id, method, params } = (frame ?? {}) as Partial<Record<keyof RequestFrame, unknown>>;
  const paramsFine = params === undefined || (typeof params === 'object' && params !== null && !Array.isArray(params));
  if (!Number.isSafeInteger(id) || typeof method !== 'string' || !paramsFine) {
    throw new EclipticError('INVALID_FRAME', 'a request has an integer id, a method and an object of params');
  }
  return { id: id as number, method, params: (params ?? {}) as RequestFrame['params'] };
}

export function errorFrom(wire: unknown): EclipticError {
  const { code, message, details } = (wire ?? {}) as Partial<WireError>;
  return new EclipticError(isErrorCode(code) ? code : 'INVALID_FRAME', message ?? 'the node answered with an error', {
    ...details,
  });
}
