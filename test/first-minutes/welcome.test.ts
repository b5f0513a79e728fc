import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { libraryStep } from '../../src/cli/welcome.js';
import { Cluster } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';

let home: string;
let cluster: Cluster;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-welcome-'));
  cluster = new Cluster();
});

afterEach(async () => {
  await cluster.end();
  rmSync(home, { recursive: true, force: true });
});

describe('the program without a word', () => {
  it('says what it is, what is on this machine, and the next step [FM.welcome]', async () => {
    const { code, stdout, stderr } = await cluster.run([], home);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Ecliptic lets AI agents find each other/);
    for (const next of ['my coding agents', 'my own agents in TypeScript', 'my platform']) {
      expect(stdout).toMatch(new RegExp(`^  ${next} +(npx|npm) `, 'm'));
    }
    expect(stdout).toMatch(/^ {2}node +none is running$/m);
    expect(stdout).toContain(`npm install --install-links ${ROOT.replace(/\/$/, '')}\n`);
    // A command is never broken.
    const lines = stdout.split('\n').filter((line) => !line.includes('npm install'));
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('installs the library from the folder of the package, and not where it is installed [FM.welcome]', () => {
    const { command } = libraryStep('/opt/my clones/ecliptic', '/home/ann/app');
    expect(command).toBe("npm install --install-links '/opt/my clones/ecliptic'");
    const inApp = libraryStep('/home/ann/app/node_modules/ecliptic', '/home/ann/app/src');
    expect(inApp.command).toBe('npx ecliptic new agent greeter');
    const elsewhere = libraryStep('/usr/lib/node_modules/ecliptic', '/home/ann/app');
    expect(elsewhere.command).toBe('npm install --ignore-scripts --install-links /usr/lib/node_modules/ecliptic');
  });

  it('finds clients, their servers, models, scripts and a running node [FM.welcome]', async () => {
    const models = createServer((_, answer) => answer.end('{"data":[{"id":"qwen3"}]}')).listen(0, '127.0.0.1');
    await new Promise((resolve) => models.once('listening', resolve));
    const { port } = models.address() as AddressInfo;
    writeFileSync(join(home, '.claude.json'), '{"mcpServers":{"files":{"command":"mcp-files"}}}');
    writeFileSync(join(home, 'package.json'), '{"scripts":{"test":"true"}}');
    const node = await cluster.start('a', { args: ['--no-dht'], config: { roster: false, agents: { mars: {} } } });
    const env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, ECLIPTIC_DATA: node.data };
    const { stdout } = await cluster.run(['--json'], home, env);
    models.close();
    expect(JSON.parse(stdout)).toMatchObject({
      codingAgents: [{ title: 'Claude Code', connected: false }],
      mcpServers: [{ name: 'files', clients: ['Claude Code'] }],
      models: expect.arrayContaining([{ title: expect.stringContaining('qwen3'), state: 'answers' }]),
      scripts: ['npm test'],
      node: { pid: node.pid, agents: 1, ready: 0, waiting: 0 },
      next: [{ command: 'npx ecliptic setup' }, {}, {}],
    });
  });

  it('starts no program, and contacts no other machine [FM.welcome-quiet]', async () => {
    const programs = join(home, 'bin');
    mkdirSync(programs);
    for (const name of ['gemini', 'codex-acp']) {
      writeFileSync(join(programs, name), `#!/bin/sh\ntouch ${join(home, 'was-run')}\n`);
      chmodSync(join(programs, name), 0o755);
    }
    const PATH = `${programs}:${process.env.PATH}`;
    const env = { PATH, OPENAI_BASE_URL: 'https://models.invalid/v1', OPENAI_API_KEY: 'sk-secret' };
    const { stdout } = await cluster.run(['--json'], home, env);
    const found = JSON.parse(stdout);
    expect(found.codingAgents.map(({ title }: { title: string }) => title)).toEqual(['Gemini CLI', 'Codex']);
    expect(found.models).toContainEqual({ title: 'models.invalid', state: 'named by OPENAI_BASE_URL; not contacted' });
    expect(stdout).not.toContain('sk-secret');
    await expect(import('node:fs/promises').then(({ stat }) => stat(join(home, 'was-run')))).rejects.toThrow('ENOENT');
  });
});
