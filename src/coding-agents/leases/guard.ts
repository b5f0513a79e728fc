import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { literalGlob } from './glob.js';
import type { Leases } from './leases.js';

/** The clients whose hooks the guard supports. */
export const GUARDED_CLIENTS = ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'] as const;
export type GuardedClient = (typeof GUARDED_CLIENTS)[number];

/** A call of a tool that would write files. */
export interface WritingCall {
  readonly folder: string;
  readonly paths: readonly string[];
}

/** The output of a hook, and its exit code. */
export interface HookAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const MAX_PATHS = 200;
/** Tools that write files, by their own name or at the end of an MCP server's. */
const WRITES =
  /(?:^|_|:|\.)(?:edit|write|multiedit|notebookedit|strreplace|tabwrite|delete|replace|search_replace|apply_patch|(?:write|edit|create|delete|move)_file)$/i;
const PATH_FIELDS = [
  'file_path',
  'filePath',
  'path',
  'notebook_path',
  'target_file',
  'relative_workspace_path',
  'source',
  'destination',
];
const PATCHED = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\r?$/gm;

/** The files that a hooked tool call would write; undefined if none, or if they cannot be told. */
export function readHook(text: string, folder: string): WritingCall | undefined {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { tool_name, tool_input, cwd, workspace_roots } = (said ?? {}) as Readonly<Record<string, unknown>>;
  const input = typeof tool_input === 'string' ? parsed(tool_input) : tool_input;
  const patched = textsIn(input).flatMap((one) =>
    one.includes('*** Begin Patch') ? [...one.matchAll(PATCHED)].map(([, path]) => path!) : [],
  );
  const named = typeof tool_name === 'string' && WRITES.test(tool_name) ? pathsIn(input) : [];
  const paths = [...new Set([...named, ...patched])].slice(0, MAX_PATHS);
  if (paths.length === 0) return undefined;
  const [root] = Array.isArray(workspace_roots) ? workspace_roots : [];
  const at = [cwd, root, folder].find((one) => typeof one === 'string' && one !== '');
  return { folder: at as string, paths };
}

export function allow(client: GuardedClient): HookAnswer {
  // These two parse the output even when it is empty.
  const stdout = client === 'gemini' || client === 'cursor' ? '{}' : '';
  return { stdout, stderr: '', code: 0 };
}

/** Stops the call, with a reason that the model reads. */
export function deny(client: GuardedClient, reason: string): HookAnswer {
  switch (client) {
    case 'claude-code': {
      const decision = { permissionDecision: 'deny', permissionDecisionReason: reason };
      const output = { hookSpecificOutput: { hookEventName: 'PreToolUse', ...decision } };
      return { stdout: JSON.stringify(output), stderr: '', code: 0 };
    }
    case 'codex':
    case 'opencode':
      return { stdout: '', stderr: reason, code: 2 };
    case 'gemini':
      return { stdout: JSON.stringify({ decision: 'deny', reason }), stderr: '', code: 0 };
    case 'cursor': {
      const output = { permission: 'deny', user_message: reason, agent_message: reason };
      return { stdout: JSON.stringify(output), stderr: '', code: 0 };
    }
  }
}

function pathsIn(input: unknown): string[] {
  const fields = (input ?? {}) as Readonly<Record<string, unknown>>;
  return PATH_FIELDS.map((name) => fields[name]).filter((path) => typeof path === 'string' && path !== '') as string[];
}

/** A patch is a text of its own, or an argument of a command. */
function textsIn(input: unknown): string[] {
  if (typeof input === 'string') return [input];
  if (typeof input !== 'object' || input === null) return [];
  return Object.values(input).flatMap((value) =>
    Array.isArray(value) ? value.filter((one) => typeof one === 'string') : typeof value === 'string' ? [value] : [],
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Asks whether another agent holds the files that a client is about to write. */
export interface GuardQuestion {
  readonly client: string;
  readonly folder: string;
  readonly paths: readonly string[];
  /** The ids of the guard's process and its ancestors, the nearest first. */
  readonly ancestors: readonly number[];
  /** The call proves that the client has a guard. A commit hook does not: any program may commit. */
  readonly proves: boolean;
}

export interface Denial {
  readonly path: string;
  readonly holder: string;
  readonly glob: string;
  readonly until: string;
  readonly why: string;
}

/** The leases of other agents on these files. */
export async function askGuard(leases: Leases, { paths, proves, ...from }: GuardQuestion): Promise<Denial[]> {
  const checkout = real(from.folder);
  const { names, certain } = leases.participants.spokenForBy({ ...from, checkout });
  if (proves && certain) leases.proveGuard(names[0]!);
  const own = new Set(names.map((name) => leases.address(name)));
  const wanted = new Map<string, { id: string; glob: string; path: string }[]>();
  for (const path of paths) {
    const file = real(resolve(from.folder, path));
    const repository = await leases.repositoryAt(existing(dirname(file)));
    const within = relative(repository.root, file);
    if (within === '' || within === '..' || within.startsWith(`..${sep}`)) continue;
    const one = { id: path, glob: literalGlob(within), path };
    wanted.set(repository.id, [...(wanted.get(repository.id) ?? []), one]);
  }
  const denials: Denial[] = [];
  for (const [repository, files] of wanted) {
    const holder = [...own][0] ?? leases.address('');
    const check = { kind: 'check', holder, wanted: files, ttlMs: 1, why: '' } as const;
    const { outcome } = await leases.operate(repository, check);
    for (const { glob, lease } of outcome.conflicts) {
      if (own.has(lease.holder)) continue;
      const path = files.find((file) => file.glob === glob)!.path;
      const until = new Date(lease.expiresAt).toISOString();
      denials.push({ path, holder: lease.holder, glob: lease.glob, until, why: lease.why });
    }
  }
  return denials;
}

/** The text that a model or a person reads when the guard denies a write. */
export function reasonFor(denials: readonly Denial[]): string {
  const lines = denials.slice(0, 10).map(({ path, holder, glob, until, why }) => {
    return `${path}: ${holder} holds ${glob} until ${until}${why && ` (${why})`}`;
  });
  const more = denials.length > lines.length ? [`and ${denials.length - lines.length} more`] : [];
  const advice =
    'Do not change it in another way. Work elsewhere, ask the holder with mesh_send, or take it with mesh_lease when it is free.';
  return ['Reserved by another agent:', ...lines, ...more, advice].join('\n');
}

/** The path without symbolic links, also of a file that does not exist yet. */
function real(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(real(folder), basename(path));
}

function existing(folder: string): string {
  const above = dirname(folder);
  return existsSync(folder) || above === folder ? folder : existing(above);
}
