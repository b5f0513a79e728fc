import { EclipticError } from '../../runtime/errors.js';

/** Which rule a fetch broke; in `details.reason` of `FETCH_REFUSED`. */
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

// Of a URL only the origin may be named: paths and queries of webhooks and cards carry secrets.

export function refused(reason: RefusalReason, message: string, details: Record<string, unknown> = {}): EclipticError {
  return new EclipticError('FETCH_REFUSED', message, { reason, ...details });
}

interface Failure {
  readonly origin: string;
  /** The system's word for it, e.g. `ECONNREFUSED`. */
  readonly cause: string;
  /** May the other side have seen the request? */
  readonly sent: boolean;
  /** Was it the second or later request on its connection? */
  readonly reused?: boolean;
}

/** The original error is left behind: it may hold bytes of the answer. */
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
