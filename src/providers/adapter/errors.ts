import { describeError, EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import type { Redactor } from '../../system/secrets/secret.js';
import type { ProviderType } from './adapter.js';

/** The type of the provider that caused an error; `internal` for our own errors. */
type ProviderSource = ProviderType | 'internal';

/** Without `PROVIDER_UNKNOWN`: every error is mapped to a specific code. */
export type ProviderErrorCode = Exclude<Extract<ErrorCode, `PROVIDER_${string}`>, 'PROVIDER_UNKNOWN'>;

interface NormalizedErrorInit {
  readonly correlationId?: string | undefined;
  readonly originalError?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Every failure of a provider, whatever its type, is reported as this error. */
export class NormalizedProviderError extends EclipticError {
  declare readonly code: ProviderErrorCode;
  readonly providerSource: ProviderSource;
  readonly correlationId: string | undefined;

  constructor(code: ProviderErrorCode, message: string, source: ProviderSource, init: NormalizedErrorInit = {}) {
    const { correlationId, originalError, details } = init;
    const about = { ...details, providerSource: source, ...(correlationId !== undefined && { correlationId }) };
    super(code, message, about, originalError);
    this.name = 'NormalizedProviderError';
    this.providerSource = source;
    this.correlationId = correlationId;
  }

  get originalError(): unknown {
    return this.cause;
  }
}

/** The provider's code for an error of the catalogue. Not listed: `PROVIDER_EXECUTE_FAILED`. */
const BY_CODE: Partial<Record<ErrorCode, ProviderErrorCode>> = {
  AGENT_NOT_FOUND: 'PROVIDER_UNAVAILABLE',
  AGENT_UNAVAILABLE: 'PROVIDER_UNAVAILABLE',
  CANCELLED: 'PROVIDER_CANCELLED',
  CAPABILITY_NOT_FOUND: 'PROVIDER_NO_CAPABLE_ENDPOINT',
  CAPABILITY_REQUIRED: 'PROVIDER_INVALID_INPUT',
  CARD_REFUSED: 'PROVIDER_POLICY_DENIED',
  CREDENTIAL_DENIED: 'PROVIDER_CREDENTIAL_DENIED',
  CREDENTIAL_MISSING: 'PROVIDER_CREDENTIAL_MISSING',
  CREDENTIAL_UNREADABLE: 'PROVIDER_CREDENTIAL_MISSING',
  CONTENT_TYPE_NOT_SUPPORTED: 'PROVIDER_INVALID_INPUT',
  DELEGATION_REFUSED: 'PROVIDER_POLICY_DENIED',
  EXTENSION_REQUIRED: 'PROVIDER_PROTOCOL_MISMATCH',
  FETCH_FAILED: 'PROVIDER_UNAVAILABLE',
  FETCH_REFUSED: 'PROVIDER_POLICY_DENIED',
  FETCH_TIMEOUT: 'PROVIDER_TIMEOUT',
  INVALID_ARGUMENTS: 'PROVIDER_INVALID_INPUT',
  INVALID_CARD: 'PROVIDER_PROTOCOL_MISMATCH',
  INVALID_CONFIG: 'PROVIDER_INIT_FAILED',
  INVALID_ENVELOPE: 'PROVIDER_INVALID_INPUT',
  INVALID_FRAME: 'PROVIDER_PROTOCOL_MISMATCH',
  INVALID_JSON: 'PROVIDER_INVALID_INPUT',
  INVALID_PARAMS: 'PROVIDER_INVALID_INPUT',
  INVALID_REQUEST: 'PROVIDER_INVALID_INPUT',
  JAIL_UNAVAILABLE: 'PROVIDER_INIT_FAILED',
  LOGIN_FAILED: 'PROVIDER_CREDENTIAL_DENIED',
  LOGIN_REQUIRED: 'PROVIDER_CREDENTIAL_MISSING',
  MAILBOX_FULL: 'PROVIDER_RATE_LIMITED',
  METHOD_NOT_FOUND: 'PROVIDER_TOOL_NOT_FOUND',
  NODE_STOPPED: 'PROVIDER_TERMINATED',
  NOT_GRANTED: 'PROVIDER_POLICY_DENIED',
  NOT_HANDLED: 'PROVIDER_TOOL_NOT_FOUND',
  OPERATION_NOT_SUPPORTED: 'PROVIDER_TOOL_NOT_FOUND',
  PAYLOAD_TOO_LARGE: 'PROVIDER_INVALID_INPUT',
  PEER_UNREACHABLE: 'PROVIDER_UNAVAILABLE',
  PROCESS_ENDED: 'PROVIDER_CRASHED',
  PROCESS_START_FAILED: 'PROVIDER_INIT_FAILED',
  PROMPT_NOT_FOUND: 'PROVIDER_TOOL_NOT_FOUND',
  PROTOCOL_MISMATCH: 'PROVIDER_PROTOCOL_MISMATCH',
  QUEUE_FULL: 'PROVIDER_QUEUE_FULL',
  RATE_LIMITED: 'PROVIDER_RATE_LIMITED',
  REMOTE_BUSY: 'PROVIDER_UNAVAILABLE',
  REQUEST_TIMEOUT: 'PROVIDER_TIMEOUT',
  RESOURCE_NOT_FOUND: 'PROVIDER_TOOL_NOT_FOUND',
  SANDBOX_VIOLATION: 'PROVIDER_POLICY_DENIED',
  SERVER_NOT_FOUND: 'PROVIDER_UNAVAILABLE',
  TIER_VIOLATION: 'PROVIDER_POLICY_DENIED',
  TOKEN_REQUIRED: 'PROVIDER_CREDENTIAL_DENIED',
  TOOL_NOT_FOUND: 'PROVIDER_TOOL_NOT_FOUND',
  VERSION_NOT_SUPPORTED: 'PROVIDER_PROTOCOL_MISMATCH',
};

const BY_STATUS: Readonly<Record<number, ProviderErrorCode>> = {
  400: 'PROVIDER_INVALID_INPUT',
  401: 'PROVIDER_CREDENTIAL_MISSING',
  403: 'PROVIDER_CREDENTIAL_DENIED',
  404: 'PROVIDER_TOOL_NOT_FOUND',
  405: 'PROVIDER_TOOL_NOT_FOUND',
  408: 'PROVIDER_TIMEOUT',
  413: 'PROVIDER_INVALID_INPUT',
  415: 'PROVIDER_INVALID_INPUT',
  422: 'PROVIDER_INVALID_INPUT',
  426: 'PROVIDER_PROTOCOL_MISMATCH',
  429: 'PROVIDER_RATE_LIMITED',
  499: 'PROVIDER_CANCELLED',
  502: 'PROVIDER_UNAVAILABLE',
  503: 'PROVIDER_UNAVAILABLE',
  504: 'PROVIDER_TIMEOUT',
};

/** The error codes of JSON-RPC, ACP and MCP. */
const BY_RPC: Readonly<Record<number, ProviderErrorCode>> = {
  [-32_700]: 'PROVIDER_PROTOCOL_MISMATCH',
  [-32_600]: 'PROVIDER_PROTOCOL_MISMATCH',
  [-32_601]: 'PROVIDER_TOOL_NOT_FOUND',
  [-32_602]: 'PROVIDER_INVALID_INPUT',
  [-32_000]: 'PROVIDER_CREDENTIAL_MISSING',
  [-32_002]: 'PROVIDER_TOOL_NOT_FOUND',
  [-32_800]: 'PROVIDER_CANCELLED',
};

const BY_ERRNO: Readonly<Record<string, ProviderErrorCode>> = {
  ECONNREFUSED: 'PROVIDER_UNAVAILABLE',
  ENOTFOUND: 'PROVIDER_UNAVAILABLE',
  EAI_AGAIN: 'PROVIDER_UNAVAILABLE',
  EHOSTUNREACH: 'PROVIDER_UNAVAILABLE',
  ENETUNREACH: 'PROVIDER_UNAVAILABLE',
  ECONNRESET: 'PROVIDER_CRASHED',
  EPIPE: 'PROVIDER_CRASHED',
  ERR_STREAM_DESTROYED: 'PROVIDER_CRASHED',
  ERR_STREAM_PREMATURE_CLOSE: 'PROVIDER_CRASHED',
  ERR_IPC_CHANNEL_CLOSED: 'PROVIDER_CRASHED',
  ETIMEDOUT: 'PROVIDER_TIMEOUT',
  ENOENT: 'PROVIDER_INIT_FAILED',
  EACCES: 'PROVIDER_INIT_FAILED',
};

const MAX_DEPTH = 4;

/** Normalises anything that was thrown, by its structure and never by its message. */
export function normalizeError(
  error: unknown,
  source: ProviderSource,
  correlationId?: string,
): NormalizedProviderError {
  if (error instanceof NormalizedProviderError) {
    if (correlationId === undefined || error.correlationId !== undefined) return error;
    const { code, message, providerSource, originalError, details } = error;
    return new NormalizedProviderError(code, message, providerSource, { correlationId, originalError, details });
  }
  const code = codeOf(error, source) ?? 'PROVIDER_EXECUTE_FAILED';
  const message = describeError(error) || ERRORS[code].meaning;
  const details = error instanceof EclipticError ? { ...error.details, code: error.code } : structureOf(error);
  return new NormalizedProviderError(code, message, source, { correlationId, originalError: error, details });
}

/** Abort reasons that keep their code; any other means that the caller cancelled. */
const ABORTS: ReadonlySet<ProviderErrorCode> = new Set(['PROVIDER_TIMEOUT', 'PROVIDER_TERMINATED']);

/** The error for work that an abort signal ended. */
export function normalizeAbort(
  { reason }: AbortSignal,
  source: ProviderSource,
  correlationId?: string,
): NormalizedProviderError {
  const normal = normalizeError(reason, source, correlationId);
  if (ABORTS.has(normal.code) || normal.code === 'PROVIDER_CANCELLED') return normal;
  const message = 'the caller cancelled the work';
  return new NormalizedProviderError('PROVIDER_CANCELLED', message, source, { correlationId, originalError: reason });
}

/** May the same call succeed later? */
export function isRetryable(error: unknown): boolean {
  return error instanceof EclipticError ? error.retryable : normalizeError(error, 'internal').retryable;
}

function codeOf(error: unknown, source: ProviderSource, depth = 0): ProviderErrorCode | undefined {
  if (error instanceof EclipticError) return codeOfOurs(error);
  if (typeof error !== 'object' || error === null || depth === MAX_DEPTH) return undefined;
  const { name, exitCode, signal, status, statusCode, code, issues, cause, syscall } = error as Fields;
  if (typeof exitCode === 'number' || (typeof signal === 'string' && signal.startsWith('SIG'))) {
    return 'PROVIDER_CRASHED';
  }
  if (name === 'AbortError') return codeOf(cause, source, depth + 1) ?? 'PROVIDER_CANCELLED';
  if (name === 'TimeoutError') return 'PROVIDER_TIMEOUT';
  if (Array.isArray(issues)) return 'PROVIDER_INVALID_INPUT';
  if (typeof syscall === 'string' && syscall.startsWith('spawn')) return 'PROVIDER_INIT_FAILED';
  const http = [status, statusCode].find((one): one is number => typeof one === 'number');
  return (
    (http === undefined ? undefined : byStatus(http)) ??
    (typeof code === 'number' ? byNumber(code, source) : undefined) ??
    (typeof code === 'string' && Object.hasOwn(BY_ERRNO, code) ? BY_ERRNO[code] : undefined) ??
    codeOf(cause, source, depth + 1)
  );
}

/** Some codes have several meanings, told apart by their details. */
function codeOfOurs({ code, details }: EclipticError): ProviderErrorCode {
  // A node of another release may send it.
  if (code === 'PROVIDER_UNKNOWN') return 'PROVIDER_EXECUTE_FAILED';
  if (code.startsWith('PROVIDER_')) return code as ProviderErrorCode;
  // The request was sent; its effect is unknown.
  if (code === 'FETCH_FAILED' && details.sent === true) return 'PROVIDER_CRASHED';
  if (code === 'AGENT_UNAVAILABLE' && details.outcome === 'unknown') return 'PROVIDER_CRASHED';
  if ((code === 'REMOTE_BUSY' || code === 'REMOTE_FAILED') && typeof details.status === 'number') {
    return byStatus(details.status) ?? BY_CODE[code] ?? 'PROVIDER_EXECUTE_FAILED';
  }
  return BY_CODE[code] ?? 'PROVIDER_EXECUTE_FAILED';
}

function byStatus(status: number): ProviderErrorCode | undefined {
  if (Object.hasOwn(BY_STATUS, status)) return BY_STATUS[status];
  return status >= 400 && status < 600 ? 'PROVIDER_EXECUTE_FAILED' : undefined;
}

/** Negative numbers are JSON-RPC's, positive ones HTTP statuses. */
function byNumber(code: number, source: ProviderSource): ProviderErrorCode | undefined {
  if (code > 0) return byStatus(code);
  // Only ACP defines -32000: authentication required.
  if (code === -32_000 && source !== 'acp') return 'PROVIDER_EXECUTE_FAILED';
  return Object.hasOwn(BY_RPC, code) ? BY_RPC[code] : 'PROVIDER_EXECUTE_FAILED';
}

type Fields = Readonly<Record<string, unknown>>;

/** The machine-readable fields of a foreign error. */
function structureOf(error: unknown): Fields {
  if (typeof error !== 'object' || error === null) return {};
  const fields = error as Fields;
  const told = ['exitCode', 'signal', 'status', 'code'].filter((key) =>
    ['string', 'number'].includes(typeof fields[key]),
  );
  return Object.fromEntries(told.map((key) => [key, fields[key]]));
}

/** The same failure without the provider's secrets, and without its cause, which may contain them. */
export function redactedError(failure: NormalizedProviderError, redactor: Redactor): NormalizedProviderError {
  const { code, message, providerSource, correlationId } = failure;
  const details = redactor.cleanAll(failure.details);
  return new NormalizedProviderError(code, redactor.clean(message), providerSource, { correlationId, details });
}
