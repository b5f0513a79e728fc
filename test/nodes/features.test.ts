import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { AttachInit, CodingAgents } from '../../src/coding-agents/coding-agents.js';
import type { Member } from '../../src/coding-agents/mailbox/member.js';
import { runTool } from '../../src/coding-agents/tools/tools.js';
import type { NodeNetworkInit } from '../../src/node/compose.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type { NatsServer } from '../nats-server.js';
import { Cluster, type NetworkedNode, type Transport, until } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** All members work in one repository. */
const identify = async () => ({ id: 'repository', name: 'here', root: '/work' });

// What `scenario.test.ts` does not cover: tools, documents, swarms, durable mail and leases between nodes.
describe.each<[Transport]>([['websocket'], ['hyperswarm'], ['nats']])('two nodes over %s', (transport) => {
  let cluster: Cluster;
  let server: NatsServer | undefined;
  let a: NetworkedNode;
  let b: NetworkedNode;
  const codingAgents: CodingAgents[] = [];

  beforeAll(async () => {
    cluster = new Cluster();
    const network = await networkOf();
    [a, b] = [await start('a', network), await start('b', network)];
    const { code } = await a.network.invite();
    await b.network.join(code);
    await until(() => b.network.list()[0]?.state === 'connected', 'they are connected');
    expect([a, b].map((node) => node.network.list()[0]?.link)).toEqual([transport, transport]);
  });

  afterAll(() => cluster.end());

  it('call each other’s tools [NX.5]', async () => {
    b.agent({ id: 'keeper' }).tool('double', { description: 'doubles' }, (input) => ({
      twice: 2 * (input as { of: number }).of,
    }));
    const asker = a.agent({ id: 'asker' });
    await until(
      async () => (await asker.mcp.call('keeper.double', { of: 1 }).catch(() => undefined)) !== undefined,
      'tool',
    );
    const results = await Promise.all(Array.from({ length: 100 }, (_, of) => asker.mcp.call('keeper.double', { of })));
    expect(results.map(({ structuredContent }) => structuredContent)).toEqual(
      Array.from({ length: 100 }, (_, of) => ({ twice: 2 * of })),
    );
  });

  it('share a document [NX.5]', async () => {
    const one = a.agent({ id: 'writer' }).state('plan');
    const other = b.agent({ id: 'reader' }).state('plan');
    await until(() => {
      one.map('m').set('a', 1);
      return other.map('m').get('a') === 1;
    }, 'the document has met');
    for (let count = 0; count < 200; count++) (count % 2 ? one : other).map('m').set(`key ${count}`, count);
    await until(() => one.map('m').size === 201 && other.map('m').size === 201, 'both have everything');
    expect(one.toJSON()).toEqual(other.toJSON());
  });

  it('do the sub-tasks of a swarm [NX.5]', async () => {
    a.agent({ id: 'ann', capabilities: ['paint'] }).onTask(() => 'painted');
    b.agent({ id: 'bob', capabilities: ['write'] }).onTask(() => 'written');
    const sun = a.agent({ id: 'sun' });
    await until(() => a.registry.listAll().some(({ id }) => id === 'bob'), 'bob is known');
    const { status, results } = await sun.swarm('a book', { capabilities: ['paint', 'write'] }).result;
    expect({ status, results }).toEqual({ status: 'completed', results: { paint: 'painted', write: 'written' } });
  });

  it('deliver durable mail once, also while the transport breaks [NX.5 NX.6]', async () => {
    const got: unknown[] = [];
    b.agent({ id: 'clerk' }).onNotification(({ payload }) => {
      got.push(payload);
    });
    const sender = a.agent({ id: 'sender' });
    await until(() => a.registry.listAll().some(({ id }) => id === 'clerk'), 'clerk is known');
    const ids: string[] = [];
    for (let number = 0; number < 60; number++) {
      const { messageId } = await sender.send(`clerk@${b.key}`, number, { durable: true });
      ids.push(messageId!);
      if (number === 20) await server?.kill();
      if (number === 40) await server?.start();
      if (server) await delay(5);
    }
    await until(() => got.length === 60, 'all mail has arrived', 30_000);
    await until(async () => {
      for (const id of ids) if (!(await a.mail!.receipt(id)).over) return false;
      return true;
    }, 'every receipt is settled');
    expect(got).toEqual(Array.from({ length: 60 }, (_, number) => number));
  });

  it('grant a lease to one holder [NX.5]', async () => {
    const [alice, bob] = [await attach(0, 'alice'), await attach(1, 'bob')];
    await until(async () => (await lease(alice, 'take', ['src/**'])).includes('token'), 'alice has the lease');
    expect(await lease(bob, 'take', ['src/x.ts'])).toContain('Nothing was taken. Held by others:');
    await lease(alice, 'release');
    await until(async () => (await lease(bob, 'take', ['src/x.ts'])).includes('token'), 'bob has the lease');
  });

  async function networkOf(): Promise<NodeNetworkInit> {
    if (transport === 'websocket') return { dht: false, listen: { host: '127.0.0.1', port: 0 } };
    if (transport === 'hyperswarm') return { bootstrap: [await cluster.dht()] };
    server = await cluster.natsServer();
    return { nats: { servers: [server.url] } };
  }

  async function start(name: string, network: NodeNetworkInit): Promise<NetworkedNode> {
    const node = await cluster.inProcess({ ...network, name }, { store: new MemoryStore() });
    codingAgents.push(await node.openCodingAgents(cluster.folder, { identify }));
    return node;
  }

  function attach(at: number, as: string): Promise<Member> {
    const about: AttachInit = { as, client: 'scripted', checkout: '/work' };
    return codingAgents[at]!.attach(about);
  }
});

let calls = 0;

async function lease(member: Member, action: string, paths?: readonly string[]): Promise<string> {
  const about = { number: ++calls, seen: [], signal: new AbortController().signal };
  return (await runTool(member, 'mesh_lease', { action, ...(paths && { paths }) }, about)).text;
}
