import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type ClientSession, passedOn, wakeClientOf } from './client-session.js';

/** How far up it is looked for a hook's client: a shell or two are between them. */
const MAX_ANCESTORS = 8;
const PS_MS = 500;

/** The words by which clients run one task and end. */
const HEADLESS: Readonly<Record<string, readonly string[]>> = {
  codex: ['exec', 'e'],
  'claude-code': ['-p', '--print'],
};

/** What a process that a client started knows of it. */
export function surroundings(client: string, version: string | undefined, env: NodeJS.ProcessEnv): ClientSession {
  const passed = passedOn(env);
  const words = commandLine(process.ppid).slice(1);
  const headless = words.some((word) => HEADLESS[wakeClientOf(client) ?? '']?.includes(word));
  const session = passed.CLAUDE_CODE_SESSION_ID;
  return { client, version, checkout: process.cwd(), parent: process.ppid, env: passed, headless, session };
}

/** The process that started this one, the one that started that, and so on. */
export function ancestors(): number[] {
  const found: number[] = [];
  for (let pid = process.ppid; pid > 1 && found.length < MAX_ANCESTORS; pid = parentOf(pid)) found.push(pid);
  return found;
}

function parentOf(pid: number): number {
  if (process.platform !== 'linux') return Number(ps('ppid=', pid)) || 0;
  const stat = read(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(') ') + 2).split(' ')[1]) || 0;
}

function commandLine(pid: number): string[] {
  return process.platform === 'linux' ? read(`/proc/${pid}/cmdline`).split('\0') : ps('args=', pid).split(/\s+/);
}

function ps(column: string, pid: number): string {
  if (process.platform === 'win32') return '';
  const { stdout } = spawnSync('ps', ['-o', column, '-p', String(pid)], { encoding: 'utf8', timeout: PS_MS });
  return (stdout ?? '').trim();
}

/** What is not told is empty. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
