import { EclipticError, type ErrorCode, isErrorCode } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { codeOfWireError, OWN_DOMAIN } from '../protocol/errors.js';
import { ExternalServiceError } from '../protocol/service-errors.js';

const MAX_TEXT = 1_000;
const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';

/** Statuses that say something by themselves. */
const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: 'TOKEN_REQUIRED',
  405: 'METHOD_NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  429: 'REMOTE_BUSY',
  502: 'REMOTE_BUSY',
  503: 'REMOTE_BUSY',
  504: 'REMOTE_BUSY',
};

/** What came with an error besides its body. */
export interface ErrorSetting {
  readonly origin: string;
  readonly status?: number | undefined;
  readonly retryAfter?: string | undefined;
}

/**
 * The error that a remote agent's error is here: by its reason, its number or its status, never by its words. It is an
 * `ExternalServiceError` whatever its code, so that nobody takes it for an error of this side.
 */
export function remoteError(error: unknown, { origin, status, retryAfter }: ErrorSetting): ExternalServiceError {
  const { code, message, data, details } = isFields(error) ? error : ({} as Fields);
  const info = errorInfo(data) ?? errorInfo(details);
  const reason = text(info?.reason);
  // JSON-RPC's numbers are negative; the HTTP binding repeats its status here.
  const rpc = typeof code === 'number' && code < 0 ? code : undefined;
  const retryAfterMs = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1_000 : undefined;
  const said = text(message) ?? text(error) ?? (status === undefined ? 'an error' : `HTTP ${status}`);
  const about = { origin, status, rpc, reason, retryAfterMs };
  return new ExternalServiceError(
    `${origin} answered: ${said}`,
    Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined)),
    codeOf(rpc, reason, info?.domain, status),
  );
}

/** Did the connection end or fall silent, so that nobody knows how the call went? */
export function isBroken(error: unknown): boolean {
  if (!(error instanceof EclipticError) || error instanceof ExternalServiceError) return false;
  return error.code === 'FETCH_FAILED' || error.code === 'FETCH_TIMEOUT';
}

/** Is it certain that the request never reached the other side? */
export function wasNotSent(error: unknown): boolean {
  return isBroken(error) && (error as EclipticError).details.sent === false;
}

/** The same error where an earlier request about the same work may have reached the other side. */
export function mayHaveArrived(error: unknown): unknown {
  if (!wasNotSent(error)) return error;
  const { code, message, details } = error as EclipticError;
  return new EclipticError(code, message, { ...details, sent: true }, error);
}

function codeOf(
  rpc: number | undefined,
  reason: string | undefined,
  domain: unknown,
  status: number | undefined,
): ErrorCode {
  if (domain === OWN_DOMAIN && isErrorCode(reason)) return reason;
  return codeOfWireError(rpc, reason) ?? (status === undefined ? undefined : BY_STATUS[status]) ?? 'REMOTE_FAILED';
}

type Fields = Readonly<Record<string, unknown>>;

/** 1.0 has a list of details, 0.3 whatever its agents put there. */
function errorInfo(details: unknown): Fields | undefined {
  return Array.isArray(details) ? details.filter(isFields).find((one) => one['@type'] === ERROR_INFO) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? cutText(value, MAX_TEXT) : undefined;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
