import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { oneLine } from '../../mcp/fence.js';
import { literalGlob } from './glob.js';
import type { Leases } from './leases.js';

/** The clients whose hooks the guard supports. */
export const GUARDED_CLIENTS = ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'] as const;
export type GuardedClient = (typeof GUARDED_CLIENTS)[number];

/** A call of a tool that would write files, or run a shell command. */
export interface WritingCall {
  readonly folder: string;
  readonly paths: readonly string[];
  /** A shell command that mentions git. */
  readonly command?: string;
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
/** Tools that run a shell command, by their own name or at the end of an MCP server's. */
const RUNS = /(?:^|_|:|\.)(?:bash|shell|local_shell|exec_command|run_shell_command|run_command|execute_command)$/i;
const PATCHED = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\r?$/gm;

/** The files that a hooked tool call would write, and its shell command; undefined if neither, or if they cannot be told. */
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
  const runs = patched.length === 0 && typeof tool_name === 'string' && RUNS.test(tool_name);
  const command = runs ? commandIn(input) : undefined;
  if (paths.length === 0 && command === undefined) return undefined;
  const [root] = Array.isArray(workspace_roots) ? workspace_roots : [];
  const at = [cwd, root, folder].find((one) => typeof one === 'string' && one !== '');
  return { folder: at as string, paths, ...(command !== undefined && { command }) };
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

/** A command is a text, or the words of one. */
function commandIn(input: unknown): string | undefined {
  const { command } = (input ?? {}) as { readonly command?: unknown };
  const words = Array.isArray(command) && command.every((word) => typeof word === 'string') ? command : undefined;
  const text = words?.map((word: string) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ') ?? command;
  return typeof text === 'string' && /\bgit\b/.test(text) ? text : undefined;
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

/** Why a write or a git operation is stopped: another agent has reserved the file, has changed it, or works in the folder. */
export type Denial =
  | {
      readonly type: 'lease';
      readonly path: string;
      readonly holder: string;
      readonly glob: string;
      readonly until: string;
      readonly why: string;
    }
  | { readonly type: 'changed'; readonly path: string; readonly holder: string; readonly branch: string | null }
  | {
      readonly type: 'git';
      readonly command: string;
      readonly holder: string;
      readonly folder: string;
      /** The changed files that it would overwrite or remove; it moves HEAD or the index if there are none. */
      readonly paths: readonly string[];
    };

/** The leases of other agents on these files. */
export async function askGuard(leases: Leases, { paths, proves, ...from }: GuardQuestion): Promise<Denial[]> {
  const checkout = realPath(from.folder);
  const { names, certain } = leases.participants.spokenForBy({ ...from, checkout });
  if (proves && certain) leases.proveGuard(names[0]!);
  const own = new Set(names.map((name) => leases.address(name)));
  const wanted = new Map<string, { id: string; glob: string; path: string }[]>();
  for (const path of paths) {
    const file = realPath(from.folder, path);
    const repository = await leases.repositoryAt(existingFolder(dirname(file)));
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
      denials.push({ type: 'lease', path, holder: lease.holder, glob: lease.glob, until, why: lease.why });
    }
  }
  return denials;
}

/** A name of a file, which may have line ends. */
const shown = (path: string): string => oneLine(path, 1_000);

/** The text that a model or a person reads when the guard denies a call. */
export function reasonFor(denials: readonly Denial[]): string {
  return [
    ...listed('Reserved by another agent:', denials, 'lease', ({ path, holder, glob, until, why }) => {
      return `${shown(path)}: ${holder} holds ${glob} until ${until}${why && ` (${why})`}`;
    }),
    ...listed('Changed by another agent and not committed:', denials, 'changed', ({ path, holder, branch }) => {
      return `${shown(path)}: changed by ${holder}${branch === null ? '' : ` on ${branch}`}`;
    }),
    ...listed('Would take work away from another agent in the same folder:', denials, 'git', (denial) => {
      const { command, holder, folder, paths } = denial;
      const what =
        paths.length === 0 ? 'its HEAD and index' : `its changes in ${paths.slice(0, 5).map(shown).join(', ')}`;
      return `${shown(command)}: ${holder} works in ${folder}, and would lose ${what}`;
    }),
  ].join('\n');
}

const ADVICE: Readonly<Record<Denial['type'], string>> = {
  lease:
    'Do not change it in another way. Work elsewhere, ask the holder with mesh_send, or take it with mesh_lease when it is free.',
  changed:
    'Do not change it in another way. Work elsewhere, or ask that agent with mesh_send. If both of you must change it, take it with mesh_lease first.',
  git: 'Do not run it in another way. Use a worktree of your own (git worktree add), or ask that agent with mesh_send.',
};
const MAX_LINES = 10;

function listed<T extends Denial['type']>(
  head: string,
  denials: readonly Denial[],
  type: T,
  lineOf: (denial: Extract<Denial, { type: T }>) => string,
): string[] {
  const lines = denials.filter((one): one is Extract<Denial, { type: T }> => one.type === type).map(lineOf);
  if (lines.length === 0) return [];
  const more = lines.length > MAX_LINES ? [`and ${lines.length - MAX_LINES} more`] : [];
  return [head, ...lines.slice(0, MAX_LINES), ...more, ADVICE[type]];
}

/** The path without symbolic links, also of a file that does not exist yet. */
export function realPath(...parts: readonly string[]): string {
  const path = resolve(...parts);
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(realPath(folder), basename(path));
}

/** The folder, or the nearest above it that exists. */
export function existingFolder(folder: string): string {
  const above = dirname(folder);
  return existsSync(folder) || above === folder ? folder : existingFolder(above);
}
