import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../../test/coding-agents-fixture.js';
import { readHookCall } from '../wake/hook-contracts.js';
import { CLIENTS } from './clients.js';
import { Setup } from './setup.js';

const SERVER = { command: '/usr/bin/node', args: ['/opt/ecliptic/bin/ecliptic', 'mcp'] };
const HOOKS = { command: '/usr/bin/node', args: ['/opt/my tools/bin/ecliptic', '--data', '/d'] };

/** Hooks as people have them. */
const HOMES: Readonly<Record<string, string>> = {
  '.claude/settings.json':
    '{\n    "hooks": {\n        "Stop": [\n            { "hooks": [{ "type": "command", "command": "say done" }] }\n        ]\n    },\n    "model": "opus"\n}',
  '.codex/config.toml': 'model = "gpt"\n',
  '.gemini/settings.json': '{\r\n\t"theme": "dark" // mine\r\n}\r\n',
  '.cursor/hooks.json': '{"version":1,"hooks":{"stop":[{"command":"./mine.sh"}]}}\n',
};

function home(files: Readonly<Record<string, string>>) {
  const folder = temporaryFolder();
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  const machine = { home: folder, env: {}, platform: 'linux', exists: existsSync, has: () => false } as const;
  const setup = new Setup(machine, folder);
  const apply = (withHooks = true) => {
    const changes = setup.plan(setup.clients([]), () => SERVER, withHooks ? HOOKS : undefined);
    for (const change of changes) setup.apply(change);
    return changes;
  };
  const guard = () => {
    const changes = setup.plan(setup.clients([]), () => SERVER, undefined, HOOKS);
    for (const change of changes) setup.apply(change);
    return changes;
  };
  const undo = () => {
    for (const change of setup.planUndo([])) setup.undo(change);
  };
  const path = (file: string) => join(folder, file);
  return { setup, apply, guard, undo, path, read: (file: string) => readFileSync(path(file), 'utf8') };
}

