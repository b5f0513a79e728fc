import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CLIENTS } from './clients.js';
import { Setup } from './setup.js';

const SERVER = { command: '/usr/bin/node', args: ['/opt/ecliptic/bin/ecliptic', 'mcp'] };

/** Configurations as people have them: commented, indented in their own ways, with others' servers in them. */
const HOMES: Readonly<Record<string, string>> = {
  '.claude.json': '{\n    "numStartups": 7,\n    "mcpServers": {\n        "other": { "command": "x" }\n    }\n}',
  '.codex/config.toml': 'model = "gpt"\n\n[mcp_servers.other]\ncommand = "x" # mine\n\n[profiles.fast]\nmodel = "mini"',
  '.gemini/settings.json': '{\r\n\t"theme": "dark"\r\n}\r\n',
  '.cursor/mcp.json': '{"mcpServers":{}}\n',
  '.config/Code/User/mcp.json': '// mine\n{\n  "servers": {},\n}\n',
  '.config/opencode/opencode.jsonc': '{\n  /* keep */ "$schema": "https://opencode.ai/config.json",\n}\n',
};

function home(files: Readonly<Record<string, string>>): {
  setup: Setup;
  machine: { home: string };
  read(file: string): string;
} {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-setup-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  const data = join(folder, 'data');
  mkdirSync(data);
  const machine = { home: folder, env: {}, platform: 'linux', exists: existsSync, has: () => false } as const;
  return { setup: new Setup(machine, data), machine, read: (file) => readFileSync(join(folder, file), 'utf8') };
}

const apply = (setup: Setup) => {
  const changes = setup.plan(setup.clients([]), () => SERVER);
  for (const change of changes) setup.apply(change);
  return changes;
};

