/**
 * The one door to the SDK of the Agent Client Protocol: its interface changes often, so it is pinned, and nothing else
 * in this tree imports it. Loaded when the first agent is driven, because it costs time and memory.
 */
export type {
  ClientConnection,
  CreateTerminalRequest,
  InitializeResponse,
  McpServer,
  NewSessionResponse,
  PromptRequest,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionUpdate,
  StopReason,
  Stream,
  TerminalOutputResponse,
  WaitForTerminalExitResponse,
} from '@agentclientprotocol/sdk';

import { cutText } from '../../runtime/text.js';

export type AcpSdk = typeof import('@agentclientprotocol/sdk');

let loading: Promise<AcpSdk> | undefined;

export function loadAcpSdk(): Promise<AcpSdk> {
  loading ??= import('@agentclientprotocol/sdk');
  return loading;
}

/** JSON-RPC's number of "log in first", as the protocol has it. */
export const AUTH_REQUIRED = -32_000;

export function rpcCode(error: unknown): number | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'number' ? code : undefined;
}

/** Characters of an error's details that are passed on. */
const MAX_DETAIL_CHARS = 2_000;

/** Agents put what went wrong into the error's data, beside a message such as "Internal error". */
export async function withDetails<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const { data } = (error ?? {}) as { data?: unknown };
    throw addDetails(error, typeof data === 'string' ? data : detailsIn(data));
  }
}

/** The same error, whose message says more. */
export function addDetails(error: unknown, details: string | undefined): unknown {
  if (error instanceof Error && details && !error.message.includes(details)) {
    error.message = `${error.message}: ${cutText(details, MAX_DETAIL_CHARS)}`;
  }
  return error;
}

function detailsIn(data: unknown): string | undefined {
  const { details, message } = (data ?? {}) as { details?: unknown; message?: unknown };
  return [details, message].find((one): one is string => typeof one === 'string' && one !== '');
}
