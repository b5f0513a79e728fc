import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The clients that can be woken, or that have hooks. */
export const WAKE_CLIENTS = ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'] as const;
export type WakeClient = (typeof WAKE_CLIENTS)[number];

/** The client session that a member's process belongs to. Calls and hooks add to it. */
export interface ClientSession {
  /** As the client calls itself. */
  readonly client: string;
  readonly version?: string | undefined;
  readonly checkout: string;
  /** The process that started the member's. */
  readonly parent?: number | undefined;
  /** The variables of `PASSED_ON` that are set there. Some are secrets: they are neither stored nor shown. */
  readonly env: Readonly<Record<string, string>>;
  /** Runs one task and ends. */
  readonly headless?: boolean | undefined;
  /** The client's own id of the session or thread. */
  readonly session?: string | undefined;
  /** Where the client itself listens. */
  readonly server?: string | undefined;
}

/** The environment variables that a client's child passes to the node. */
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

/** Arguments with which clients run one task and end. */
const HEADLESS: Readonly<Record<string, readonly string[]>> = {
  codex: ['exec', 'e'],
  'claude-code': ['-p', '--print'],
};
/** A shell or two stand between a hook and its client. */
const MAX_ANCESTORS = 8;
const PS_MS = 500;

export function passedOn(env: Readonly<Record<string, unknown>>): Record<string, string> {
  const set = PASSED_ON.filter((name) => typeof env[name] === 'string' && env[name] !== '');
  return Object.fromEntries(set.map((name) => [name, env[name] as string]));
}

export function wakeClientOf(client: string): WakeClient | undefined {
  const name = client.toLowerCase();
  if (name.includes('claude')) return 'claude-code';
  return WAKE_CLIENTS.find((known) => name.includes(known));
}

/** False for a version that cannot be read. */
export function atLeast(version: string | undefined, wanted: readonly [number, number, number]): boolean {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version ?? '');
  if (!found) return false;
  for (const [at, least] of wanted.entries()) {
    const part = Number(found[at + 1]);
    if (part !== least) return part > least;
  }
  return true;
}

/** The session as a process that the client started sees it. */
export function surroundings(client: string, version: string | undefined, env: NodeJS.ProcessEnv): ClientSession {
  const passed = passedOn(env);
  const words = commandLine(process.ppid).slice(1);
  const headless = words.some((word) => HEADLESS[wakeClientOf(client) ?? '']?.includes(word));
  const session = passed.CLAUDE_CODE_SESSION_ID;
  return { client, version, checkout: process.cwd(), parent: process.ppid, env: passed, headless, session };
}

/** The ids of the parent process, its parent, and so on. */
export function ancestors(): number[] {
  const found: number[] = [];
  for (let pid = process.ppid; pid > 1 && found.length < MAX_ANCESTORS; pid = parentOf(pid)) found.push(pid);
  return found;
}

function parentOf(pid: number): number {
  if (process.platform !== 'linux') return Number(ps('ppid=', pid)) || 0;
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(') ') + 2).split(' ')[1]) || 0;
}

function commandLine(pid: number): string[] {
  if (process.platform !== 'linux') return ps('args=', pid).split(/\s+/);
  return readOrEmpty(`/proc/${pid}/cmdline`).split('\0');
}

function ps(column: string, pid: number): string {
  if (process.platform === 'win32') return '';
  const { stdout } = spawnSync('ps', ['-o', column, '-p', String(pid)], { encoding: 'utf8', timeout: PS_MS });
  return (stdout ?? '').trim();
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
