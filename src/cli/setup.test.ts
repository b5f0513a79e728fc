import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PROGRAM } from '../runtime/package.js';
import { TABLE } from './nouns.js';
import { Output } from './output.js';
import { setUp } from './setup.js';

let home: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-setup-'));
});

afterEach(() => {
  vi.restoreAllMocks();
  rmSync(home, { recursive: true, force: true });
});

describe('setup', () => {
  it('enters node and ecliptic by their names on the path where those are the same files [T-A9]', async () => {
    const stable = folder('stable');
    symlinkSync(process.execPath, join(stable, 'node'));
    symlinkSync(PROGRAM, join(stable, 'ecliptic'));
    await setup(['codex'], [stable], { hooks: true });
    const [node, ecliptic] = [join(stable, 'node'), join(stable, 'ecliptic')];
    expect(readFileSync(join(home, '.codex', 'config.toml'), 'utf8')).toContain(
      `command = "${node}"\nargs = ["${ecliptic}","mcp"]`,
    );
    const hooks = readFileSync(join(home, '.codex', 'hooks.json'), 'utf8');
    expect(hooks).toContain(ecliptic);
    expect(hooks).not.toContain(process.execPath);
  });

  it.each([
    ['another program has the name', (path: string) => writeFileSync(path, '#!/bin/sh\n', { mode: 0o755 })],
    ['no program has the name', () => {}],
    ['a file of the name cannot be run', (path: string) => writeFileSync(path, '', { mode: 0o644 })],
  ])('enters them by their own paths where %s [T-A9]', async (_, make) => {
    const other = folder('other');
    make(join(other, 'node'));
    make(join(other, 'ecliptic'));
    await setup(['codex'], [other]);
    expect(readFileSync(join(home, '.codex', 'config.toml'), 'utf8')).toContain(
      `command = "${process.execPath}"\nargs = ["${PROGRAM}","mcp"]`,
    );
  });

  it('leaves no folder behind when it is undone [T-A9]', async () => {
    const own = folder('.config/opencode');
    writeFileSync(join(own, 'opencode.json'), '{}');
    await setup(['opencode'], [], { hooks: true, guard: true });
    const plugins = ['plugin', 'plugins'].map((name) => join(own, name));
    expect(plugins.some(existsSync)).toBe(true);
    await setup(['opencode'], [], { undo: true });
    expect(plugins.some(existsSync)).toBe(false);
    expect(readFileSync(join(own, 'opencode.json'), 'utf8')).toBe('{}');
  });
});

function folder(name: string): string {
  const path = join(home, name);
  mkdirSync(path, { recursive: true });
  return path;
}

async function setup(words: string[], path: string[], values: Record<string, boolean> = {}): Promise<void> {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const env = { HOME: home, PATH: path.join(delimiter) };
  const unneeded = () => Promise.reject(new Error('setup needs no node'));
  await setUp({
    values: { yes: true, ...values },
    words,
    env,
    output: new Output(false, env),
    dataFolder: async () => join(home, 'data'),
    table: TABLE,
    connect: unneeded,
    call: unneeded,
    follow: unneeded,
  });
}
