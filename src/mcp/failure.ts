import { EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';

const FAILURE = 'ecliptic/error';

/** JSON-RPC codes of MCP for faults of the request itself. Other errors are results of a call. */
const PROTOCOL_CODES: Partial<Record<ErrorCode, number>> = {
  TOOL_NOT_FOUND: -32602,
  PROMPT_NOT_FOUND: -32602,
  RESOURCE_NOT_FOUND: -32602,
  AMBIGUOUS_AGENT: -32602,
  INVALID_REQUEST_STATE: -32602,
  TASK_NOT_FOUND: -32602,
  CAPABILITY_REQUIRED: -32021,
};

const INVALID: ReadonlySet<ErrorCode> = new Set([
  'INVALID_ARGUMENTS',
  'PROVIDER_INVALID_INPUT',
  'PROVIDER_TOOL_NOT_FOUND',
]);

/** The JSON-RPC code of a failed `tools/call`; undefined where the failure is returned as a result. */
export function protocolCode({ code }: EclipticError): number | undefined {
  return PROTOCOL_CODES[code];
}

/** The JSON-RPC code of a failed request that has no result form. */
export function errorCode(failure: EclipticError): number {
  return protocolCode(failure) ?? (INVALID.has(failure.code) ? -32602 : -32603);
}

/** The structured data of an error. */
export function failureData({ code, retryable, details }: EclipticError): Record<string, unknown> {
  const { agent, uri, faults, argument, candidates, outcome, required } = details;
  return {
    code,
    retryable,
    ...(code === 'INVALID_REQUEST_STATE' && { reason: 'invalid_request_state' }),
    ...defined({ agent, uri, faults, argument, candidates, outcome, requiredCapabilities: required }),
  };
}

/** A failed call as a tool result: text for the model; code, message and agent for programs. */
export function callFailure(error: EclipticError): object {
  const { code, message } = error;
  return {
    content: [{ type: 'text', text: `Error ${code}: ${message}` }],
    isError: true,
    _meta: { [FAILURE]: { ...failureData(error), message } },
  };
}

/** Marks a result that a tool itself reported as failed with an error code for programs. */
export function markFailure(result: unknown, error: EclipticError): object {
  const { _meta, ...rest } = result as { _meta?: object };
  return { ...rest, _meta: { ..._meta, [FAILURE]: { ...failureData(error), message: error.message } } };
}

/** The error code that a failed result is marked with. */
export function markedCode(result: unknown): ErrorCode | undefined {
  const { _meta } = (result ?? {}) as { _meta?: Record<string, unknown> };
  const { code } = (_meta?.[FAILURE] ?? {}) as { code?: unknown };
  return isErrorCode(code) ? code : undefined;
}

/** The error of a result by which a tool reports that it failed; undefined for any other result. */
export function failureOf(result: unknown, agent?: string): EclipticError | undefined {
  const { isError, content } = (result ?? {}) as { isError?: unknown; content?: unknown };
  if (isError !== true) return undefined;
  const [first] = Array.isArray(content) ? (content as { text?: unknown }[]) : [];
  const message = typeof first?.text === 'string' ? first.text : 'the tool reports that it failed';
  return new EclipticError(markedCode(result) ?? 'HANDLER_FAILED', message, agent === undefined ? {} : { agent });
}

function defined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
