import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';

/**
 * Our errors as A2A clients know them: the nine errors of the protocol with the numbers of 1.0.1, JSON-RPC's own, and
 * everything else of the catalogue under its own reason.
 */

/** The names of gRPC's statuses, at the place of their number. */
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
/** For reasons that the protocol does not know. */
export const OWN_DOMAIN = 'ecliptic';

/** The nine errors of the protocol. */
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

export type A2AErrorCode = keyof typeof A2A_ERRORS;

/** Codes that JSON-RPC has numbers for. */
const STANDARD: Partial<Record<ErrorCode, WireError>> = {
  INVALID_JSON: a2a('PARSE_ERROR', JSON_RPC.parseError, 400, 'INVALID_ARGUMENT'),
  INVALID_REQUEST: a2a('INVALID_REQUEST', JSON_RPC.invalidRequest, 400, 'INVALID_ARGUMENT'),
  METHOD_NOT_FOUND: a2a('METHOD_NOT_FOUND', JSON_RPC.methodNotFound, 404, 'UNIMPLEMENTED'),
  INVALID_PARAMS: a2a('INVALID_PARAMS', JSON_RPC.invalidParams, 400, 'INVALID_ARGUMENT'),
};

/** How an error of the catalogue is called on each binding. */
export function wireErrorOf(code: ErrorCode): WireError {
  return (A2A_ERRORS as Partial<Record<ErrorCode, WireError>>)[code] ?? STANDARD[code] ?? ofCatalogue(code);
}

/**
 * A wrong request is `Invalid params` and a fault of ours `Internal error`, which every client understands; the
 * reason tells them apart. What lies between keeps its own number.
 */
function ofCatalogue(code: ErrorCode): WireError {
  const { http, rpc } = ERRORS[code];
  if (http === 400 || http === 413) return own(code, JSON_RPC.invalidParams, http);
  return own(code, http >= 500 ? JSON_RPC.internalError : rpc, http);
}

/** The code of ours that a remote agent's error stands for, by its reason or its number. */
export function codeOfWireError(rpc: number | undefined, reason: string | undefined): ErrorCode | undefined {
  for (const [code, known] of Object.entries(A2A_ERRORS) as [A2AErrorCode, WireError][]) {
    if (known.reason === reason || known.rpc === rpc) return code;
  }
  for (const [code, known] of Object.entries(STANDARD) as [ErrorCode, WireError][]) {
    if (known.reason === reason || known.rpc === rpc) return code;
  }
  return undefined;
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

/** The error body of the HTTP binding: google.rpc.Status. */
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

/** For gRPC: the number of its status, its message, and the details to be packed. */
export function toGrpcError(error: unknown): {
  readonly code: number;
  readonly message: string;
  readonly details: readonly ErrorDetail[];
} {
  const { code, message, details } = known(error);
  return { code: GRPC_STATUSES.indexOf(wireErrorOf(code).grpc), message, details: detailsOf(code, details) };
}

/** What was thrown by no rule of ours is an internal error, and its text stays at home. */
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

/** ErrorInfo's metadata is a map of texts; anything deeper is left out. */
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
  return { reason, rpc, http, grpc: grpcOf(http), domain: OWN_DOMAIN };
}

function grpcOf(http: number): GrpcStatus {
  switch (http) {
    case 401:
      return 'UNAUTHENTICATED';
    case 403:
      return 'PERMISSION_DENIED';
    case 404:
      return 'NOT_FOUND';
    case 409:
    case 426:
      return 'FAILED_PRECONDITION';
    case 410:
    case 504:
      return 'DEADLINE_EXCEEDED';
    case 413:
    case 429:
      return 'RESOURCE_EXHAUSTED';
    case 499:
      return 'CANCELLED';
    case 501:
      return 'UNIMPLEMENTED';
    case 502:
    case 503:
      return 'UNAVAILABLE';
    default:
      return http >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT';
  }
}

/** The kinds of errors that the task interface tells apart by class. */

/** Something that was asked for is not there: "Agent with default project". */
export class NotFoundError extends EclipticError {
  constructor(what: string, details: Record<string, unknown> = {}) {
    super('AGENT_NOT_FOUND', `${what} not found`, details);
    this.name = 'NotFoundError';
  }
}

/** What was given does not have the fields that it must have; `details` names them. */
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

/** Another service answered, and not with what was asked for; `details.status` is its HTTP status, if that says so. */
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
