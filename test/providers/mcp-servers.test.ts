import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import type { MCPToolResult } from '../../src/providers/mcp/mcp-bridge.js';
import { ProcessHost, program } from './process-host.js';
import { lives, until } from './processes.js';

const CLI = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));

/** An MCP server whose one tool does to it what its arguments say. */
const SERVER = `
const out = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const answer = (id, text, more) => out({ id, result: { content: [{ type: 'text', text }], ...more } });
const hoard = [];
const acts = {
  pid: (id) => answer(id, String(process.pid)),
  fail: (id) => answer(id, 'it did not work', { isError: true }),
  exit: () => process.exit(3),
  hang: () => {},
  refuse: (id) => out({ id, error: { code: -32050, message: 'no idea' } }),
  family: (id) => answer(id, String(require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' }).pid)),
  grow: () => { hoard.push(Buffer.alloc(16 * 1048576, 1)); setTimeout(acts.grow, 5); },
};
let deaf = false;
acts.deafen = (id) => { deaf = true; answer(id, 'deaf'); };
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (deaf || id === undefined) return;
  const serverInfo = { name: 'acting', version: '1' };
  if (method === 'initialize') out({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } });
  else if (method === 'tools/list') out({ id, result: { tools: [{ name: 'act', inputSchema: { type: 'object', properties: { do: { type: 'string' } }, required: ['do'] } }] } });
  else if (method === 'tools/call') acts[params.arguments.do](id);
  else out({ id, result: {} });
});`;

const server = (more: object = {}) => ({ command: process.execPath, args: ['-e', SERVER], ...more });

let running: ProcessHost | undefined;

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

async function start(mcpServers: Config['mcpServers'], agents: Config['agents'] = {}): Promise<ProcessHost> {
  running = await ProcessHost.start(agents, { mcpServers });
  await healthy(...Object.keys(mcpServers ?? {}).map((name) => `mcp/${name}`));
  return running;
}

async function healthy(...ids: string[]): Promise<void> {
  const { providers } = running!.host.node;
  const rows = () => providers.list().filter(({ id }) => ids.includes(id));
  await until(
    () => rows().filter(({ phase, state }) => phase === 'ready' && state === 'healthy').length === ids.length,
  );
  await until(() => rows().every(({ lastCheck }) => lastCheck !== null));
}

async function act(tool: string, what: string, options: { thread?: string } = {}): Promise<string> {
  const { content } = await running!.sun.mcp.call(tool, { do: what }, options);
  return (content[0] as { text: string }).text;
}

const lanes = () => running!.control.call('lanes');
const topicsOf = async (thread: string) =>
  (await running!.control.call('thread.events', { id: thread })).map(({ topic }) => topic);

