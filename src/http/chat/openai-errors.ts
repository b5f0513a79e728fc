import type { ServerResponse } from 'node:http';
import { ERRORS, type ErrorCode, toEclipticError } from '../../runtime/errors.js';
import { sendJson } from '../server/http-server.js';

/** An error in the shape of the OpenAI API. */
export interface ApiError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string;
}

/** The codes that clients of the API know. */
const CODES: Partial<Record<ErrorCode, string>> = {
  TOKEN_REQUIRED: 'invalid_api_key',
  AGENT_NOT_FOUND: 'model_not_found',
  RATE_LIMITED: 'rate_limit_exceeded',
  TASK_NOT_FOUND: 'response_not_found',
};

export function toApiError(error: unknown): { readonly status: number; readonly error: ApiError } {
  const { code, message, details } = toEclipticError(error, 'HANDLER_FAILED');
  const status = ERRORS[code].http;
  const { field } = details;
  const param = typeof field === 'string' && field !== '' ? field : null;
  return { status, error: { message, type: typeOf(status), param, code: CODES[code] ?? code.toLowerCase() } };
}

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

export function refuseRequest(response: ServerResponse, error: unknown): void {
  const refused = toApiError(error);
  sendJson(response, refused.status, { error: refused.error });
}
