import { join } from 'node:path';
import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Endpoint, startAcross } from '../conformance/endpoints.js';
import { Cluster, until } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';
import { WATCHED } from './agents/probe.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const AGENTS_FOLDER = join(ROOT, 'test', 'mcp', 'agents');
const AGENTS = {
  probe: { module: join(AGENTS_FOLDER, 'probe.ts') },
  leaver: { module: join(AGENTS_FOLDER, 'leaver.ts') },
};
/** A node that is gone is given up soon. */
const LIMITS = { peers: { graceMs: 2_000 } };

const REVISION = '2026-07-28';
const LIST_CHANGED = 'notifications/tools/list_changed';
const UPDATED = 'notifications/resources/updated';

/** A client, and the notifications that it received, in order. */
interface Listener {
  readonly client: Client;
  readonly heard: [method: string, params: unknown][];
}

describe('tools of agents on another node', () => {
  const cluster = new Cluster();
  let endpoint: Endpoint;
  const listeners = {} as Record<'legacy' | 'modern', Listener>;

  beforeAll(async () => {
    endpoint = await startAcross(cluster, AGENTS, LIMITS);
    for (const era of ['legacy', 'modern'] as const) listeners[era] = await connect(era);
  });

  afterAll(() => cluster.end());

  async function connect(era: 'legacy' | 'modern'): Promise<Listener> {
    const mode = era === 'modern' ? { pin: REVISION } : era;
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    const heard: Listener['heard'] = [];
    for (const method of [UPDATED, LIST_CHANGED] as const) {
      client.setNotificationHandler(method, ({ params }) => void heard.push([method, params]));
    }
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.front.ready.mcp)));
    if (era === 'modern') await client.listen({ toolsListChanged: true });
    cluster.onEnd(() => client.close());
    return { client, heard };
  }

  describe.each(['legacy', 'modern'] as const)('for a %s client', (era) => {
    it('report progress, and receive its cancellation [IT2]', async () => {
      const { client } = listeners[era];
      const before = await waits(client);
      const controller = new AbortController();
      const told: unknown[] = [];
      const onprogress = (progress: unknown) => {
        told.push(progress);
        controller.abort();
      };
      const call = client.callTool({ name: 'probe_wait' }, { signal: controller.signal, onprogress });
      await expect(call).rejects.toThrow();
      expect(told).toEqual([{ progress: 1, total: 2, message: 'waiting' }]);
      await until(async () => (await waits(client)).cancelled > before.cancelled, 'the tool heard of it');
      expect(await waits(client)).toEqual({ begun: before.begun + 1, cancelled: before.cancelled + 1 });
    });

    it('notify it of changed resources while it is subscribed', async () => {
      const { client, heard } = listeners[era];
      const updates = () => heard.filter(([method]) => method === UPDATED);
      await client.callTool({ name: 'probe_update' });
      const unsubscribe = await subscribe(client, era);
      await client.callTool({ name: 'probe_update' });
      await until(() => updates().length > 0, 'the update came');
      await unsubscribe();
      await client.callTool({ name: 'probe_update' });
      await waits(client);
      expect(updates()).toEqual([[UPDATED, expect.objectContaining({ uri: WATCHED })]]);
    });
  });

  it('get the call’s metadata, and may return megabytes', async () => {
    const { client } = listeners.modern;
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { structuredContent } = await client.callTool({ name: 'probe_meta', _meta: { traceparent } });
    expect(structuredContent).toEqual({ caller: `guest@${endpoint.front.key}`, meta: { traceparent } });
    const { content } = await client.callTool({ name: 'probe_large' });
    expect(content).toEqual([{ type: 'text', text: 'x'.repeat(2_000_000) }]);
  });

  it('get the error themselves when they report invalid progress, and the link stays [R5.4]', async () => {
    const result = await listeners.modern.client.callTool({ name: 'probe_nonsense' });
    expect(result).toMatchObject({ isError: true, _meta: { 'ecliptic/error': { code: 'INVALID_RESULT' } } });
    expect(await endpoint.front.stateOf(endpoint.home)).toBe('connected');
  });

  it('do not run for a caller that gave up while their node was stopped [T-C3]', async () => {
    const { client } = listeners.modern;
    const { begun } = await waits(client);
    endpoint.home.signal('SIGSTOP');
    const call = endpoint.front.call('call', { tool: 'probe.probe_wait', arguments: {}, timeoutMs: 300 });
    await expect(call).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT', details: { outcome: 'unknown' } });
    endpoint.home.signal('SIGCONT');
    expect((await waits(client)).begun).toBe(begun);
  });

  it('disappear with an agent that leaves, and clients are notified', async () => {
    expect(await toolNames(listeners.modern.client)).toContain('leave');
    await listeners.modern.client.callTool({ name: 'leave' });
    for (const { client, heard } of Object.values(listeners)) {
      await until(() => heard.some(([method]) => method === LIST_CHANGED), 'the notice came');
      expect(await toolNames(client)).not.toContain('leave');
    }
  });

  it('disappear with a node that dies: open calls fail with its name, and clients are notified [MC3]', async () => {
    const { legacy, modern } = listeners;
    const { begun } = await waits(modern.client);
    const calls = [legacy, modern].map(({ client }) => client.callTool({ name: 'probe_wait' }));
    await until(async () => (await waits(modern.client)).begun === begun + 2, 'the calls are under way');
    for (const { heard } of [legacy, modern]) heard.length = 0;
    await endpoint.home.crash();
    for (const call of calls) {
      const agent = `probe@${endpoint.home.key}`;
      const failure = { agent, code: expect.any(String), outcome: 'unknown' };
      expect((await call) as CallToolResult).toMatchObject({ isError: true, _meta: { 'ecliptic/error': failure } });
    }
    for (const { client, heard } of [legacy, modern]) {
      await until(() => heard.some(([method]) => method === LIST_CHANGED), 'the notice came');
      expect(await toolNames(client)).toEqual([]);
      await expect(client.callTool({ name: 'probe_state' })).rejects.toMatchObject({ code: -32602 });
    }
  });
});

async function subscribe(client: Client, era: 'legacy' | 'modern'): Promise<() => Promise<unknown>> {
  if (era === 'modern') {
    const subscription = await client.listen({ resourceSubscriptions: [WATCHED] });
    return () => subscription.close();
  }
  await client.subscribeResource({ uri: WATCHED });
  return () => client.unsubscribeResource({ uri: WATCHED });
}

async function toolNames(client: Client): Promise<string[]> {
  return (await client.listTools()).tools.map(({ name }) => name);
}

/** How many waits began, and how many were cancelled. */
async function waits(client: Client): Promise<{ begun: number; cancelled: number }> {
  const { structuredContent } = await client.callTool({ name: 'probe_state' });
  return structuredContent as { begun: number; cancelled: number };
}
