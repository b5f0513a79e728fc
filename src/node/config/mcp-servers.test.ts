// biome-ignore-all lint/suspicious/noTemplateCurlyInString: that is how variables are written
import { describe, expect, it } from 'vitest';
import { parseConfig } from './load.js';
import { readMcpServers } from './providers.js';

const ENV = { GITHUB_TOKEN: 'ghp_secret', EMPTY: '', HOST: 'docs.example' };

function read(mcpServers: object) {
  return readMcpServers(parseConfig(JSON.stringify({ mcpServers }), 'ecliptic.json').mcpServers!, ENV, '/project');
}

/** Blocks as they stand in the configuration of well-known clients. */
const BLOCKS: Record<string, { block: object; kind: string }> = {
  'Claude Desktop': { block: { command: 'npx', args: ['-y', 'server'], env: { TOKEN: 'x' } }, kind: 'stdio' },
  'Claude Code': {
    block: { type: 'http', url: 'https://x.example/mcp', headers: { Authorization: 'Bearer x' } },
    kind: 'http',
  },
  Cursor: { block: { type: 'stdio', command: 'npx', envFile: '.env' }, kind: 'stdio' },
  Cline: {
    block: { command: 'npx', disabled: false, alwaysAllow: ['a'], autoApprove: [], timeout: 60 },
    kind: 'stdio',
  },
  'an older one': { block: { type: 'sse', url: 'http://127.0.0.1:1/sse' }, kind: 'sse' },
  another: { block: { type: 'streamable-http', url: 'http://127.0.0.1:1/mcp' }, kind: 'http' },
};

describe('a block of MCP servers [UP1]', () => {
  it.each(Object.entries(BLOCKS))('of %s is taken as it is', (_, { block, kind }) => {
    const { servers, idle } = read({ 'my server': block });
    expect(idle).toEqual([]);
    expect(servers).toMatchObject([{ name: 'my server', agent: 'my-server', endpoint: { kind } }]);
  });

  it('takes variables of the environment, and keeps what they hold a secret', () => {
    const { servers } = read({
      github: {
        command: 'npx',
        args: ['--token=${GITHUB_TOKEN}', '${NOT_SET:-plain}'],
        env: { TOKEN: '${env:GITHUB_TOKEN}', PORT: 8080 },
        agent: 'mars',
      },
      docs: { url: 'https://${HOST}/mcp', headers: { Authorization: 'Bearer ${GITHUB_TOKEN}' } },
    });
    expect(servers[0]).toMatchObject({
      agent: 'mars',
      endpoint: { args: ['--token=ghp_secret', 'plain'], env: { TOKEN: 'ghp_secret', PORT: '8080' }, cwd: '/project' },
    });
    expect(servers[1]).toMatchObject({ endpoint: { headers: { Authorization: 'Bearer ghp_secret' } } });
    expect(String((servers[1]!.endpoint as { url: URL }).url)).toBe('https://docs.example/mcp');
    for (const { secrets } of servers) expect(secrets).toContain('ghp_secret');
  });

  it('takes a timeout in seconds or milliseconds, as its client wrote it', () => {
    const { servers } = read({
      a: { command: 'x', timeout: 60 },
      b: { command: 'x', timeout: 600_000 },
      c: { command: 'x' },
    });
    expect(servers.map(({ timeoutMs }) => timeoutMs)).toEqual([60_000, 600_000, undefined]);
  });

  it('loses only the server that is wrong or switched off', () => {
    const { servers, idle } = read({
      good: { command: 'x' },
      off: { command: 'x', disabled: true },
      unset: { command: 'x', args: ['${NOT_SET}'] },
      empty: { command: 'x', args: ['${EMPTY}'] },
      ftp: { url: 'ftp://${HOST}/' },
    });
    expect(servers.map(({ name }) => name)).toEqual(['good']);
    expect(idle.map(({ name, fault }) => [name, fault?.message])).toEqual([
      ['off', undefined],
      ['unset', 'the environment has no NOT_SET'],
      ['empty', 'the environment has no EMPTY'],
      ['ftp', '"ftp://${HOST}/" is not an http:// or https:// URL'],
    ]);
  });

  it('says where it is wrong', () => {
    const faulty = (server: object) => () => read({ s: server });
    expect(faulty({})).toThrow(/mcpServers\.s: needs a "command" or a "url"/);
    expect(faulty({ command: 'x', url: 'http://x' })).toThrow(/needs a "command" or a "url"/);
    expect(faulty({ command: 'x', args: 'y' })).toThrow(/mcpServers\.s\.args/);
    expect(faulty({ command: 'x', agent: 'no agent' })).toThrow(/mcpServers\.s\.agent/);
  });
});
