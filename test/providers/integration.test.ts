import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import type { MCPToolResult } from '../../src/providers/mcp/mcp-bridge.js';
import { Workers } from '../../src/providers/workers.js';
import { ERRORS } from '../../src/runtime/errors.js';
import { Nodes } from '../nodes-fixture.js';
import { BIN } from '../source-files.js';
import { tool } from '../upstream/harness.js';
import { providerTriggers } from './error-triggers.js';
import { acpAgent, ProcessHost, program } from './process-host.js';
import { until } from './processes.js';
import { RemoteAgent } from './remote-agent.js';

const SERVER = fileURLToPath(new URL('../upstream/server.mjs', import.meta.url));
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(...init: Parameters<typeof ProcessHost.start>): Promise<ProcessHost> {
  const host = await ProcessHost.start(...init);
  cleanups.push(() => host.stop());
  return host;
}

async function cli({ folder }: ProcessHost, ...words: string[]): Promise<string> {
  const args = [BIN, ...words, '--data', join(folder, 'data')];
  return (await promisify(execFile)(process.execPath, args)).stdout;
}

describe('providers, end to end', () => {
  it('an ACP agent and an MCP server register, pass health checks, execute, and emit events [SC-025-001 T020.1 T020.6a T020.6b T020.7 T020.V1 T020.V2]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-lists-'));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    const lists = join(folder, 'lists.json');
    writeFileSync(lists, JSON.stringify({ tools: [tool('echo')] }));
    const mcpServers = { files: { command: process.execPath, args: [SERVER, lists, 'stdio'] } };
    const host = await start({ mars: { acp: acpAgent() } }, { mcpServers });
    await host.ready('mars', 'mcp/files');
    const { providers } = host.host.node;
    await until(() => providers.list().every(({ state }) => state === 'healthy'));
    expect(providers.list().map(({ id, type, state }) => [id, type, state])).toEqual([
      ['mars', 'acp', 'healthy'],
      ['mcp/files', 'mcp', 'healthy'],
    ]);
    expect(await host.sun.request('mars', 'do:say all is well')).toContain('all is well');
    const route = { type: 'mcp', capabilities: ['server:files'] };
    const called = await providers.execute<MCPToolResult>(route, { toolName: 'echo', arguments: { n: 1 } }, 'corr-mcp');
    expect(JSON.stringify(called.result)).toContain('n');
    expect(called.correlationId).toBe('corr-mcp');
    const { correlationId } = host.events.find(({ type, sender }) => type === 'message-sent' && sender === 'sun')!;
    const done = host.events.filter(({ topic }) => topic === 'provider.execute.completed');
    expect(done.map(({ provider, correlationId: id }) => [provider, id])).toEqual([
      ['mars', correlationId],
      ['mcp/files', 'corr-mcp'],
    ]);
    // The output that people see.
    const thread = await cli(host, 'thread', correlationId!);
    expect(thread.match(/request|response|provider\.execute\.completed/g)).toEqual(
      expect.arrayContaining(['request', 'provider.execute.completed', 'response']),
    );
    expect(await cli(host, 'providers')).toMatch(/mars +acp +healthy +ready.*\nmcp\/files +mcp +healthy +ready/);
    expect(await cli(host, 'provider', 'restart', 'mcp/files')).toContain('mcp/files was restarted; it is healthy');
  });

  it('work goes to the next process when the first is killed, and back when it has recovered [SC-025-003 T020.3a T020.3b]', async () => {
    const host = await start({ first: { command: program() }, second: { command: program() } });
    await host.ready('first', 'second');
    const { providers } = host.host.node;
    const ask = (payload: object) => providers.execute<number>({ type: 'command' }, { payload }, 'c');
    const first = await ask({ do: 'pid' });
    await expect(ask({ do: 'kill' })).rejects.toMatchObject({ code: 'PROVIDER_CRASHED', retryable: true });
    await until(() => providers.get('first').state !== 'healthy');
    const second = await ask({ do: 'pid' });
    expect(second).not.toBe(first);
    await until(() => providers.get('first').state === 'healthy');
    const again = await ask({ do: 'pid' });
    expect([first, second]).not.toContain(again);
    const moves = host.events.filter(({ topic }) => topic === 'provider.failover.activated');
    const whole = moves.filter(({ details }) => details?.wholeType).map(({ details }) => [details!.from, details!.to]);
    // Before that, work may have gone to the second because it was ready first.
    expect(whole.slice(-2)).toEqual([
      ['first', 'second'],
      ['second', 'first'],
    ]);
  });

  it('every error has its code and its retryable flag [SC-025-004 T020.5a T020.5b T020.5c]', async () => {
    for (const [code, trigger] of Object.entries(providerTriggers(cleanups))) {
      const error = await trigger().catch((thrown) => thrown);
      expect(error).toMatchObject({ code, retryable: ERRORS[code as keyof typeof ERRORS].retryable });
    }
  }, 60_000);
});

describe('agents of other nodes', () => {
  it('are found by capability, used behind one name, and dropped when they are gone [T016.10]', async () => {
    const nodes = new Nodes();
    const { runtime } = nodes;
    const [here, there] = await nodes.startMesh(2);
    cleanups.push(
      () => here!.stop(),
      () => there!.stop(),
    );
    there!.agent({ id: 'digger', capabilities: ['dig'] }).onTask((task) => {
      task.progress('digging');
      return `dug for ${task.text}`;
    });
    there!.agent({ id: 'asker', capabilities: ['ask'] }).onTask(async (task) => {
      return `chose ${(await task.ask('which?')).parts[0]!.text}`;
    });
    there!.agent({ id: 'refuser', capabilities: ['refuse'] }).onTask((task) => task.reject('no'));
    await nodes.until(() => here!.registry.getById(`refuser@${there!.key}`) !== undefined);
    const sun = here!.agent({ id: 'sun' });
    const { registry, providers, providerEvents: events, network } = here!;
    const reachable = (node: string) => network.peers.reachable(node);
    const credentials = { resolve: () => expect.unreachable('there are none') };
    const knowledgeFor = () => undefined;
    const components = { runtime, registry, providers, events, credentials, reachable, knowledgeFor };
    const workers = new Workers(components as never);
    const common = { endpoints: [], catalogues: [], timeoutMs: 60_000, failoverEnabled: true };
    for (const mesh of [['dig'], ['ask'], ['refuse']]) {
      const agent = here!.agent({ id: `fleet-${mesh[0]}` });
      workers.add(agent, [{ type: 'a2a', config: { ...common, mesh }, concurrency: 5 }]);
    }
    void workers.start();
    expect(await nodes.settled(sun.request('fleet-dig', 'gold'))).toBe('dug for gold');
    await expect(nodes.settled(sun.request('fleet-ask', 'x'))).rejects.toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
    });
    await expect(nodes.settled(sun.request('fleet-refuse', 'x'))).rejects.toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
    });
    expect(providers.describe('fleet-dig')).toMatchObject({ endpoints: [{ id: `digger@${there!.key}`, down: null }] });
    there!.agentById('digger').leave();
    await nodes.until(() => registry.getById(`digger@${there!.key}`) === undefined);
    await runtime.advance(4 * 30_000);
    expect(providers.get('fleet-dig').state).not.toBe('healthy');
  });

  it('do not disturb agents that are reached over HTTP', async () => {
    const mars = await RemoteAgent.start('mars', { open: true });
    cleanups.push(() => mars.stop());
    const host = await start({ fleet: { a2a: { endpoints: [mars.url], mesh: ['dig'] } } });
    expect(await host.sun.request('fleet', 'gold')).toBe('mars did gold');
  });
});
