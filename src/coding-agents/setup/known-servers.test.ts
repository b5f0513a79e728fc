import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Machine } from './clients.js';
import { holdsSecret, knownServers } from './known-servers.js';

let home: string;
let machine: Machine;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-servers-'));
  machine = { home, env: {}, platform: 'linux', exists: existsSync, has: () => false };
});

afterEach(() => rmSync(home, { recursive: true, force: true }));

function leave(path: string, content: unknown): void {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
}

const found = (folder = home) =>
  knownServers(machine, folder).map(({ name, clients, config }) => [name, clients, config]);

describe('the MCP servers of clients', () => {
  it('are read in the form of each client, and each is listed once [FM.servers]', () => {
    const files = { command: 'mcp-files', args: ['/srv'] };
    leave('.claude.json', {
      mcpServers: { files, ecliptic: { command: 'ecliptic', args: ['mcp'] } },
      projects: { [home]: { mcpServers: { here: { type: 'http', url: 'http://127.0.0.1:9/mcp' } } } },
    });
    leave('.cursor/mcp.json', { mcpServers: { files, off: { command: 'x', disabled: true } } });
    leave(
      '.codex/config.toml',
      '[mcp_servers.search]\ncommand = "find-it"\nargs = ["--all"]\n[mcp_servers.search.env]\nLEVEL = "fast"\n[other]\ncommand = "no"\n',
    );
    leave('.config/opencode/opencode.json', {
      mcp: { git: { type: 'local', command: ['git-mcp', '-v'], environment: { A: '1' } } },
    });
    leave('.mcp.json', '{ "mcpServers": { "project": { "command": "p", }, }, }');
    expect(found()).toEqual([
      ['files', ['Claude Code', 'Cursor'], files],
      ['here', ['Claude Code'], { type: 'http', url: 'http://127.0.0.1:9/mcp' }],
      ['search', ['Codex'], { command: 'find-it', args: ['--all'], env: { LEVEL: 'fast' } }],
      ['git', ['opencode'], { command: 'git-mcp', args: ['-v'], env: { A: '1' } }],
      ['project', ['.mcp.json'], { command: 'p' }],
    ]);
  });

  it('become references to variables where a value may be secret [FM.servers]', () => {
    leave('.claude.json', {
      mcpServers: {
        hub: { command: 'hub', env: { HUB_TOKEN: 'abc', HUB: 'ghp_0123456789abcdef', MODE: 'fast', ROOT: '/srv/x' } },
        web: { type: 'http', url: 'https://mcp.example/mcp', headers: { Authorization: 'Bearer s3cret' } },
      },
    });
    const servers = knownServers(machine, home);
    expect(JSON.stringify(servers)).not.toMatch(/abc|ghp_|s3cret/);
    expect(servers.map(({ config: { env, headers }, variables }) => [env ?? headers, variables])).toEqual([
      // biome-ignore lint/suspicious/noTemplateCurlyInString: references to the environment
      [{ HUB_TOKEN: '${HUB_TOKEN}', HUB: '${HUB}', MODE: 'fast', ROOT: '/srv/x' }, ['HUB_TOKEN', 'HUB']],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: references to the environment
      [{ Authorization: '${WEB_AUTHORIZATION}' }, ['WEB_AUTHORIZATION']],
    ]);
  });

  it.each([
    [{ command: 'x', args: ['--api-key=abcdef'] }, true],
    [{ command: 'x', args: ['sk-0123456789'] }, true],
    [{ url: 'https://a.example/mcp?api_key=1' }, true],
    [{ url: 'https://me:you@a.example/mcp' }, true],
    [{ command: 'npx', args: ['-y', 'token-counter', '/srv'] }, false],
  ])('hold a secret in their words: %j is %s [FM.servers]', (config, is) => {
    expect(holdsSecret(config)).toBe(is);
  });

  it('are none in files that are missing, damaged or of another shape [FM.servers]', () => {
    expect(found()).toEqual([]);
    leave('.claude.json', '{ "mcpServers": [');
    leave('.cursor/mcp.json', { mcpServers: ['x', 1] });
    leave('.gemini/settings.json', { mcpServers: { odd: { command: 7 }, list: [] } });
    expect(found()).toEqual([]);
  });
});
