import type { PromptResponse as StablePromptResponse, Stream } from '@agentclientprotocol/sdk';
import { Deferred } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Child } from '../../system/process/child.js';
import { Allowance, readLines } from '../../system/process/lines.js';

/**
 * The only import of the Agent Client Protocol's SDK: its interface changes often, so its version is pinned. It is loaded
 * with the first agent, because it costs time and memory.
 */
export type {
  AgentConnection,
  AgentContext,
  ClientConnection,
  ContentBlock,
  CreateTerminalRequest,
  InitializeResponse,
  LoadSessionResponse,
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

/** What a prompt cost, as agents add it to its answer; the protocol's first version does not describe it yet. */
export interface PromptUsage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cachedReadTokens?: number;
  readonly cachedWriteTokens?: number;
}

export type PromptResponse = StablePromptResponse & { readonly usage?: PromptUsage | null };

/** The protocol's JSON-RPC error code for a missing login. */
export const AUTH_REQUIRED = -32_000;

export function rpcCode(error: unknown): number | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'number' ? code : undefined;
}

const MAX_DETAIL_CHARS = 2_000;

/** Agents explain an error in its data, beside a message such as "Internal error"; this moves it into the message. */
export async function withDetails<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const { data } = (error ?? {}) as { data?: unknown };
    throw addDetails(error, typeof data === 'string' ? data : detailsIn(data));
  }
}

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

type Message = Stream['readable'] extends ReadableStream<infer M> ? M : never;

/** Lines that are not messages, such as a banner, are skipped; a program that writes more of them speaks no ACP. */
const MAX_SKIPPED = 1_000;

interface ChildStream {
  readonly stream: Stream;
  /** Resolves, with the reason, when nothing more can be read from the child. */
  readonly ended: Promise<EclipticError>;
}

/** JSON-RPC over a child's standard input and output, read at a bounded rate. */
export function childStream(runtime: Runtime, child: Child, onMessage: () => void): ChildStream {
  const allowance = new Allowance(runtime);
  let skipped = 0;
  const ended = new Deferred<EclipticError>();
  const readable = new ReadableStream<Message>({
    start(controller) {
      const take = (line: string) => {
        const message = parse(line);
        if (message) {
          onMessage();
          controller.enqueue(message);
        } else if (line.trim() !== '' && ++skipped > MAX_SKIPPED) {
          throw new EclipticError('INVALID_FRAME', `it wrote more than ${MAX_SKIPPED} lines that are no ACP messages`);
        }
        return allowance.spend(line.length, message && 'method' in message ? 1 : 0);
      };
      // The stream stays open at the end: pending requests are failed by the exit of the process, which says why.
      readLines(child.stdout, take).then(
        () => ended.resolve(new EclipticError('PROCESS_ENDED', 'it closed its output')),
        (error) => ended.resolve(new EclipticError('INVALID_FRAME', describeError(error), {}, error)),
      );
    },
  });
  const writable = new WritableStream<Message>({
    write: (message) => child.write(`${JSON.stringify(message)}\n`),
  });
  return { stream: { readable, writable }, ended: ended.promise };
}

function parse(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const isMessage = typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
    return isMessage ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
