import type { EclipticError, ErrorCode } from '../runtime/errors.js';

/** JSON-RPC codes of MCP for what is wrong with a request itself. Anything else is the outcome of a call. */
const PROTOCOL_CODES: Partial<Record<ErrorCode, number>> = {
  TOOL_NOT_FOUND: -32602,
  PROMPT_NOT_FOUND: -32602,
  RESOURCE_NOT_FOUND: -32602,
  AMBIGUOUS_AGENT: -32602,
  INVALID_REQUEST_STATE: -32602,
  CAPABILITY_REQUIRED: -32021,
};

/** The code under which a failed `tools/call` is a protocol error; undefined where it is a result that says so. */
export function protocolCode({ code }: EclipticError): number | undefined {
  return PROTOCOL_CODES[code];
}

/** The code of a failed request that has no result to say so in. */
export function errorCode(failure: EclipticError): number {
  return protocolCode(failure) ?? (failure.code === 'INVALID_ARGUMENTS' ? -32602 : -32603);
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
    _meta: { 'ecliptic/error': { ...failureData(error), message } },
  };
}

function defined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
