import { join } from 'node:path';
import { type Entry, type HooksInit, hooksEntry, jsonEntry, tomlEntry } from './entries.js';
import { guardPluginEntry, wakePluginEntry } from './opencode-plugins.js';

/** The machine as setup sees it. */
export interface Machine {
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  /** Is there a file or folder? */
  exists(path: string): boolean;
  /** Is there a program of that name on the path? */
  has(program: string): boolean;
}

/** A configuration file, and our entry in it. */
interface Place {
  file(machine: Machine): string;
  readonly entry: Entry;
}

/** One coding agent that setup can configure. */
export interface Client extends Place {
  readonly id: string;
  readonly title: string;
  isHere(machine: Machine): boolean;
  /** The hooks by which mail reaches a session, for clients that have hooks. */
  readonly hooks?: Place;
  /** The hook that asks before a file is written. */
  readonly guard?: Place;
  /** Tells the user how to make the client trust hooks. */
  readonly hookTrust?: string;
  /** When mail reaches a session by these hooks. */
  readonly wakes?: string;
  /** The tools whose edits the guard stops. */
  readonly guards?: string;
}

interface HookedInit extends Pick<HooksInit, 'events' | 'head'> {
  readonly client: string;
  readonly file: Place['file'];
  readonly hook: (command: string) => object;
  /** The event before a tool runs. */
  readonly guardEvent: string;
  readonly guardHook: (command: string) => object;
}

const NAME = 'ecliptic';
/** The time that clients allow a hook; ours take less. */
const HOOK_S = 5;

