import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';

/**
 * Our errors on the wire: the nine errors of A2A 1.0.1, JSON-RPC's own, and every other code of the catalogue under its
 * own reason.
 */

/** gRPC status names; the index is the status number. */
const GRPC_STATUSES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;

export type GrpcStatus = (typeof GRPC_STATUSES)[number];

export const JSON_RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
} as const;

interface WireError {
  readonly reason: string;
  readonly rpc: number;
  readonly http: number;
  readonly grpc: GrpcStatus;
  readonly domain: string;
}

const A2A_DOMAIN = 'a2a-protocol.org';
/** The ErrorInfo domain of reasons that the protocol does not define. */
export const OWN_DOMAIN = 'ecliptic';

export const A2A_ERRORS = {
  TASK_NOT_FOUND: a2a('TASK_NOT_FOUND', -32001, 404, 'NOT_FOUND'),
  TASK_NOT_CANCELABLE: a2a('TASK_NOT_CANCELABLE', -32002, 400, 'FAILED_PRECONDITION'),
  PUSH_NOT_SUPPORTED: a2a('PUSH_NOTIFICATION_NOT_SUPPORTED', -32003, 400, 'FAILED_PRECONDITION'),
  OPERATION_NOT_SUPPORTED: a2a('UNSUPPORTED_OPERATION', -32004, 400, 'FAILED_PRECONDITION'),
  CONTENT_TYPE_NOT_SUPPORTED: a2a('CONTENT_TYPE_NOT_SUPPORTED', -32005, 400, 'INVALID_ARGUMENT'),
  INVALID_AGENT_RESPONSE: a2a('INVALID_AGENT_RESPONSE', -32006, 500, 'INTERNAL'),
  EXTENDED_CARD_NOT_CONFIGURED: a2a('EXTENDED_AGENT_CARD_NOT_CONFIGURED', -32007, 400, 'FAILED_PRECONDITION'),
  EXTENSION_REQUIRED: a2a('EXTENSION_SUPPORT_REQUIRED', -32008, 400, 'FAILED_PRECONDITION'),
  VERSION_NOT_SUPPORTED: a2a('VERSION_NOT_SUPPORTED', -32009, 400, 'FAILED_PRECONDITION'),
} as const satisfies Partial<Record<ErrorCode, WireError>>;

const STANDARD: Partial<Record<ErrorCode, WireError>> = {
  INVALID_JSON: a2a('PARSE_ERROR', JSON_RPC.parseError, 400, 'INVALID_ARGUMENT'),
  INVALID_REQUEST: a2a('INVALID_REQUEST', JSON_RPC.invalidRequest, 400, 'INVALID_ARGUMENT'),
  METHOD_NOT_FOUND: a2a('METHOD_NOT_FOUND', JSON_RPC.methodNotFound, 404, 'UNIMPLEMENTED'),
  INVALID_PARAMS: a2a('INVALID_PARAMS', JSON_RPC.invalidParams, 400, 'INVALID_ARGUMENT'),
};

export function wireErrorOf(code: ErrorCode): WireError {
  return (A2A_ERRORS as Partial<Record<ErrorCode, WireError>>)[code] ?? STANDARD[code] ?? ofCatalogue(code);
}

/**
 * Bad requests become `Invalid params` and our faults `Internal error`, which every client understands; the reason
 * tells them apart. Other codes keep their own number.
 */
function ofCatalogue(code: ErrorCode): WireError {
  const { http, rpc } = ERRORS[code];
  if (http === 400 || http === 413) return own(code, JSON_RPC.invalidParams, http);
  return own(code, http >= 500 ? JSON_RPC.internalError : rpc, http);
}

/** The catalogue code for a remote agent's error, by reason or JSON-RPC number. */
export function codeOfWireError(rpc: number | undefined, reason: string | undefined): ErrorCode | undefined {
  const known = Object.entries({ ...A2A_ERRORS, ...STANDARD }) as [ErrorCode, WireError][];
  return known.find(([, error]) => error.reason === reason || error.rpc === rpc)?.[0];
}

