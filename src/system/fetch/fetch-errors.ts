import { EclipticError } from '../../runtime/errors.js';

/** The broken rule, in `details.reason` of `FETCH_REFUSED`. */
type RefusalReason =
  | 'address'
  | 'downgrade'
  | 'encoding'
  | 'header'
  | 'method'
  | 'name'
  | 'port'
  | 'redirects'
  | 'scheme'
  | 'url'
  | 'userinfo';

// Errors name only the origin of a URL: paths and queries of webhooks and cards contain secrets.

export function refused(reason: RefusalReason, message: string, details: Record<string, unknown> = {}): EclipticError {
  return new EclipticError('FETCH_REFUSED', message, { reason, ...details });
}

interface Failure {
  readonly origin: string;
  /** The system's error code, such as `ECONNREFUSED`. */
  readonly cause: string;
  /** May the other side have received the request? */
  readonly sent: boolean;
  /** Was the connection used before? */
  readonly reused?: boolean;
}

/** Without the original error as cause: it may contain bytes of the answer. */
export function failed(failure: Failure): EclipticError {
  return new EclipticError('FETCH_FAILED', `${failure.origin} could not be fetched (${failure.cause})`, { ...failure });
}

export function timedOut(origin: string, limit: 'timeoutMs' | 'idleMs' | 'streamMs', ms: number): EclipticError {
  const what = limit === 'idleMs' ? 'fell silent for' : 'took longer than';
  return new EclipticError('FETCH_TIMEOUT', `${origin} ${what} ${ms} ms`, { origin, limit, ms });
}

export function tooLarge(what: string, maxBytes: number): EclipticError {
  return new EclipticError('PAYLOAD_TOO_LARGE', `${what} is larger than ${maxBytes} bytes`, { maxBytes });
}

export function causeOf(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : 'unknown';
}
