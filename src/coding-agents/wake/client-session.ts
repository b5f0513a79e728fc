/** The clients whose ways in, or whose hooks, are known. */
export const WAKE_CLIENTS = ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'] as const;
export type WakeClient = (typeof WAKE_CLIENTS)[number];

/** What is known of the session that a member's process belongs to. Parts of it come with calls and hooks. */
export interface ClientSession {
  /** As the client calls itself. */
  readonly client: string;
  readonly version?: string | undefined;
  readonly checkout: string;
  /** The process that started the member's. */
  readonly parent?: number | undefined;
  /** The variables of `PASSED_ON` that are set there. Some are secrets: they are neither stored nor shown. */
  readonly env: Readonly<Record<string, string>>;
  /** Does it run one task and end? */
  readonly headless?: boolean | undefined;
  /** The client's own name for the session, or thread. */
  readonly session?: string | undefined;
  /** Where the client itself listens. */
  readonly server?: string | undefined;
}

/** What of its environment a client's child tells the node. */
const PASSED_ON = [
  'CLAUDE_CODE_MESSAGING_SOCKET',
  'CLAUDE_CODE_MESSAGING_TOKEN',
  'CLAUDE_CODE_SESSION_ID',
  'CODEX_HOME',
  'HOME',
  'OPENCODE_SERVER_PASSWORD',
  'OPENCODE_SERVER_USERNAME',
  'PATH',
] as const;

export function passedOn(env: Readonly<Record<string, unknown>>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = env[name];
    if (typeof value === 'string' && value !== '') found[name] = value;
  }
  return found;
}

/** Which of the known clients calls itself that. */
export function wakeClientOf(client: string): WakeClient | undefined {
  const name = client.toLowerCase();
  if (name.includes('claude')) return 'claude-code';
  return WAKE_CLIENTS.find((known) => name.includes(known));
}

/** Is that version as new as wanted? One that cannot be read is not. */
export function atLeast(version: string | undefined, wanted: readonly [number, number, number]): boolean {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version ?? '');
  if (!found) return false;
  for (const [at, least] of wanted.entries()) {
    const part = Number(found[at + 1]);
    if (part !== least) return part > least;
  }
  return true;
}
