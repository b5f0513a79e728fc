import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { TokenRow } from '../../src/http/auth/tokens.js';
import { BIN } from '../source-files.js';
import { Cluster, type ProcessNode } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const MARS = `
  export function setup(agent) {
    const inputSchema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
    agent.tool('double', { description: 'Doubles a\\nnumber', inputSchema }, ({ a }, call) => {
      call.progress(1, 2, 'half');
      call.log('info', 'doubling');
      return { caller: call.caller, doubled: 2 * a };
    });
    agent.tool('say', {}, ({ text = 'hello' }) => text);
    agent.tool('fail', {}, () => { throw new Error('no fuel'); });
    agent.tool('own', {}, () => ({ content: [{ type: 'text', text: 'out of fuel' }], isError: true }));
    agent.tool('hang', {}, () => new Promise(() => {}));
    agent.tool('ask', {}, (_, call) => call.ask({}, 'later'));
    const form = { type: 'object', properties: { confirm: { type: 'boolean' } }, required: ['confirm'] };
    agent.tool('deploy', {}, (_, call) => {
      const { action, content } = call.answers.sure ?? {};
      if (action) return action === 'accept' ? 'deployed: ' + content.confirm : 'left alone: ' + action;
      return call.ask({ sure: { method: 'elicitation/create', params: { message: 'Deploy?', requestedSchema: form } } });
    });
    agent.resource({ uri: 'memory://rules', name: 'Rules', mimeType: 'text/markdown' }, () => '# Rules');
    agent.resource({ uri: 'memory://logo', name: 'Logo' }, () => Uint8Array.of(1, 2, 3));
    agent.resource({ uriTemplate: 'note://{id}', name: 'Note' }, (_, { id }) => 'note ' + id);
    agent.prompt({
      name: 'review',
      description: 'Reviews',
      arguments: [{ name: 'file', required: true }, { name: 'focus' }],
      template: 'Review {{file}}. {{focus}}',
    });
  }`;

/** Tools of the node itself. */
const BUILT_IN = ['ecliptic__status', 'ecliptic__story', 'ecliptic__waiting'];