describe('setup with hooks', () => {
  it('adds hooks after those of others, once, and restores every byte [ON18]', () => {
    const { apply, undo, read, path } = home(HOMES);
    apply();
    const claude = JSON.parse(read('.claude/settings.json'));
    expect(claude.hooks.Stop).toHaveLength(2);
    expect(claude.hooks.Stop[0].hooks[0].command).toBe('say done');
    expect(claude.hooks.Stop[1].hooks[0].command).toBe(
      "/usr/bin/node '/opt/my tools/bin/ecliptic' hook --client claude-code --event Stop --data /d",
    );
    expect(JSON.parse(read('.cursor/hooks.json')).hooks.stop).toHaveLength(2);
    expect(JSON.parse(read('.codex/hooks.json')).hooks.Stop).toHaveLength(1);
    expect(read('.gemini/settings.json')).toContain('// mine');
    expect(read('.gemini/settings.json')).toContain('mcp');
    expect(apply()).toEqual([]);
    undo();
    for (const [file, text] of Object.entries(HOMES)) expect(read(file)).toBe(text);
    expect(existsSync(path('.codex/hooks.json'))).toBe(false);
  });

  it('writes a plugin file for opencode, replaces no other plugin, and removes it again [ON18 T-A9]', () => {
    const plugin = '.config/opencode/plugins/ecliptic.js';
    const { setup, apply, undo, read, path } = home({ '.config/opencode/opencode.json': '{}' });
    expect(apply().map(({ file }) => file)).toEqual([path('.config/opencode/opencode.json'), path(plugin)]);
    expect(read(plugin)).toContain('["/opt/my tools/bin/ecliptic","hook","--client","opencode","--event","session"');
    expect(apply()).toEqual([]);
    writeFileSync(path(plugin), `${read(plugin)}// mine\n`);
    undo();
    expect(existsSync(path(plugin))).toBe(false);
    expect(read('.config/opencode/opencode.json')).toBe('{}');
    // The folder was made for it, and goes with it.
    expect(existsSync(path('.config/opencode/plugins'))).toBe(false);
    mkdirSync(path('.config/opencode/plugins'));
    writeFileSync(path(plugin), 'export const Mine = () => {};\n');
    const [, change] = setup.plan(setup.clients([]), () => SERVER, HOOKS);
    expect(change).toMatchObject({ file: path(plugin), problem: expect.stringContaining('another plugin') });
  });

  it('adds only hooks that this program handles', () => {
    const { apply, read } = home({ '.claude/x': '', '.codex/x': '', '.gemini/x': '', '.cursor/x': '' });
    const files = apply().map(({ file }) => file);
    expect(files).toHaveLength(7);
    for (const file of ['.claude/settings.json', '.codex/hooks.json', '.gemini/settings.json', '.cursor/hooks.json']) {
      const commands = [...read(file).matchAll(/hook --client (\S+) --event (\S+) /g)];
      expect(commands.length).toBeGreaterThanOrEqual(2);
      for (const [, client, event] of commands) expect(readHookCall(client!, event!, {})).toBeDefined();
    }
  });

  it('runs only when it is asked for', () => {
    const { apply, path } = home(HOMES);
    apply(false);
    expect(existsSync(path('.codex/hooks.json'))).toBe(false);
  });

  it('removes only its own hooks from files that were changed since', () => {
    const { apply, undo, read, path } = home(HOMES);
    apply();
    for (const file of ['.claude/settings.json', '.cursor/hooks.json', '.codex/hooks.json']) {
      writeFileSync(path(file), JSON.stringify({ ...JSON.parse(read(file)), later: 1 }));
    }
    const gemini = read('.gemini/settings.json').replace('"theme"', '"later": 1, "theme"');
    writeFileSync(path('.gemini/settings.json'), gemini);
    undo();
    const stop = [{ hooks: [{ type: 'command', command: 'say done' }] }];
    expect(JSON.parse(read('.claude/settings.json'))).toEqual({ hooks: { Stop: stop }, model: 'opus', later: 1 });
    const cursor = { version: 1, hooks: { stop: [{ command: './mine.sh' }] }, later: 1 };
    expect(JSON.parse(read('.cursor/hooks.json'))).toEqual(cursor);
    expect(JSON.parse(read('.codex/hooks.json'))).toEqual({ later: 1 });
    expect(read('.gemini/settings.json')).not.toContain('ecliptic');
    expect(read('.gemini/settings.json')).toContain('"later": 1, "theme": "dark"');
  });

  it('changes no hooks of an unexpected shape', () => {
    const { setup } = home({ '.cursor/hooks.json': '{"hooks":{"stop":"mine.sh"}}', '.cursor/mcp.json': '{}' });
    const changes = setup.plan(setup.clients(['cursor']), () => SERVER, HOOKS);
    expect(changes.map(({ problem }) => problem)).toEqual([undefined, expect.stringContaining('by hand')]);
  });

  it('knows the hooks file of each client that has hooks', () => {
    expect(CLIENTS.filter(({ hooks }) => hooks).map(({ id }) => id)).toEqual([
      'claude-code',
      'codex',
      'gemini',
      'cursor',
      'opencode',
    ]);
  });
});

describe('setup with guards', () => {
  it('adds one for each client, beside other hooks, once, and restores every byte [ON18]', () => {
    const { apply, guard, undo, read, path } = home(HOMES);
    guard();
    expect(guard()).toEqual([]);
    apply();
    expect(guard()).toEqual([]);
    const [claude] = JSON.parse(read('.claude/settings.json')).hooks.PreToolUse;
    expect(claude.matcher).toBe('Edit|Write|MultiEdit|NotebookEdit|Bash');
    const command = "/usr/bin/node '/opt/my tools/bin/ecliptic' guard --client";
    expect(claude.hooks[0].command).toBe(`${command} claude-code --data /d`);
    expect(JSON.parse(read('.codex/hooks.json')).hooks.PreToolUse[0].hooks[0].command).toContain(`${command} codex`);
    expect(JSON.parse(read('.cursor/hooks.json')).hooks.preToolUse[0].command).toContain(`${command} cursor`);
    expect(read('.gemini/settings.json')).toContain('guard --client gemini');
    undo();
    for (const [file, text] of Object.entries(HOMES)) expect(read(file)).toBe(text);
    expect(existsSync(path('.codex/hooks.json'))).toBe(false);
  });

  it('removes only guards and hooks of this program from a file that was changed since', () => {
    const { apply, guard, undo, read, path } = home(HOMES);
    guard();
    apply();
    writeFileSync(path('.cursor/hooks.json'), `${read('.cursor/hooks.json')}\n`);
    undo();
    expect(JSON.parse(read('.cursor/hooks.json'))).toEqual(JSON.parse(HOMES['.cursor/hooks.json']!));
  });
});