interface ErrorInfo {
  readonly '@type': 'type.googleapis.com/google.rpc.ErrorInfo';
  readonly reason: string;
  readonly domain: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

interface BadRequest {
  readonly '@type': 'type.googleapis.com/google.rpc.BadRequest';
  readonly fieldViolations: readonly { readonly field: string; readonly description: string }[];
}

export type ErrorDetail = ErrorInfo | BadRequest;

export interface JsonRpcErrorBody {
  readonly code: number;
  readonly message: string;
  readonly data: readonly ErrorDetail[];
}

export function toJsonRpcError(error: unknown): JsonRpcErrorBody {
  const { code, message, details } = known(error);
  return { code: wireErrorOf(code).rpc, message, data: detailsOf(code, details) };
}

export interface HttpErrorBody {
  readonly error: {
    readonly code: number;
    readonly status: GrpcStatus;
    readonly message: string;
    readonly details: readonly ErrorDetail[];
  };
}

export function toHttpError(error: unknown): { readonly status: number; readonly body: HttpErrorBody } {
  const { code, message, details } = known(error);
  const { http, grpc } = wireErrorOf(code);
  return {
    status: http,
    body: { error: { code: http, status: grpc, message, details: detailsOf(code, details) } },
  };
}

export function toGrpcError(error: unknown): {
  readonly code: number;
  readonly message: string;
  readonly details: readonly ErrorDetail[];
} {
  const { code, message, details } = known(error);
  return { code: GRPC_STATUSES.indexOf(wireErrorOf(code).grpc), message, details: detailsOf(code, details) };
}

/** An error outside the catalogue is internal, and its text is not sent. */
function known(error: unknown): Pick<EclipticError, 'code' | 'message' | 'details'> {
  if (error instanceof EclipticError) return error;
  return { code: 'HANDLER_FAILED', message: 'internal error', details: {} };
}

function detailsOf(code: ErrorCode, details: Readonly<Record<string, unknown>>): readonly ErrorDetail[] {
  const { reason, domain } = wireErrorOf(code);
  const metadata = textsOf(details);
  const info: ErrorInfo = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain,
    ...(metadata === undefined ? {} : { metadata }),
  };
  const { field, problem } = details;
  if (typeof field !== 'string' || typeof problem !== 'string') return [info];
  const fieldViolations = [{ field, description: problem }];
  return [info, { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations }];
}

/** ErrorInfo's metadata is a map of strings; nested values are left out. */
function textsOf(details: Readonly<Record<string, unknown>>): Record<string, string> | undefined {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(details)) {
    if (typeof value === 'string' && value !== '') texts[key] = value;
    else if (typeof value === 'number' || typeof value === 'boolean') texts[key] = String(value);
    else if (Array.isArray(value) && value.every((entry) => typeof entry === 'string')) texts[key] = value.join(',');
  }
  return Object.keys(texts).length > 0 ? texts : undefined;
}

function a2a(reason: string, rpc: number, http: number, grpc: GrpcStatus): WireError {
  return { reason, rpc, http, grpc, domain: A2A_DOMAIN };
}

function own(reason: string, rpc: number, http: number): WireError {
  return {
    reason,
    rpc,
    http,
    grpc: GRPC_BY_HTTP[http] ?? (http >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT'),
    domain: OWN_DOMAIN,
  };
}

const GRPC_BY_HTTP: Readonly<Record<number, GrpcStatus>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'FAILED_PRECONDITION',
  410: 'DEADLINE_EXCEEDED',
  413: 'RESOURCE_EXHAUSTED',
  426: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** The error classes of the task gateway's specification. */

export class NotFoundError extends EclipticError {
  constructor(what: string, details: Record<string, unknown> = {}) {
    super('AGENT_NOT_FOUND', `${what} not found`, details);
    this.name = 'NotFoundError';
  }
}

/** `details` names the fields. */
export class ValidationError extends EclipticError {
  constructor(
    message: string,
    details: Record<string, unknown> = {},
    code: Extract<ErrorCode, 'INVALID_CARD' | 'INVALID_PARAMS'> = 'INVALID_PARAMS',
  ) {
    super(code, message, details);
    this.name = 'ValidationError';
  }
}

/** A remote service failed or answered something unusable; `details.status` is its HTTP status, if it has one. */
export class ExternalServiceError extends EclipticError {
  constructor(message: string, details: Record<string, unknown> = {}, code: ErrorCode = 'REMOTE_FAILED') {
    super(code, message, details);
    this.name = 'ExternalServiceError';
  }

  get status(): number | undefined {
    const { status } = this.details;
    return typeof status === 'number' ? status : undefined;
  }
}
