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