describe('the program of an MCP server', () => {
  it('runs in a lane, ends with it and with everything that it started, and affects no other [FR-025-008]', async () => {
    const { control, sun } = await start(
      { files: server(), notes: server({ lane: 'shared' }) },
      { worker: { command: program(), lane: 'shared' } },
    );
    await running!.ready('worker');
    const rows = await lanes();
    expect(rows.map(({ lane, providers }) => [lane, providers.map(({ provider }) => provider).sort()])).toEqual([
      ['mcp-files', ['mcp/files']],
      ['shared', ['mcp/notes', 'worker']],
    ]);
    const [files] = rows[0]!.providers;
    expect(String(files!.pid)).toBe(await act('files.act', 'pid'));
    expect(files).toMatchObject({ state: 'running', inFlight: 0, crashes: 0 });
    const pids = [...rows[1]!.providers.map(({ pid }) => pid!), Number(await act('notes.act', 'family'))];
    expect(pids.every(lives)).toBe(true);
    const call = act('notes.act', 'hang').catch((error) => error);
    await until(() => running!.host.node.providers.get('mcp/notes').inFlight === 1);
    expect((await lanes())[1]!.providers.map(({ inFlight }) => inFlight).sort()).toEqual([0, 1]);
    await control.call('lanes.close', { lane: 'shared' });
    expect(await call).toMatchObject({ code: 'PROVIDER_CRASHED', details: { outcome: 'unknown' } });
    expect(pids.filter(lives)).toEqual([]);
    expect((await lanes()).map(({ lane, closed }) => [lane, closed])).toEqual([
      ['mcp-files', false],
      ['shared', true],
    ]);
    // Its tools stay known, and are reported as unavailable.
    expect(sun.mcp.tools.map(({ name }) => name)).toContain('notes.act');
    await expect(act('notes.act', 'pid')).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      message: 'MCP server "notes" is not connected (idle)',
    });
    expect(String(files!.pid)).toBe(await act('files.act', 'pid'));
    await control.call('lanes.open', { lane: 'shared' });
    await healthy('mcp/notes');
    expect(pids).not.toContain(Number(await act('notes.act', 'pid')));
    expect((await lanes())[1]!.providers.map(({ provider }) => provider).sort()).toEqual(['mcp/notes', 'worker']);
  });

  it('is not restarted by a new credential after its lane was closed', async () => {
    const env = { TOKEN: { credential: 'token' } };
    running = await ProcessHost.start({}, { mcpServers: { files: server({ env }) }, credentials: { keychain: false } });
    const { credentials } = running.host;
    const set = (value: string) => credentials.set({ provider: 'files', workspace: 'default', name: 'token' }, value);
    const state = async () => (await running!.control.call('tools.servers'))[0]!.state;
    await until(() => running!.host.node.providers.list()[0]?.state === 'degraded');
    expect(await state()).toBe('failed');
    await set('one');
    await healthy('mcp/files');
    await running.control.call('lanes.close', { lane: 'mcp-files' });
    await set('two');
    expect(await state()).toBe('idle');
  });

  it('is killed when it exceeds its memory limit, reported, and restarted [FR-025-007]', async () => {
    await start({ files: server({ limits: { memoryMb: 256 } }), notes: server() });
    const [before, neighbour] = [await act('files.act', 'pid'), await act('notes.act', 'pid')];
    await expect(act('files.act', 'grow', { thread: 'growing' })).rejects.toMatchObject({
      code: 'PROVIDER_CRASHED',
      message: expect.stringMatching(/mcp\/files took \d+ MB of memory; 256 are allowed/),
      details: { outcome: 'unknown' },
    });
    await until(() => running!.host.node.providers.get('mcp/files').state === 'healthy');
    expect(await act('files.act', 'pid')).not.toBe(before);
    expect(lives(Number(before))).toBe(false);
    expect(await act('notes.act', 'pid')).toBe(neighbour);
    const [files] = (await lanes())[0]!.providers;
    expect(files).toMatchObject({ provider: 'mcp/files', crashes: 1 });
    const changes = running!.events.filter(({ topic }) => topic === 'provider.health.changed');
    expect(changes.map(({ provider, details }) => [provider, details!.to])).toEqual([
      ['mcp/files', 'degraded'],
      ['mcp/files', 'healthy'],
    ]);
    expect(await topicsOf('growing')).toEqual(['provider.mcp.tool.failed', 'provider.execute.failed']);
  });

  it('is killed when it exceeds its memory limit while starting', async () => {
    const hoarding = 'const hoard = []; setInterval(() => hoard.push(Buffer.alloc(16 * 1048576, 1)), 5)';
    const limits = { memoryMb: 256 };
    running = await ProcessHost.start({}, { mcpServers: { files: { ...server({ limits }), args: ['-e', hoarding] } } });
    await until(() => running!.host.node.providers.list()[0]?.message?.includes('256 are allowed') === true);
  });

  it('may start slowly, and is tried without limit', async () => {
    const late = `setTimeout(() => { ${SERVER} }, 6_000)`;
    const exits = 'process.exit(1)';
    running = await ProcessHost.start(
      {},
      { mcpServers: { late: { ...server(), args: ['-e', late] }, exits: { ...server(), args: ['-e', exits] } } },
    );
    await healthy('mcp/late');
    expect(await act('late.act', 'pid')).toMatch(/^\d+$/);
    const crashes = async () => (await lanes()).find(({ lane }) => lane === 'mcp-exits')!.providers[0]!;
    let row = await crashes();
    while (row.crashes <= 5) row = await crashes();
    expect(row.state).not.toBe('failed');
    await expect(running.control.call('provider.restart', { id: 'mcp/exits' })).resolves.toMatchObject({
      about: { name: 'exits' },
    });
  }, 60_000);
});