export const CLIENTS: readonly Client[] = [
  {
    id: 'claude-code',
    title: 'Claude Code',
    isHere: ({ home, exists, has }) =>
      exists(join(home, '.claude.json')) || exists(join(home, '.claude')) || has('claude'),
    file: ({ home }) => join(home, '.claude.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ type: 'stdio', command, args, env: {} })),
    wakes: 'an idle session is woken when mail arrives (2.1.224 or later)',
    guards: 'Edit, Write and NotebookEdit',
    ...hooked({
      client: 'claude-code',
      file: ({ home }) => join(home, '.claude', 'settings.json'),
      events: ['SessionStart', 'Stop', 'SessionEnd'],
      hook: (command) => ({ hooks: [commandHook(command)] }),
      guardEvent: 'PreToolUse',
      guardHook: (command) => ({ matcher: 'Edit|Write|MultiEdit|NotebookEdit|Bash', hooks: [commandHook(command)] }),
    }),
  },
  {
    id: 'codex',
    title: 'Codex',
    isHere: (machine) => machine.exists(codexFolder(machine)) || machine.has('codex'),
    file: (machine) => join(codexFolder(machine), 'config.toml'),
    entry: tomlEntry(`mcp_servers.${NAME}`, ({ command, args }) => [
      `command = ${JSON.stringify(command)}`,
      `args = ${JSON.stringify(args)}`,
      'startup_timeout_sec = 60',
    ]),
    hookTrust:
      'Codex skips hooks that you have not trusted, without a word: start codex, and trust those of ecliptic under /hooks',
    wakes: 'an idle session in a terminal is woken when mail arrives (0.149 or later), one of "codex exec" is not',
    guards: 'apply_patch',
    ...hooked({
      client: 'codex',
      file: (machine) => join(codexFolder(machine), 'hooks.json'),
      events: ['SessionStart', 'Stop'],
      hook: (command) => ({ hooks: [commandHook(command)] }),
      guardEvent: 'PreToolUse',
      guardHook: (command) => ({ matcher: 'apply_patch|Edit|Write|Bash', hooks: [commandHook(command)] }),
    }),
  },
  {
    id: 'gemini',
    title: 'Gemini CLI',
    isHere: ({ home, exists, has }) => exists(join(home, '.gemini')) || has('gemini'),
    file: ({ home }) => join(home, '.gemini', 'settings.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ command, args })),
    wakes: 'no program can wake an idle session; mail is delivered at the end of a turn',
    guards: 'write_file and replace',
    ...hooked({
      client: 'gemini',
      file: ({ home }) => join(home, '.gemini', 'settings.json'),
      events: ['SessionStart', 'AfterAgent', 'SessionEnd'],
      hook: (command) => ({ hooks: [geminiHook(NAME, command)] }),
      guardEvent: 'BeforeTool',
      guardHook: (command) => ({
        matcher: 'write_file|replace|run_shell_command',
        hooks: [geminiHook(`${NAME}-guard`, command)],
      }),
    }),
  },
  {
    id: 'cursor',
    title: 'Cursor',
    isHere: ({ home, exists, has }) => exists(join(home, '.cursor')) || has('cursor-agent'),
    file: ({ home }) => join(home, '.cursor', 'mcp.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ command, args })),
    wakes:
      'no program can wake an idle session; mail is delivered at the end of a turn (not tested with Cursor itself)',
    guards: 'Write, Edit, StrReplace and Delete (not tested with Cursor itself)',
    ...hooked({
      client: 'cursor',
      file: ({ home }) => join(home, '.cursor', 'hooks.json'),
      head: { version: 1 },
      events: ['sessionStart', 'stop', 'sessionEnd'],
      hook: (command) => ({ command }),
      guardEvent: 'preToolUse',
      guardHook: (command) => ({ command, matcher: 'Write|Edit|StrReplace|Delete|Shell' }),
    }),
  },
  {
    id: 'vscode',
    title: 'VS Code',
    isHere: (machine) => machine.exists(codeFolder(machine)),
    file: (machine) => join(codeFolder(machine), 'mcp.json'),
    entry: jsonEntry(['servers', NAME], ({ command, args }) => ({ type: 'stdio', command, args })),
  },
  {
    id: 'opencode',
    title: 'opencode',
    isHere: (machine) => machine.exists(opencodeFolder(machine)) || machine.has('opencode'),
    file: (machine) => {
      const commented = join(opencodeFolder(machine), 'opencode.jsonc');
      return machine.exists(commented) ? commented : join(opencodeFolder(machine), 'opencode.json');
    },
    entry: jsonEntry(['mcp', NAME], ({ command, args }) => {
      return { type: 'local', command: [command, ...args], enabled: true };
    }),
    hooks: {
      file: (machine) => join(opencodeFolder(machine), 'plugins', `${NAME}.js`),
      entry: wakePluginEntry,
    },
    guard: {
      file: (machine) => join(opencodeFolder(machine), 'plugins', `${NAME}-guard.js`),
      entry: guardPluginEntry,
    },
    wakes: 'an idle session is woken when mail arrives (1.x)',
    guards: 'edit, write and apply_patch',
  },
];

/** Hooks for mail, and a guard, in one file. */
function hooked({ client, file, events, head, hook, guardEvent, guardHook }: HookedInit) {
  const words = (event: string) => ['hook', '--client', client, '--event', event];
  const guardWords = () => ['guard', '--client', client];
  return {
    hooks: { file, entry: hooksEntry({ words, events, hook, head }) },
    guard: { file, entry: hooksEntry({ words: guardWords, events: [guardEvent], hook: guardHook, head }) },
  };
}

function commandHook(command: string): object {
  return { type: 'command', command, timeout: HOOK_S };
}

/** Gemini CLI counts in milliseconds. */
function geminiHook(name: string, command: string): object {
  return { name, type: 'command', command, timeout: HOOK_S * 1_000 };
}

function codexFolder({ home, env }: Machine): string {
  return env.CODEX_HOME || join(home, '.codex');
}

function opencodeFolder({ home, env }: Machine): string {
  return join(env.XDG_CONFIG_HOME || join(home, '.config'), 'opencode');
}

function codeFolder({ home, env, platform }: Machine): string {
  if (platform === 'win32') return join(env.APPDATA || join(home, 'AppData', 'Roaming'), 'Code', 'User');
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'Code', 'User');
  return join(env.XDG_CONFIG_HOME || join(home, '.config'), 'Code', 'User');
}