describe('setup', () => {
  it('adds the server for each installed client, once, and restores every byte [ON18]', () => {
    const { setup, read } = home(HOMES);
    expect(apply(setup).map(({ client }) => client)).toEqual(CLIENTS.map(({ id }) => id));
    for (const file of Object.keys(HOMES)) expect(read(file)).toContain('/opt/ecliptic/bin/ecliptic');
    expect(JSON.parse(read('.claude.json')).mcpServers).toMatchObject({ other: { command: 'x' }, ecliptic: SERVER });
    expect(read('.codex/config.toml')).toContain('[mcp_servers.other]\ncommand = "x" # mine');
    expect(read('.gemini/settings.json')).toMatch(/^\{\r\n\t"theme": "dark",\r\n/);
    expect(read('.config/opencode/opencode.jsonc')).toContain('/* keep */');
    expect(apply(setup)).toEqual([]);
    for (const change of setup.planUndo([])) setup.undo(change);
    for (const [file, text] of Object.entries(HOMES)) expect(read(file)).toBe(text);
    expect(setup.planUndo([])).toEqual([]);
  });

  it('changes no byte of other entries, however the file is formatted [T-A9]', () => {
    const texts = [
      '{"a":1,"mcpServers":{"other":{"command":"x","args":[ "y",1 ]}},"b":[1,2]}',
      '{\n  "mcpServers": { "other": { "command":"x" , "args": [] } },\n  "b": [1,2]\n}\n',
      '{ "a":1,\n    "mcpServers": {\n        "other":{"command":"x"} } }',
      '{"mcpServers":{} , "b":2}',
      '{ "b":2 }',
    ];
    for (const text of texts) {
      const { setup, read } = home({ '.claude.json': text });
      const before = JSON.parse(text);
      apply(setup);
      const written = read('.claude.json');
      const ecliptic = { type: 'stdio', ...SERVER, env: {} };
      expect(JSON.parse(written)).toEqual({ ...before, mcpServers: { ...before.mcpServers, ecliptic } });
      // What is left when the new text is taken out is the text that was there.
      let at = 0;
      for (const character of text) {
        at = written.indexOf(character, at) + 1;
        expect(at).toBeGreaterThan(0);
      }
      for (const part of text.match(/"other":.*?\}|"b": ?\[1,2\]|"a":1/g) ?? []) expect(written).toContain(part);
      for (const change of setup.planUndo([])) setup.undo(change);
      expect(read('.claude.json')).toBe(text);
    }
  });

  it('removes its entry though the client rewrote the file and setup ran again [T-A11]', () => {
    const { setup, machine, read } = home({ '.config/opencode/opencode.json': '{ "theme": "mine" }' });
    apply(setup);
    const file = join(machine.home, '.config/opencode/opencode.json');
    const rewritten = { $schema: 'https://opencode.ai/config.json', ...JSON.parse(readFileSync(file, 'utf8')) };
    writeFileSync(file, JSON.stringify(rewritten));
    for (const change of setup.plan(setup.clients([]), () => ({ ...SERVER, args: ['other'] }))) setup.apply(change);
    expect(read('.config/opencode/opencode.json')).toContain('"other"');
    for (const change of setup.planUndo([])) setup.undo(change);
    expect(JSON.parse(read('.config/opencode/opencode.json'))).toEqual({
      $schema: 'https://opencode.ai/config.json',
      theme: 'mine',
      mcp: {},
    });
  });

  it('says which hooks must be trusted, who is woken, and what each guard covers and does not [T-A13]', () => {
    const { setup } = home(HOMES);
    const notes = (id: string, asked: { hooks: boolean; guard: boolean }) => setup.notes(setup.clients([id]), asked);
    const covers = (tools: string) =>
      expect.stringMatching(new RegExp(`guard covers .*${tools}.*does not cover shell`));
    expect(notes('codex', { hooks: false, guard: true })).toEqual([
      covers('apply_patch'),
      expect.stringMatching(/trust.*\/hooks/),
    ]);
    expect(notes('codex', { hooks: false, guard: false })).toEqual([]);
    expect(notes('opencode', { hooks: true, guard: true })).toEqual([
      expect.stringMatching(/idle session is woken/),
      covers('write'),
    ]);
    expect(notes('gemini', { hooks: true, guard: false })).toEqual([expect.stringMatching(/no program can wake/)]);
    expect(notes('vscode', { hooks: true, guard: true })).toEqual([
      expect.stringMatching(/no hooks/),
      expect.stringMatching(/edits are not stopped/),
    ]);
  });

  it('creates missing folders, and removes them again', () => {
    const { setup, machine } = home({ '.claude/x': '', '.codex/x': '', '.gemini/x': '', '.cursor/x': '' });
    const made = apply(setup).map(({ file }) => file);
    expect(made).toHaveLength(4);
    for (const change of setup.planUndo([])) setup.undo(change);
    expect(made.filter((file) => existsSync(file))).toEqual([]);
    expect(existsSync(join(machine.home, '.codex/x'))).toBe(true);
  });

  it('changes nothing while it plans, and finds no client where none is installed', () => {
    const { setup, read } = home(HOMES);
    setup.plan(setup.clients([]), () => SERVER);
    for (const [file, text] of Object.entries(HOMES)) expect(read(file)).toBe(text);
    expect(home({}).setup.clients([])).toEqual([]);
  });

  it('removes only its own entry from a file that was changed since', () => {
    const { setup, machine, read } = home({
      '.cursor/mcp.json': '{"mcpServers":{}}\n',
      '.codex/config.toml': 'a = 1\n',
    });
    apply(setup);
    const cursor = join(machine.home, '.cursor/mcp.json');
    const document = JSON.parse(read('.cursor/mcp.json'));
    writeFileSync(cursor, JSON.stringify({ ...document, mine: true }));
    writeFileSync(join(machine.home, '.codex/config.toml'), `${read('.codex/config.toml')}\n[later]\nb = 2\n`);
    for (const change of setup.planUndo([])) setup.undo(change);
    expect(JSON.parse(read('.cursor/mcp.json'))).toEqual({ mcpServers: {}, mine: true });
    expect(read('.codex/config.toml')).toBe('a = 1\n[later]\nb = 2\n');
  });

  it('restores the text from before the first of several changes', () => {
    const { setup, read } = home({ '.cursor/mcp.json': '{ }' });
    apply(setup);
    for (const change of setup.plan(setup.clients([]), () => ({ ...SERVER, args: ['other'] }))) setup.apply(change);
    for (const change of setup.planUndo([])) setup.undo(change);
    expect(read('.cursor/mcp.json')).toBe('{ }');
  });

  it('changes no file that it cannot parse, and names the line', () => {
    const { setup } = home({
      '.cursor/mcp.json': '{\n  "mcpServers": [\n',
      '.gemini/settings.json': '[]',
      '.codex/config.toml': 'mcp_servers = { other = { command = "x" } }\n',
    });
    const changes = setup.plan(setup.clients([]), () => SERVER);
    expect(changes.map(({ client, problem }) => [client, problem])).toEqual([
      ['codex', expect.stringContaining('by hand')],
      ['gemini', expect.stringContaining('no object')],
      ['cursor', expect.stringContaining('line 3')],
    ]);
  });

  it('writes nothing when the file changed between the plan and the consent', () => {
    const { setup, machine, read } = home({ '.cursor/mcp.json': '{}' });
    const [change] = setup.plan(setup.clients([]), () => SERVER);
    writeFileSync(join(machine.home, '.cursor/mcp.json'), '{"mine":1}');
    expect(() => setup.apply(change!)).toThrow('has changed meanwhile');
    expect(read('.cursor/mcp.json')).toBe('{"mine":1}');
  });

  it('keeps symbolic links and file modes', () => {
    const { setup, machine } = home({ '.cursor/real.json': '{}' });
    const real = join(machine.home, '.cursor/real.json');
    chmodSync(real, 0o640);
    symlinkSync(real, join(machine.home, '.cursor/mcp.json'));
    apply(setup);
    expect(readFileSync(real, 'utf8')).toContain('ecliptic');
    expect(statSync(real).mode & 0o777).toBe(0o640);
  });

  it('rejects unknown client names', () => {
    const { setup } = home(HOMES);
    expect(setup.clients(['codex']).map(({ id }) => id)).toEqual(['codex']);
    expect(() => setup.clients(['emacs'])).toThrow('these are known');
  });
});
