import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { ProviderCrash, ProviderUpdate } from '../../src/providers/adapter/adapter.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import { MCPBridgeAdapter, type MCPToolResult } from '../../src/providers/mcp/mcp-bridge.js';
import { runtime, tool, Upstreaming } from '../upstream/harness.js';
import { adapterContract, expectError } from './adapter-contract.js';

const upstreamings: Upstreaming[] = [];
const adapters: MCPBridgeAdapter[] = [];

afterEach(async () => {
  for (const adapter of adapters.splice(0)) await adapter.terminate();
  for (const upstreaming of upstreamings.splice(0)) await upstreaming.end();
});

const TOOLS = [
  tool('echo', { inputSchema: { type: 'object', properties: { count: { type: 'number' } } } }),
  tool('fail'),
  tool('slow'),
  tool('steps'),
  tool('die'),
  tool('refuse'),
  tool('ask'),
];

async function make() {
  const upstreaming = await Upstreaming.start({ direct: true });
  upstreaming.addStdio('files', { tools: TOOLS });
  const { upstreams, node } = upstreaming;
  const events = new ProviderEvents(runtime, node.observability);
  const adapter = new MCPBridgeAdapter('mcp/files', { runtime, events, open: (name) => upstreams.get(name) });
  return { upstreaming, adapter };
}

async function started() {
  const made = await make();
  upstreamings.push(made.upstreaming);
  adapters.push(made.adapter);
  await made.adapter.init({ server: 'files' });
  const topics = () => made.upstreaming.events.flatMap(({ topic }) => (topic === undefined ? [] : [topic]));
  return { ...made, topics };
}

adapterContract('MCPBridgeAdapter', async () => {
  const { upstreaming, adapter } = await make();
  return {
    adapter,
    config: { server: 'files' },
    badConfig: { server: 'nobody' },
    input: { toolName: 'echo', arguments: { count: 7 } },
    check: (output) => {
      const { toolName, result, duration } = output as MCPToolResult;
      expect(toolName).toBe('echo');
      expect(duration).toBeGreaterThan(0);
      expect(textOf(result)).toContain('"args":{"count":7}');
    },
    endless: { toolName: 'slow', arguments: {} },
    begun: () => until(() => upstreaming.log('files').includes('slow')),
    failing: { toolName: 'fail', arguments: {} },
    invalid: { toolName: 'echo', arguments: { count: 'seven' } },
    break: async () => {
      rmSync(join(upstreaming.folder, 'files.json'));
      await adapter.execute({ toolName: 'die', arguments: {} }, 'c').catch(() => {});
    },
    close: () => upstreaming.end(),
  };
});

describe('MCPBridgeAdapter', () => {
  it('finds the tools of a real server with their schemas, and calls them with correlation [FR-025-004]', async () => {
    const { adapter, upstreaming } = await started();
    expect(adapter.listTools()).toEqual(TOOLS.map(({ name }) => name));
    expect(adapter.getToolSchema('echo').inputSchema).toMatchObject({ properties: { count: { type: 'number' } } });
    const updates: ProviderUpdate[] = [];
    const onUpdate = (update: ProviderUpdate) => void updates.push(update);
    const result = await adapter.execute({ toolName: 'steps', arguments: {} }, 'c-1', { onUpdate, caller: 'mars' });
    expect(result).toMatchObject({ toolName: 'steps', correlationId: 'c-1' });
    expect(updates.map(({ data }) => data)).toContainEqual({ progress: 3, total: 3 });
    await expectError(adapter.execute({ toolName: 'fail', arguments: {} }, 'c-2'), 'PROVIDER_EXECUTE_FAILED', 'c-2');
    expect(upstreaming.events.filter(({ type }) => type === 'provider')).toMatchObject([
      { topic: 'provider.mcp.tools.discovered', provider: 'mcp/files' },
      { topic: 'provider.mcp.tool.completed', correlationId: 'c-1', sender: 'mars', details: { toolName: 'steps' } },
      { topic: 'provider.mcp.tool.failed', correlationId: 'c-2', code: 'PROVIDER_EXECUTE_FAILED' },
    ]);
    expect(adapter.describe()).toMatchObject({ state: 'running', tools: expect.arrayContaining(['echo']) });
  });

  it('reports a failed call by its structure', async () => {
    const { adapter } = await started();
    const call = (toolName: string, more = {}) => adapter.execute({ toolName, arguments: {}, ...more }, 'c');
    await expectError(call('nothing'), 'PROVIDER_TOOL_NOT_FOUND', 'c');
    await expectError(call('refuse'), 'PROVIDER_INVALID_INPUT', 'c');
    await expectError(call('slow', { timeout: 200 }), 'PROVIDER_TIMEOUT', 'c');
    await expectError(call('die'), 'PROVIDER_CRASHED', 'c');
  });

  it('reports at once that its server is gone, and that it is back', async () => {
    const { adapter, topics } = await started();
    const crashes: ProviderCrash[] = [];
    adapter.onCrash((crash) => crashes.push(crash));
    const back = new Promise<void>((resolve) => adapter.onReady(resolve));
    await expectError(adapter.execute({ toolName: 'die', arguments: {} }, 'c'), 'PROVIDER_CRASHED', 'c');
    await back;
    expect(crashes).toMatchObject([{ error: { code: 'PROVIDER_CRASHED' } }]);
    expect((await adapter.health()).state).toBe('healthy');
    expect(topics().filter((topic) => topic.endsWith('connected'))).toEqual([
      'provider.mcp.disconnected',
      'provider.mcp.reconnected',
    ]);
  });

  it('emits added and removed tools', async () => {
    const { adapter, upstreaming, topics } = await started();
    upstreaming.lists('files', { tools: TOOLS.slice(1) });
    await expectError(adapter.execute({ toolName: 'die', arguments: {} }, 'c'), 'PROVIDER_CRASHED', 'c');
    await until(() => topics().includes('provider.mcp.tools.refreshed'));
    const [refreshed] = upstreaming.events.filter(({ topic }) => topic === 'provider.mcp.tools.refreshed');
    expect(refreshed!.details).toEqual({ added: [], removed: ['echo'], unchanged: TOOLS.length - 1 });
  });

  it('can be registered before its server is available', async () => {
    const upstreaming = await Upstreaming.start({ direct: true });
    upstreamings.push(upstreaming);
    upstreaming.addProgram('broken', 'process.exit(1)');
    const events = new ProviderEvents(runtime, upstreaming.node.observability);
    const open = (name: string) => upstreaming.upstreams.get(name);
    const adapter = new MCPBridgeAdapter('mcp/broken', { runtime, events, open });
    adapters.push(adapter);
    await expectError(adapter.init({ server: 'broken' }), 'PROVIDER_CRASHED');
    await adapter.init({ server: 'broken', keepTrying: true });
    await expectError(adapter.health(), 'PROVIDER_UNAVAILABLE');
  });
});

function textOf(result: unknown): string {
  return (result as { content: { text: string }[] }).content[0]!.text;
}

async function until(done: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (done()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('it did not come to that');
}
