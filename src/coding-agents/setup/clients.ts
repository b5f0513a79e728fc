import { join } from 'node:path';
import type { Client, Machine } from './client.js';
import { hooksEntry } from './hooks-entry.js';
import { jsonEntry } from './json-entry.js';
import { opencodePlugin } from './plugin-file.js';
import { tomlEntry } from './toml-entry.js';

const NAME = 'ecliptic';
/** What clients let a hook take; it takes less. */
const HOOK_S = 5;

export const CLIENTS: readonly Client[] = [
  {
    id: 'claude-code',
    title: 'Claude Code',
    isHere: ({ home, exists, has }) =>
      exists(join(home, '.claude.json')) || exists(join(home, '.claude')) || has('claude'),
    file: ({ home }) => join(home, '.claude.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ type: 'stdio', command, args, env: {} })),
    hooks: {
      file: ({ home }) => join(home, '.claude', 'settings.json'),
      entry: hooksEntry({
        words: (event) => ['hook', '--client', 'claude-code', '--event', event],
        events: ['SessionStart', 'Stop', 'SessionEnd'],
        hook: (command) => ({ hooks: [{ type: 'command', command, timeout: HOOK_S }] }),
      }),
    },
    guard: {
      file: ({ home }) => join(home, '.claude', 'settings.json'),
      entry: hooksEntry({
        words: () => ['guard', '--client', 'claude-code'],
        events: ['PreToolUse'],
        hook: (command) => ({
          matcher: 'Edit|Write|MultiEdit|NotebookEdit',
          hooks: [{ type: 'command', command, timeout: HOOK_S }],
        }),
      }),
    },
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
    hooks: {
      file: (machine) => join(codexFolder(machine), 'hooks.json'),
      entry: hooksEntry({
        words: (event) => ['hook', '--client', 'codex', '--event', event],
        events: ['SessionStart', 'Stop'],
        hook: (command) => ({ hooks: [{ type: 'command', command, timeout: HOOK_S }] }),
      }),
    },
    guard: {
      file: (machine) => join(codexFolder(machine), 'hooks.json'),
      entry: hooksEntry({
        words: () => ['guard', '--client', 'codex'],
        events: ['PreToolUse'],
        hook: (command) => ({
          matcher: 'apply_patch|Edit|Write',
          hooks: [{ type: 'command', command, timeout: HOOK_S }],
        }),
      }),
    },
  },
  {
    id: 'gemini',
    title: 'Gemini CLI',
    isHere: ({ home, exists, has }) => exists(join(home, '.gemini')) || has('gemini'),
    file: ({ home }) => join(home, '.gemini', 'settings.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ command, args })),
    hooks: {
      file: ({ home }) => join(home, '.gemini', 'settings.json'),
      entry: hooksEntry({
        words: (event) => ['hook', '--client', 'gemini', '--event', event],
        events: ['SessionStart', 'AfterAgent', 'SessionEnd'],
        hook: (command) => ({ hooks: [{ name: NAME, type: 'command', command, timeout: HOOK_S * 1_000 }] }),
      }),
    },
    guard: {
      file: ({ home }) => join(home, '.gemini', 'settings.json'),
      entry: hooksEntry({
        words: () => ['guard', '--client', 'gemini'],
        events: ['BeforeTool'],
        hook: (command) => ({
          matcher: 'write_file|replace',
          hooks: [{ name: `${NAME}-guard`, type: 'command', command, timeout: HOOK_S * 1_000 }],
        }),
      }),
    },
  },
  {
    id: 'cursor',
    title: 'Cursor',
    isHere: ({ home, exists, has }) => exists(join(home, '.cursor')) || has('cursor-agent'),
    file: ({ home }) => join(home, '.cursor', 'mcp.json'),
    entry: jsonEntry(['mcpServers', NAME], ({ command, args }) => ({ command, args })),
    hooks: {
      file: ({ home }) => join(home, '.cursor', 'hooks.json'),
      entry: hooksEntry({
        words: (event) => ['hook', '--client', 'cursor', '--event', event],
        events: ['sessionStart', 'stop', 'sessionEnd'],
        hook: (command) => ({ command }),
        head: { version: 1 },
      }),
    },
    guard: {
      file: ({ home }) => join(home, '.cursor', 'hooks.json'),
      entry: hooksEntry({
        words: () => ['guard', '--client', 'cursor'],
        events: ['preToolUse'],
        hook: (command) => ({ command, matcher: 'Write|Edit|StrReplace|Delete' }),
        head: { version: 1 },
      }),
    },
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
    entry: jsonEntry(['mcp', NAME], ({ command, args }) => ({
      type: 'local',
      command: [command, ...args],
      enabled: true,
    })),
    hooks: {
      file: (machine) => join(opencodeFolder(machine), 'plugins', `${NAME}.js`),
      entry: opencodePlugin,
    },
  },
];

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
