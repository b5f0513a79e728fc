import type { Stream } from '@agentclientprotocol/sdk';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Child } from '../../system/process/child.js';
import { Allowance, readLines } from '../../system/process/lines.js';

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

type Message = Stream['readable'] extends ReadableStream<infer M> ? M : never;

/** Lines that are no messages, such as a banner, are skipped; a program that writes nothing else speaks no ACP. */
const MAX_RUBBISH = 1_000;

interface ChildStream {
  readonly stream: Stream;
  /** Settles, with the reason, when nothing more can be read from the child. */
  readonly ended: Promise<EclipticError>;
}

/** JSON-RPC over a child's standard input and output, at a pace that leaves time for others. */
export function childStream(runtime: Runtime, child: Child, onMessage: () => void): ChildStream {
  const allowance = new Allowance(runtime);
  let rubbish = 0;
  let end!: (reason: EclipticError) => void;
  const ended = new Promise<EclipticError>((resolve) => {
    end = resolve;
  });
  const readable = new ReadableStream<Message>({
    start(controller) {
      const take = (line: string) => {
        const message = parse(line);
        if (message) {
          onMessage();
          controller.enqueue(message);
        } else if (line.trim() !== '' && ++rubbish > MAX_RUBBISH) {
          throw new EclipticError('INVALID_FRAME', `it wrote more than ${MAX_RUBBISH} lines that are no ACP messages`);
        }
        return allowance.spend(line.length, message && 'method' in message ? 1 : 0);
      };
      // It stays open at the end: whoever waits for an answer hears why there is none from the end of the process.
      readLines(child.stdout, take).then(
        () => end(new EclipticError('PROCESS_ENDED', 'it closed its output')),
        (error) => end(new EclipticError('INVALID_FRAME', describeError(error), {}, error)),
      );
    },
  });
  const writable = new WritableStream<Message>({
    write: (message) => child.write(`${JSON.stringify(message)}\n`),
  });
  return { stream: { readable, writable }, ended };
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
