import { type EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';

const FAILURE = 'ecliptic/error';

/** JSON-RPC codes of MCP for what is wrong with a request itself. Anything else is the outcome of a call. */
const PROTOCOL_CODES: Partial<Record<ErrorCode, number>> = {
  TOOL_NOT_FOUND: -32602,
  PROMPT_NOT_FOUND: -32602,
  RESOURCE_NOT_FOUND: -32602,
  AMBIGUOUS_AGENT: -32602,
  INVALID_REQUEST_STATE: -32602,
  CAPABILITY_REQUIRED: -32021,
};

const INVALID: ReadonlySet<ErrorCode> = new Set([
  'INVALID_ARGUMENTS',
  'PROVIDER_INVALID_INPUT',
  'PROVIDER_TOOL_NOT_FOUND',
]);

/** The code under which a failed `tools/call` is a protocol error; undefined where it is a result that says so. */
export function protocolCode({ code }: EclipticError): number | undefined {
  return PROTOCOL_CODES[code];
}

/** The code of a failed request that has no result to say so in. */
export function errorCode(failure: EclipticError): number {
  return protocolCode(failure) ?? (INVALID.has(failure.code) ? -32602 : -32603);
}

/** What the other side is told of an error besides its text. */
export function failureData({ code, retryable, details }: EclipticError): Record<string, unknown> {
  const { agent, uri, faults, argument, candidates, outcome, required } = details;
  return {
    code,
    retryable,
    ...(code === 'INVALID_REQUEST_STATE' && { reason: 'invalid_request_state' }),
    ...defined({ agent, uri, faults, argument, candidates, outcome, requiredCapabilities: required }),
  };
}

/** A failed call as a tool's result: its text for the model, and its code, message and source agent for programs. */
export function callFailure(error: EclipticError): object {
  const { code, message } = error;
  return {
    content: [{ type: 'text', text: `Error ${code}: ${message}` }],
    isError: true,
    _meta: { [FAILURE]: { ...failureData(error), message } },
  };
}

/** A result by which a tool itself says that it failed, with the code that programs go by. */
export function markFailure(result: unknown, error: EclipticError): object {
  const { _meta, ...rest } = result as { _meta?: object };
  return { ...rest, _meta: { ..._meta, [FAILURE]: { ...failureData(error), message: error.message } } };
}

/** The code with which a failed result is marked. */
export function markedCode(result: unknown): ErrorCode | undefined {
  const { _meta } = (result ?? {}) as { _meta?: Record<string, unknown> };
  const { code } = (_meta?.[FAILURE] ?? {}) as { code?: unknown };
  return isErrorCode(code) ? code : undefined;
}

function defined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
