/** The clients whose hooks a guard speaks with, each in its own way: what is said in any other is ignored. */
export const GUARDED_CLIENTS = ['claude-code', 'codex', 'gemini', 'cursor'] as const;
export type GuardedClient = (typeof GUARDED_CLIENTS)[number];

/** A call of a tool that would write files. */
export interface WritingCall {
  readonly folder: string;
  readonly paths: readonly string[];
}

/** What a hook says, and how it ends. */
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

/** What a client's hook is told about; undefined where nothing would be written, or nobody can tell. */
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
  // These two read what is said even when it is nothing.
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

/** Patches come as a text, or as an argument of a command. */
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
