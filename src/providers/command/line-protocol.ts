import type { ProviderState, ProviderUpdate } from '../adapter/provider-adapter.js';
import type { ProviderErrorCode } from '../adapter/provider-errors.js';

/**
 * One JSON object a line, in both directions: `docs/line-protocol.md`. What the node writes begins with `type`, and with
 * `id` next where there is one, so that a shell script can tell lines apart by how they begin.
 */
export const LINE_PROTOCOL = 1;

/** What the node says first. */
export interface Hello {
  readonly protocol: typeof LINE_PROTOCOL;
  /** The agent that the program is. */
  readonly agent: string;
  /** The folder that is its own. */
  readonly folder: string;
}

/** What a program says of itself when it is ready for work. */
export interface Ready {
  readonly name?: string;
  readonly version?: string;
  /** Can it answer while it works? Default true. */
  readonly heartbeat: boolean;
}

export type ProgramLine =
  | { readonly type: 'ready'; readonly protocol: unknown; readonly ready: Ready }
  | { readonly type: 'health'; readonly id: number; readonly state: ProviderState; readonly message?: string }
  | { readonly type: 'progress'; readonly id: number; readonly update: ProviderUpdate }
  | { readonly type: 'result'; readonly id: number; readonly result: unknown }
  | { readonly type: 'error'; readonly id: number; readonly code: ProviderErrorCode; readonly message: string };

/** What a program may say that went wrong. */
const ERROR_CODES: Readonly<Record<string, ProviderErrorCode>> = {
  failed: 'PROVIDER_EXECUTE_FAILED',
  cancelled: 'PROVIDER_CANCELLED',
  'invalid-input': 'PROVIDER_INVALID_INPUT',
  'not-found': 'PROVIDER_TOOL_NOT_FOUND',
  'rate-limited': 'PROVIDER_RATE_LIMITED',
  unavailable: 'PROVIDER_UNAVAILABLE',
  'credential-missing': 'PROVIDER_CREDENTIAL_MISSING',
  'credential-denied': 'PROVIDER_CREDENTIAL_DENIED',
  denied: 'PROVIDER_POLICY_DENIED',
  timeout: 'PROVIDER_TIMEOUT',
};

const KINDS: ReadonlySet<string> = new Set<ProviderUpdate['kind']>([
  ...(['text', 'progress', 'plan', 'tool-call', 'artifact'] as const),
]);
const STATES: ReadonlySet<string> = new Set<ProviderState>(['healthy', 'degraded', 'unavailable']);

/** What a line of a program says; undefined for one that is not of this protocol. */
export function readLine(line: string): ProgramLine | undefined {
  const value = parse(line);
  if (!value) return undefined;
  const { type, id } = value;
  if (type === 'ready') return { type, protocol: value.protocol, ready: readReady(value) };
  if (typeof id !== 'number') return undefined;
  switch (type) {
    case 'result':
      return { type, id, result: value.result ?? null };
    case 'progress':
      return { type, id, update: readUpdate(value) };
    case 'health': {
      const state = STATES.has(value.state as string) ? (value.state as ProviderState) : 'healthy';
      return { type, id, state, ...(typeof value.message === 'string' && { message: value.message }) };
    }
    case 'error': {
      const known = typeof value.code === 'string' && Object.hasOwn(ERROR_CODES, value.code);
      const code = known ? ERROR_CODES[value.code as string]! : 'PROVIDER_EXECUTE_FAILED';
      return { type, id, code, message: textOf(value.message) || 'the program says that it failed' };
    }
  }
  return undefined;
}

function readReady({ name, version, heartbeat }: Fields): Ready {
  return {
    ...(typeof name === 'string' && { name }),
    ...(typeof version === 'string' && { version }),
    heartbeat: heartbeat !== false,
  };
}

function readUpdate({ kind, text, data }: Fields): ProviderUpdate {
  const known = typeof kind === 'string' && KINDS.has(kind) ? (kind as ProviderUpdate['kind']) : 'progress';
  return { kind: known, text: textOf(text), ...(data !== undefined && { data }) };
}

type Fields = Readonly<Record<string, unknown>>;

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function parse(line: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}
