import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/node/config/load.js';
import { Cluster } from '../nodes/cluster.js';

const PATH = `${process.env.PATH}`;

let home: string;
let cluster: Cluster;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-init-'));
  cluster = new Cluster();
  writeFileSync(join(home, 'package.json'), '{"scripts":{"test":"true","lint":"true"}}');
  const servers = {
    files: { command: process.execPath },
    hub: { command: 'mcp-hub', env: { HUB_TOKEN: 'sesame-sesame' } },
  };
  writeFileSync(join(home, '.claude.json'), JSON.stringify({ mcpServers: servers }));
});

afterEach(async () => {
  await cluster.end();
  rmSync(home, { recursive: true, force: true });
});

const init = (...args: string[]) => cluster.run(['init', ...args], home, { PATH });
const written = () => readFileSync(join(home, 'ecliptic.json'), 'utf8');

describe('ecliptic init', () => {
  it('writes what was found as comments where nothing was agreed to [FM.init]', async () => {
    const { code, stdout, stderr } = await init();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(parseConfig(written(), 'ecliptic.json')).toMatchObject({ agents: {}, mcpServers: {} });
    expect(written()).toContain('    // "saturn": { "exec": "npm test" }, // npm test\n');
    expect(stdout).toContain('Next: npx ecliptic up');
    // Everything that is there as a comment is valid once it is none.
    const all = written().replace(/^( *)\/\/ (?=")/gm, '$1');
    expect(parseConfig(all, 'ecliptic.json')).toMatchObject({
      agents: { saturn: { exec: 'npm test' }, triton: { exec: 'npm run lint' } },
      mcpServers: { files: { command: process.execPath }, hub: { command: 'mcp-hub' } },
      http: { port: 3000 },
    });
  });

  it('takes all of it with --yes, but no server without its variables, and no secret [FM.init]', async () => {
    const { stdout } = await init('--yes', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      written: true,
      found: expect.arrayContaining([
        { kind: 'agent', name: 'saturn', source: 'npm test', taken: true, missing: [] },
        { kind: 'server', name: 'files', source: 'Claude Code', taken: true, missing: [] },
        {
          kind: 'server',
          name: 'hub',
          source: 'Claude Code',
          taken: false,
          missing: ['the variable HUB_TOKEN', 'the program mcp-hub'],
        },
      ]),
    });
    expect(written()).not.toContain('sesame');
    const { code, stdout: checked } = await cluster.run(['config', 'check'], home);
    expect({ code, checked }).toMatchObject({ code: 0, checked: expect.stringContaining('2 agents') });
  });

  it('leaves a file that exists as it is [FM.init]', async () => {
    let asked = 0;
    const models = createServer((_, answer) => {
      asked++;
      answer.end('{"data":[{"id":"qwen3"}]}');
    }).listen(0, '127.0.0.1');
    await once(models, 'listening');
    const { port } = models.address() as AddressInfo;
    const env = { PATH, OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
    writeFileSync(join(home, 'ecliptic.json'), '{}');
    const { code, stderr } = await cluster.run(['init', '--yes'], home, env);
    expect(code).toBe(1);
    expect(stderr).toContain('ecliptic staff');
    expect(written()).toBe('{}');
    // It refuses before it looks for anything.
    expect(asked).toBe(0);
    await cluster.run(['init', '--dry-run'], home, env);
    models.close();
    expect(asked).toBeGreaterThan(0);
  });
});
