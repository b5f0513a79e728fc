import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { A2ARouterAdapter } from '../../src/providers/a2a/a2a-router.js';
import { MeshTransport } from '../../src/providers/a2a/mesh-transport.js';
import { catalogueAt } from '../../src/providers/a2a/remote-agents.js';
import type { ProviderUpdate } from '../../src/providers/adapter/adapter.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { ForeignServers } from '../foreign-servers.js';
import { Nodes } from '../nodes-fixture.js';
import { expectError } from './adapter-contract.js';
import { delegation } from './remote-agent.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('an agent of another node', () => {
  async function setUp() {
    const nodes = new Nodes();
    const [here, there] = await nodes.startMesh(2);
    cleanups.push(
      () => here!.stop(),
      () => there!.stop(),
    );
    const aborted: unknown[] = [];
    there!.agent({ id: 'worker', capabilities: ['dig'] }).onTask(async (task) => {
      switch (task.text) {
        case 'write':
          task.artifact('one ', { id: 'a', lastChunk: false });
          task.artifact('two', { id: 'a', append: true });
          return undefined;
        case 'reply':
          return task.reply('hello');
        case 'ask':
          return `chose ${(await task.ask('which?')).parts[0]!.text}`;
        case 'access':
          await task.askAuth('let me in');
          return 'in';
        case 'data':
          return { metadata: task.metadata };
        case 'wait':
          task.progress('waiting');
          return new Promise((_, reject) => {
            task.signal.addEventListener('abort', () => {
              aborted.push(task.signal.reason);
              reject(task.signal.reason);
            });
          });
        default:
          throw new Error('no');
      }
    });
    const address = `worker@${there!.key}`;
    const { registry, network, providerEvents: events } = here!;
    await nodes.until(() => registry.getById(address) !== undefined);
    const agent = here!.agent({ id: 'fleet' });
    const { runtime } = nodes;
    const look = () => (network.peers.reachable(there!.key) ? ['dig'] : undefined);
    const meshTransport = (to: string) => new MeshTransport({ runtime, agent, look }, to);
    const adapter = new A2ARouterAdapter('fleet', { runtime, events, meshTransport, self: 'fleet@here' });
    const endpoint = { id: 'worker', url: `mesh:${address}`, priority: 1, capabilities: [] };
    await nodes.settled(adapter.init({ endpoints: [endpoint], timeoutMs: 10_000, failoverEnabled: true }));
    const ask = (words: string, terms = {}) => nodes.settled(adapter.execute(delegation(words, 'dig'), 'c', terms));
    return { nodes, adapter, ask, aborted, there: there! };
  }

  it('gets a task like any agent, and its updates are passed on', async () => {
    const { ask } = await setUp();
    const updates: ProviderUpdate[] = [];
    const onUpdate = (update: ProviderUpdate) => void updates.push(update);
    expect((await ask('write', { onUpdate })).result).toBe('one two');
    expect(updates.map(({ text }) => text)).toEqual(['one ', 'two']);
    expect((await ask('reply')).result).toBe('hello');
    const onQuestion = async ({ text }: ProviderUpdate) => `${text} this`;
    expect((await ask('ask', { onQuestion })).result).toBe('chose which? this');
    expect((await ask('data')).result).toMatchObject({ metadata: { correlationId: 'c' } });
  });

  it('fails, asks for access, times out and is cancelled like any provider', async () => {
    const { nodes, adapter, ask, aborted } = await setUp();
    await expectError(ask('nonsense'), 'PROVIDER_EXECUTE_FAILED', 'c');
    await expectError(ask('access'), 'PROVIDER_CREDENTIAL_MISSING', 'c');
    await expectError(ask('wait'), 'PROVIDER_TIMEOUT', 'c');
    await nodes.until(() => aborted.length === 1);
    const caller = new AbortController();
    let begun = false;
    const onUpdate = () => {
      begun = true;
    };
    const work = adapter.execute(delegation('wait'), 'c', { signal: caller.signal, onUpdate });
    const cancelled = expectError(work, 'PROVIDER_CANCELLED', 'c');
    await nodes.until(() => begun);
    caller.abort();
    await nodes.until(() => aborted.length === 2);
    await cancelled;
  });

  it('gets no work while its node is unreachable', async () => {
    const { nodes, adapter, ask, there } = await setUp();
    await nodes.settled(there.stop());
    expect((await nodes.settled(adapter.health())).state).toBe('degraded');
    await expectError(ask('data'), 'PROVIDER_UNAVAILABLE', 'c');
  });
});

describe('a catalogue', () => {
  const runtime = systemRuntime();
  const signal = new AbortController().signal;

  async function served(answer: (response: ServerResponse) => void) {
    const servers = new ForeignServers();
    cleanups.push(() => servers.close());
    const { origin } = await servers.http((_, response) => answer(response));
    return catalogueAt(runtime, `${origin}/list.json`, { allowPrivate: true }, { priority: 3 });
  }

  it.each([
    ['a list of URLs', ['https://a.example/', 7, null]],
    ['entries', { entries: [{ url: 'https://a.example' }, { url: 'https://b.example', type: 'text/html' }] }],
    ['agents', { agents: [{ url: 'https://a.example', mediaType: 'application/a2a-agent-card+json' }, 'http://['] }],
  ])('may be %s', async (_, list) => {
    const source = await served((response) => response.end(JSON.stringify(list)));
    const endpoint = { id: 'https://a.example/', url: 'https://a.example/', priority: 3, capabilities: [] };
    expect(await source(signal)).toEqual([endpoint]);
  });

  it.each([
    ['is not JSON', '<html>'],
    ['is no list', '{"entries":7}'],
    ['is nothing', 'null'],
  ])('that %s is refused', async (_, text) => {
    const source = await served((response) => response.end(text));
    await expect(source(signal)).rejects.toMatchObject({ code: 'INVALID_AGENT_RESPONSE' });
  });

  it('that cannot be read is reported, and its earlier entries stay', async () => {
    let there = true;
    const servers = new ForeignServers();
    cleanups.push(() => servers.close());
    const list = await servers.http((_, response) => {
      if (there) response.end('["https://a.invalid"]');
      else response.writeHead(404).end();
    });
    const source = catalogueAt(runtime, list.origin, { allowPrivate: true });
    expect(await source(signal)).toHaveLength(1);
    there = false;
    await expect(source(signal)).rejects.toMatchObject({ code: 'REMOTE_FAILED', details: { status: 404 } });
  });
});
