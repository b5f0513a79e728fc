import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../../system/process/children.js';
import { findCodingAgents } from './coding-agents.js';

const AGENT = fileURLToPath(new URL('../../../test/providers/acp-agent.mjs', import.meta.url));
const runtime = systemRuntime();
let folder: string;
let children: Children;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-coders-'));
  children = await Children.open(runtime);
});

afterEach(async () => {
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Installs a program of that name. */
function install(name: string, script: string): void {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
}

function leave(...path: string[]): void {
  const file = join(folder, 'home', ...path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, '{}');
}

const find = (more: Record<string, string> = {}, limitMs?: number, platform: NodeJS.Platform = 'linux') => {
  const PATH = [folder, dirname(process.execPath), '/usr/bin', '/bin'].join(':');
  const env = { PATH, HOME: join(folder, 'home'), ...more };
  return findCodingAgents({ runtime, children, env, platform, ...(limitMs !== undefined && { limitMs }) });
};

describe('coding agents as workers', () => {
  it('are none where none is installed', async () => {
    expect(await find()).toEqual({ workers: [], unusable: [] });
  });

  it('are usable where they are logged in; the others are listed with the command that helps [WK.S2]', async () => {
    install('codex-acp', `exec node ${AGENT} good`);
    install('gemini', `test "$1" = --acp && exec node ${AGENT} login`);
    install('goose', 'echo broken >&2; exit 4');
    install('claude', 'exit 0');
    const { workers, unusable } = await find();
    expect(workers).toEqual([
      {
        kind: 'acp',
        title: 'Codex 1.2.3',
        why: 'installed and logged in',
        config: { acp: { command: 'codex-acp', cwd: '.', mode: 'read-only' } },
      },
    ]);
    expect(unusable).toMatchObject([
      { title: 'Claude', fix: 'npm install -g @agentclientprotocol/claude-agent-acp' },
      { title: 'Gemini CLI', reason: 'it is not logged in', fix: expect.stringContaining('GEMINI_API_KEY') },
      { title: 'Goose', reason: expect.stringMatching(/does not answer: .*code 4.*broken/), fix: expect.any(String) },
    ]);
    expect(children.size).toBe(0);
  });

  it('that open sessions without a login are taken for logged in only by a sign of it [WK.S2]', async () => {
    install('claude-agent-acp', `exec node ${AGENT} good`);
    install('opencode', `test "$1" = acp && exec node ${AGENT} good`);
    expect(await find()).toMatchObject({
      workers: [],
      unusable: [
        { title: 'Claude', reason: 'it is not logged in', fix: 'claude auth login' },
        { title: 'OpenCode', reason: 'it is not logged in', fix: 'opencode auth login' },
      ],
    });
    expect((await find({}, undefined, 'darwin')).workers).toHaveLength(2);
    // The file that it writes itself when it starts for the first time.
    leave('.config', 'opencode', 'opencode.jsonc');
    expect((await find()).workers).toEqual([]);
    leave('.claude', '.credentials.json');
    writeFileSync(join(folder, 'home', '.config', 'opencode', 'opencode.jsonc'), '{ "model": "local/qwen3" }');
    expect((await find()).workers.map(({ config }) => config)).toEqual([
      { acp: { command: 'claude-agent-acp', cwd: '.' } },
      { acp: { command: 'opencode', args: ['acp'], cwd: '.' } },
    ]);
    rmSync(join(folder, 'home', '.config'), { recursive: true });
    expect((await find()).workers).toHaveLength(1);
    leave('.local', 'share', 'opencode', 'auth.json');
    expect((await find()).workers).toHaveLength(2);
  });

  it('may have a key of the environment instead of a login, written as a reference [WK.S2]', async () => {
    install('gemini', `exec node ${AGENT} "\${GEMINI_API_KEY:-login}"`);
    install('claude-agent-acp', `exec node ${AGENT} good`);
    const found = await find({ GEMINI_API_KEY: 'good', ANTHROPIC_API_KEY: 'sk-secret' });
    expect(found.unusable).toEqual([]);
    expect(found.workers.map(({ config }) => config)).toEqual([
      {
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to the environment
        acp: { command: 'claude-agent-acp', env: { ANTHROPIC_API_KEY: '${ANTHROPIC_API_KEY}' }, cwd: '.' },
      },
      {
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to the environment
        acp: { command: 'gemini', args: ['--acp'], env: { GEMINI_API_KEY: '${GEMINI_API_KEY}' }, cwd: '.' },
      },
    ]);
    expect(JSON.stringify(found)).not.toContain('sk-secret');
  });

  it('that never answer cost the time limit once, and are ended [WK.S2]', async () => {
    for (const name of ['codex-acp', 'gemini', 'goose'])
      install(name, `echo $$ >> ${join(folder, 'pids')}; exec sleep 60`);
    const limitMs = 2_000;
    const started = runtime.stopwatch();
    const { workers, unusable } = await find({}, limitMs);
    expect(runtime.stopwatch() - started).toBeLessThan(2 * limitMs);
    expect(workers).toEqual([]);
    expect(unusable.map(({ reason }) => reason)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining('it did not answer within 2000 ms')),
    );
    const pids = readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').map(Number);
    expect(pids).toHaveLength(3);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});