describe('a call of a tool of an MCP server', () => {
  it('goes through the registry, and is found by its correlation id [SC-025-001 FR-025-004]', async () => {
    const { control, folder, host, events } = await start({ files: server() });
    await act('files.act', 'pid', { thread: 'conversation-1' });
    expect(await control.call('thread.events', { id: 'conversation-1' })).toMatchObject([
      { topic: 'provider.mcp.tool.completed', provider: 'mcp/files', sender: 'sun', details: { toolName: 'act' } },
      { topic: 'provider.execute.completed', provider: 'mcp/files', sender: 'sun', success: true },
    ]);
    expect(events.filter(({ type }) => type === 'tool-invocation').at(-1)).toMatchObject({
      correlationId: 'conversation-1',
    });
    const args = ['--import', 'tsx', CLI, 'thread', 'conversation-1', '--data', join(folder, 'data')];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(stdout).toMatch(/sun +mcp\/files +provider\.execute\.completed/);
    // A call that belongs to no conversation is found by its own id.
    await control.call('call', { tool: 'files.act', arguments: { do: 'pid' } });
    const [own] = await control.call('invocations', { limit: 1 });
    expect(own).toMatchObject({ tool: 'files.act', caller: 'operator' });
    expect(await topicsOf(own!.id)).toEqual(['provider.mcp.tool.completed', 'provider.execute.completed']);
    await expect(act('files.act', 'pid', { thread: '' })).rejects.toMatchObject({ code: 'INVALID_PARAMS' });
    const { completed, failed } = host.node.providers.get('mcp/files');
    expect([completed, failed]).toEqual([2, 0]);
  });

  it('is counted once, also where a provider is called by name', async () => {
    const { host } = await start({ files: server() });
    const route = { type: 'mcp', capabilities: ['server:files'] };
    const { providers } = host.node;
    const input = { toolName: 'act', arguments: { do: 'pid' } };
    const { result } = await providers.execute<MCPToolResult>(route, input, 'by-name');
    expect(result).toMatchObject({ content: [{ type: 'text' }] });
    expect(await topicsOf('by-name')).toEqual(['provider.mcp.tool.completed', 'provider.execute.completed']);
    expect(providers.get('mcp/files').completed).toBe(1);
  });

  it('that reports its own failure counts as failed, and its caller gets its message [T-E11]', async () => {
    const { host, sun } = await start({ files: server() });
    const result = await sun.mcp.call('files.act', { do: 'fail' }, { thread: 'failing' });
    const error = { code: 'PROVIDER_EXECUTE_FAILED', retryable: true, message: 'it did not work' };
    expect(result).toEqual({
      content: [{ type: 'text', text: 'it did not work' }],
      isError: true,
      _meta: { 'ecliptic/error': error },
    });
    expect(running!.events.filter(({ type }) => type === 'tool-invocation').at(-1)).toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
    });
    expect(await topicsOf('failing')).toEqual(['provider.mcp.tool.failed', 'provider.execute.failed']);
    expect(host.node.providers.get('mcp/files')).toMatchObject({ completed: 0, failed: 1, state: 'healthy' });
  });

  it('has arguments that match the tool’s schema, or is refused before it reaches the server, on every path [T-E10 T-E11]', async () => {
    const { host, sun, control } = await start({ files: server() });
    const refused = { code: 'PROVIDER_INVALID_INPUT', details: { faults: [expect.stringContaining('do')] } };
    await expect(sun.mcp.call('files.act', { do: 3 })).rejects.toMatchObject(refused);
    await expect(sun.mcp.call('files.act', {})).rejects.toMatchObject(refused);
    await expect(control.call('call', { tool: 'files.act', arguments: {} })).rejects.toMatchObject(refused);
    const route = { type: 'mcp', capabilities: ['server:files'] };
    const byName = host.node.providers.execute(route, { toolName: 'act', arguments: {} }, 'by-name');
    await expect(byName).rejects.toMatchObject(refused);
    const client = new Client({ name: 'outside', version: '1.0.0' });
    const requestInit = { headers: { authorization: `Bearer ${host.gateway.tokens.owners}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(host.gateway.mcpUrl), { requestInit }));
    expect(await client.callTool({ name: 'files__act', arguments: {} })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('PROVIDER_INVALID_INPUT: the arguments do not fit tool "act"') }],
    });
    await client.close();
    expect(await act('files.act', 'pid')).toMatch(/^\d+$/);
    await expect(sun.mcp.call('files.act', { do: 'refuse' })).rejects.toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
      message: 'MCP server "files": no idea',
      details: { upstreamCode: -32_050 },
    });
  });

  it('by another person’s agent uses the server’s credentials only with an approval for both [T-G7]', async () => {
    const env = { TOKEN: { credential: 'token' } };
    running = await ProcessHost.start(
      {},
      { mcpServers: { files: server({ env }), plain: server() }, credentials: { keychain: false } },
    );
    const { credentials, node } = running.host;
    const { control } = running;
    const waiting = () => control.call('approvals');
    const decide = async (verdict: 'allow-once' | 'allow-always' | 'deny') =>
      control.call('approvals.decide', { verdict, ids: [(await waiting())[0]!.id] });
    await credentials.set({ provider: 'files', workspace: 'default', name: 'token' }, 'secret');
    await healthy('mcp/files', 'mcp/plain');
    const call = (agent: string, tool = 'files.act') => {
      const caller = {
        address: `${agent}@${'b'.repeat(64)}`,
        node: 'b'.repeat(64),
        tier: 3,
        sandboxId: undefined,
      } as const;
      return node.mcp.callTool(tool, { do: 'pid' }, { caller });
    };
    const refused = { code: 'PROVIDER_POLICY_DENIED' };
    await expect(call('eve')).rejects.toMatchObject(refused);
    await expect(call('eve')).rejects.toMatchObject(refused);
    const [question, ...others] = await waiting();
    expect(others).toEqual([]);
    expect(question).toMatchObject({ details: { server: 'files', credentials: ['token'] } });
    expect(question!.summary).toContain('wants to use MCP server "files" with your credentials (token)');
    await decide('allow-once');
    expect(await call('eve')).toMatchObject({ content: [{ type: 'text' }] });
    await expect(call('eve')).rejects.toMatchObject(refused);
    await decide('allow-always');
    for (let n = 0; n < 2; n++) expect(await call('eve')).toMatchObject({ content: [{ type: 'text' }] });
    // An approval is for one agent only; servers without credentials and the owner's own agents need none.
    await expect(call('mallory')).rejects.toMatchObject(refused);
    await decide('deny');
    await expect(call('mallory')).rejects.toMatchObject({ ...refused, message: expect.stringContaining('denied it') });
    expect(await call('mallory', 'plain.act')).toMatchObject({ content: [{ type: 'text' }] });
    expect(await act('files.act', 'pid')).toMatch(/^\d+$/);
  });

  it('that is cancelled is reported as such, and leaves nothing in flight', async () => {
    const { host, sun } = await start({ files: server() });
    const controller = new AbortController();
    const call = sun.mcp.call('files.act', { do: 'hang' }, { signal: controller.signal, thread: 'given-up' });
    const { providers } = host.node;
    await until(() => providers.get('mcp/files').inFlight === 1);
    controller.abort();
    await expect(call).rejects.toMatchObject({ code: 'CANCELLED' });
    await until(() => providers.get('mcp/files').inFlight === 0);
    expect(await topicsOf('given-up')).toEqual(['provider.mcp.tool.failed', 'provider.execute.cancelled']);
    const late = sun.mcp.call('files.act', { do: 'hang' }, { timeoutMs: 50, thread: 'too-late' });
    await expect(late).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    await until(() =>
      running!.events.some(({ correlationId, code }) => correlationId === 'too-late' && code === 'PROVIDER_TIMEOUT'),
    );
  });

  it('fails at once with the reason while its server is away, and works as soon as it is back', async () => {
    const { host } = await start({ files: server() });
    const { providers } = host.node;
    await expect(act('files.act', 'exit')).rejects.toMatchObject({ details: { outcome: 'unknown' } });
    await expect(act('files.act', 'pid', { thread: 'away' })).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      message: expect.stringMatching(/^MCP server "files" is not connected \((backing-off: .+|running|starting)\)$/),
      details: { server: 'files', outcome: 'not-delivered' },
    });
    expect(providers.waiting).toBe(0);
    expect((await topicsOf('away')).at(-1)).toBe('provider.execute.failed');
    // The restarted server is being checked: the call waits for the check, and no longer.
    const status = async () => (await running!.control.call('tools.servers'))[0]!;
    while ((await status()).state !== 'running');
    expect(await act('files.act', 'pid')).toMatch(/^\d+$/);
  });

  it('is refused while the server is drained or at its limit', async () => {
    const { control, host } = await start({ files: server() });
    const many = Array.from({ length: 100 }, () =>
      running!.sun.mcp.call('files.act', { do: 'hang' }, { timeoutMs: 500 }).catch(({ code }) => code),
    );
    await expect(act('files.act', 'pid')).rejects.toMatchObject({
      code: 'PROVIDER_CONCURRENCY_EXCEEDED',
      message: 'provider "mcp/files" works on 100 things already',
    });
    expect(new Set(await Promise.all(many))).toEqual(new Set(['REQUEST_TIMEOUT']));
    await until(() => host.node.providers.get('mcp/files').inFlight === 0);
    await control.call('provider.drain', { id: 'mcp/files' });
    await expect(act('files.act', 'pid')).rejects.toMatchObject({
      code: 'PROVIDER_UNAVAILABLE',
      message: expect.stringContaining('provider "mcp/files" is drained'),
    });
    await control.call('provider.restart', { id: 'mcp/files' });
    expect(await act('files.act', 'pid')).toMatch(/^\d+$/);
  });

  it('is told apart from calls of a server with a similar name', async () => {
    running = await ProcessHost.start(
      {},
      { mcpServers: { 'my notes': { ...server(), agent: 'one' }, 'my-notes': server() } },
    );
    await healthy('mcp/my-notes', 'mcp/my-notes-2');
    expect(await act('one.act', 'pid')).not.toBe(await act('my-notes.act', 'pid'));
  });
});
