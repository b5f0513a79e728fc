import type { Client, VersionNegotiationMode } from '@modelcontextprotocol/client';
import { describeError, EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import type { Redactor } from '../../system/secrets/secret.js';

export type ClientSdk = typeof import('@modelcontextprotocol/client');

let loading: Promise<ClientSdk> | undefined;

/** The SDK loads slowly and is needed only for upstream servers. */
export function loadClientSdk(): Promise<ClientSdk> {
  loading ??= import('@modelcontextprotocol/client');
  return loading;
}

/** Codes of the error responses for a broken or too long stream. */
export const LOST_CODE = -32_099;
export const TOO_LARGE_CODE = -32_098;

/** Our errors for the codes of JSON-RPC and MCP. */
const BY_RPC_CODE: Readonly<Record<number, ErrorCode>> = {
  [-32_601]: 'NOT_HANDLED',
  [-32_602]: 'INVALID_ARGUMENTS',
  [-32_002]: 'RESOURCE_NOT_FOUND',
  [-32_021]: 'CAPABILITY_REQUIRED',
  [LOST_CODE]: 'AGENT_UNAVAILABLE',
  [TOO_LARGE_CODE]: 'PAYLOAD_TOO_LARGE',
};

/** Explains failures of its own kind; undefined for others. */
export interface ExplainsFailures {
  explain(sdk: ClientSdk, error: unknown): EclipticError | undefined;
}

/** Translates failures of one server into our errors, without secrets. */
export function explainer(
  sdk: ClientSdk,
  server: string,
  redactor: Redactor,
  login?: ExplainsFailures,
): (error: unknown) => EclipticError {
  return (error) => {
    const { code, message, details } = login?.explain(sdk, error) ?? upstreamFailure(sdk, server, error);
    return new EclipticError(code, redactor.clean(message), redactor.cleanAll(details));
  };
}

function upstreamFailure(sdk: ClientSdk, server: string, error: unknown): EclipticError {
  if (error instanceof EclipticError) return error;
  const say = (code: ErrorCode, reason: string, details: Record<string, unknown> = {}) =>
    new EclipticError(code, `MCP server "${server}": ${reason}`, { server, ...details }, error);
  if (error instanceof sdk.ProtocolError) {
    const { code, message, data } = error;
    const { requiredCapabilities, uri } = (data ?? {}) as Record<string, unknown>;
    return say(BY_RPC_CODE[code] ?? 'HANDLER_FAILED', message, {
      upstreamCode: code,
      ...(requiredCapabilities !== undefined && { required: requiredCapabilities }),
      ...(uri !== undefined && { uri }),
      ...(code === LOST_CODE && { outcome: 'unknown' }),
    });
  }
  const status = httpStatus(sdk, error);
  if (status === 401 || status === 403)
    return say('TOKEN_REQUIRED', `it refuses what it is sent for a token (${status})`);
  if (status !== undefined) return say('AGENT_UNAVAILABLE', `it answered with HTTP ${status}`, { outcome: 'unknown' });
  if (isLost(sdk, error)) return say('AGENT_UNAVAILABLE', 'it was lost before it answered', { outcome: 'unknown' });
  if (error instanceof sdk.SdkError) {
    const code = error.code === sdk.SdkErrorCode.RequestTimeout ? 'REQUEST_TIMEOUT' : 'INVALID_RESULT';
    return say(code, error.message);
  }
  return say('INVALID_RESULT', describeError(error));
}

const LOST: ReadonlySet<ErrorCode> = new Set(['AGENT_UNAVAILABLE', 'PROCESS_ENDED', 'LOGIN_REQUIRED']);

/** Does the failure mean that the server cannot be reached any more? */
export function isLost(sdk: ClientSdk, error: unknown): boolean {
  if (error instanceof EclipticError) return LOST.has(error.code);
  if (error instanceof sdk.ProtocolError) return error.code === LOST_CODE;
  const status = httpStatus(sdk, error);
  // A server answers 404 for a session that it has lost.
  if (status !== undefined) return status === 401 || status === 403 || status === 404 || status >= 500;
  if (!(error instanceof sdk.SdkError)) return false;
  const { ConnectionClosed, NotConnected, SendFailed } = sdk.SdkErrorCode;
  return error.code === ConnectionClosed || error.code === NotConnected || error.code === SendFailed;
}

function httpStatus(sdk: ClientSdk, error: unknown): number | undefined {
  if (error instanceof sdk.SdkHttpError) return error.status;
  return error instanceof sdk.UnauthorizedError ? 401 : undefined;
}

/** The stateless protocol revision. */
export const MODERN = '2026-07-28';
/** The longest handshake; the supervisor's own limit comes first. */
export const HANDSHAKE_MS = 60_000;

/** The capabilities that a 2025-era server may use during a call; a newer one gets the caller's with each call. */
const CAPABILITIES = { elicitation: { form: { applyDefaults: true } } };

/** A client that relays: a server's questions go to the caller; nothing is answered or repeated here. */
export function clientFor(sdk: ClientSdk, mode: VersionNegotiationMode): Client {
  return new sdk.Client(
    { name: 'ecliptic', version: VERSION },
    { capabilities: CAPABILITIES, versionNegotiation: { mode }, inputRequired: { autoFulfill: false } },
  );
}