describe('the commands for tools, resources and prompts', () => {
  let cluster: Cluster;
  let node: ProcessNode;

  beforeAll(async () => {
    cluster = new Cluster();
    const module = join(cluster.folder, 'mars.mjs');
    writeFileSync(module, MARS);
    const agents = { mars: { module }, rat: { sandbox: 'lab' } };
    node = await cluster.start('a', { args: ['--no-dht', '--port', '0'], config: { roster: false, agents } });
  });

  afterAll(() => cluster.end());

  it('list the offers of agents, as a table and as JSON [MC11]', async () => {
    const tools = await node.run('tools');
    expect(tools.stdout.split('\n')[0]).toMatch(/^TOOL +DESCRIPTION/);
    expect(tools.stdout).toMatch(/^mars\.double +Doubles a$/m);
    expect(await node.json<object[]>('tools')).toContainEqual(
      expect.objectContaining({ name: 'mars.double', agent: 'mars', inputSchema: expect.anything() }),
    );
    expect((await node.run('resources')).stdout).toMatch(/^memory:\/\/rules +Rules +text\/markdown +mars$/m);
    expect((await node.run('resources')).stdout).toMatch(/^note:\/\/\{id\} +Note +- +mars$/m);
    expect((await node.run('prompts')).stdout).toMatch(/^mars\.review +file \[focus\] +Reviews$/m);
    expect((await node.json<{ name: string }[]>('tools', '--as', 'rat')).map(({ name }) => name)).toEqual([
      ...['ecliptic.status', 'ecliptic.story', 'ecliptic.waiting'],
      'rat.describe',
    ]);
    expect((await node.run('tools', '--as', 'nobody')).stderr).toContain('AGENT_NOT_FOUND');
  });

  it('call a tool, as the operator or as an agent, and show its progress [MC11]', async () => {
    const { code, stdout, stderr } = await node.run('call', 'mars.double', '{"a":21}');
    expect([code, JSON.parse(stdout)]).toEqual([0, { caller: 'operator', doubled: 42 }]);
    expect(stderr.trimEnd().split('\n')).toEqual(['… 1/2 half', 'info: doubling']);
    expect(await node.json('call', 'mars__double', '{"a":1}', '--as', 'mars')).toMatchObject({
      structuredContent: { caller: 'mars', doubled: 2 },
    });
    expect((await node.run('call', 'mars.say')).stdout).toBe('hello\n');
  });

  it.each([
    ['wrong arguments', ['mars.double', '{"a":"x"}'], /INVALID_ARGUMENTS.*\ba\b/s],
    ['no JSON', ['mars.double', '{'], /USAGE/],
    ['a list of arguments', ['mars.double', '[1]'], /USAGE/],
    ['a tool that fails', ['mars.fail'], /HANDLER_FAILED.*no fuel/s],
    ['a tool that says that it failed', ['mars.own'], /HANDLER_FAILED.*out of fuel/s],
    ['a tool that takes too long', ['mars.hang', '{}', '--timeout', '100'], /REQUEST_TIMEOUT/],
    ['a tool that wants to be asked again', ['mars.ask'], /CAPABILITY_REQUIRED/],
    ['a tool that is not there', ['mars.none'], /TOOL_NOT_FOUND.*mars\.none/s],
    ['a tool out of its sandbox', ['mars.say', '{}', '--as', 'rat'], /TOOL_NOT_FOUND/],
  ])('end with a typed error for %s [MC11 R5.4]', async (_, args, error) => {
    const { code, stderr } = await node.run('call', ...args);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(error);
  });

  it('answer what a tool asks [MT.8]', async () => {
    const deploy = (...answer: string[]) => node.run('call', 'mars.deploy', '{}', ...answer);
    expect((await deploy('--answer', '{"confirm":true}')).stdout).toBe('deployed: true\n');
    expect((await deploy('--answer', 'decline')).stdout).toBe('left alone: decline\n');
    expect((await deploy('--answer', '{"confirm":"maybe"}')).stderr).toMatch(/USAGE.*does not fit the form/s);
    expect((await deploy()).stderr).toMatch(/CAPABILITY_REQUIRED.*--answer JSON/s);
  });

  it('read a resource [MC11 R6.2 R6.3]', async () => {
    expect((await node.run('read', 'memory://rules')).stdout).toBe('# Rules\n');
    expect((await node.run('read', 'note://7')).stdout).toBe('note 7\n');
    expect((await node.run('read', 'memory://logo')).stdout).toContain('base64');
    expect(await node.json('read', 'memory://logo')).toMatchObject({ contents: [{ blob: 'AQID' }] });
    expect((await node.run('read', 'memory://none')).stderr).toMatch(/RESOURCE_NOT_FOUND.*memory:\/\/none/s);
  });

  it('fill in a prompt [MC11 R6.5]', async () => {
    const { stdout } = await node.run('prompt', 'mars.review', 'file=a=b.ts', 'focus=');
    expect(stdout).toBe('user: Review a=b.ts. \n');
    expect((await node.run('prompt', 'mars.review')).stderr).toMatch(/INVALID_ARGUMENTS.*file/s);
    expect((await node.run('prompt', 'mars.review', 'file')).stderr).toMatch(/USAGE.*NAME=VALUE/s);
  });

  it('make, list and revoke tokens, which are valid over HTTP until revoked [MC11]', async () => {
    const made = await node.json<TokenRow & { token: string }>('token', 'create', 'ci', '--sandbox', 'lab');
    expect(made).toMatchObject({ name: 'ci', sandbox: 'lab', token: expect.stringMatching(/^ecl_/) });
    const rows = await node.run('token', 'list');
    expect(rows.stdout).toMatch(new RegExp(`^${made.id} +ci +lab +`, 'm'));
    expect(rows.stdout).not.toContain(made.token);
    expect(await httpTools(node, made.token)).toEqual([...BUILT_IN, 'rat__describe']);
    expect(await httpTools(node, node.ready.token)).toContain('mars__double');
    expect((await node.run('token', 'revoke', made.id)).code).toBe(0);
    await expect(httpTools(node, made.token)).rejects.toThrow();
    expect((await node.run('token', 'revoke', made.id)).stderr).toMatch(/TOKEN_NOT_FOUND/);
    expect((await node.run('token', 'burn')).stderr).toMatch(/USAGE/);
  });

  it.each(['legacy', 'auto'] as const)(
    'speak MCP on standard input and output, with a client in mode %s [MC11 MC7]',
    async (mode) => {
      const { client, close } = await stdioClient(mode, ['--as', 'alice', '--tools', 'all']);
      try {
        // A list that is asked for while the program still connects to its node has the mesh tools only.
        const names = async () => (await client.listTools()).tools.map(({ name }) => name);
        await expect
          .poll(names, { timeout: 10_000 })
          .toEqual(expect.arrayContaining(['mesh_peers', 'mesh_call', 'mars__double']));
        expect(await client.callTool({ name: 'mars__double', arguments: { a: 4 } })).toMatchObject({
          structuredContent: { caller: 'alice', doubled: 8 },
        });
        const { content } = await client.callTool({ name: 'mesh_peers', arguments: {} });
        expect(content).toMatchObject([{ text: expect.stringContaining('mars') }]);
        expect(await client.readResource({ uri: 'memory://rules' })).toMatchObject({ contents: [{ text: '# Rules' }] });
        expect(await client.getPrompt({ name: 'mars__review', arguments: { file: 'a.ts' } })).toMatchObject({
          messages: [{ content: { text: 'Review a.ts. ' } }],
        });
        await expect(client.callTool({ name: 'mars__none', arguments: {} })).rejects.toThrow(/mars__none/);
        expect((await node.agents()).map(({ id }) => id)).toContain('alice');
      } finally {
        await close();
      }
    },
  );

  it('give the program of an agent the tools of all agents, in its name and within its sandbox [MC11 MC2]', async () => {
    const agents = async () => (await node.agents()).map(({ id }) => id);
    // The agent of the test before leaves when the node notices the end of its program.
    await expect.poll(agents).not.toContain('alice');
    const before = await agents();
    const mars = await stdioClient('legacy', ['--for', 'mars']);
    const rat = await stdioClient('legacy', ['--for', 'rat']);
    try {
      expect(await mars.client.callTool({ name: 'mars__double', arguments: { a: 1 } })).toMatchObject({
        structuredContent: { caller: 'mars' },
      });
      const names = async () => (await rat.client.listTools()).tools.map(({ name }) => name);
      await expect.poll(names, { timeout: 10_000 }).toEqual([...BUILT_IN, 'rat__describe']);
      await expect(rat.client.callTool({ name: 'mars__double', arguments: { a: 1 } })).rejects.toThrow();
      expect(await agents()).toEqual(before);
    } finally {
      await Promise.all([mars.close(), rat.close()]);
    }
    const nobody = await stdioClient('legacy', ['--for', 'nobody']);
    await expect(nobody.client.listTools()).rejects.toThrow(/no agent "nobody"/);
    await nobody.close();
  });

  it('print the help of `mcp` [MC11]', async () => {
    expect((await node.run('mcp', '--tools', 'some')).stderr).toMatch(/--tools is mesh, core or all/);
    expect((await node.run('mcp', '--for', 'mars', '--as', 'alice')).stderr).toMatch(/--for goes with neither/);
  });

  async function stdioClient(mode: 'legacy' | 'auto', words: readonly string[]) {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    const args = [BIN, 'mcp', ...words, '--data', node.data];
    const transport = new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' });
    await client.connect(transport);
    return { client, close: () => client.close() };
  }
});

async function httpTools({ ready }: ProcessNode, token: string): Promise<string[]> {
  const client = new Client({ name: 'test', version: '1' });
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(ready.mcp), { requestInit: { headers } }));
  try {
    return (await client.listTools()).tools.map(({ name }) => name);
  } finally {
    await client.close();
  }
}
