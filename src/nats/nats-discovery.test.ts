import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../../test/nats-server.js';
import type { Rendezvous } from '../network/discovery/discovery.js';
import type { Link } from '../network/links/link.js';
import { Identity } from '../network/membership/identity.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { Broker } from './broker.js';

const runtime = systemRuntime();
let endings: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

describe('discovery over NATS', () => {
  it('links members that are neighbours, each pair once', async () => {
    const server = await start();
    const topic = runtime.bytes(32);
    const nodes = await Promise.all(Array.from({ length: 4 }, () => member(server, topic)));
    await until(() => nodes.every(({ links }) => links.length === 3));
    await delay(1_500);
    for (const { links, seek } of nodes) {
      seek();
      expect(new Set(links.map(({ remoteKey }) => remoteKey)).size).toBe(3);
      expect(links).toHaveLength(3);
    }
  });

  it('leaves members that are no neighbours until they are reached, and then links them by key', async () => {
    const server = await start();
    const topic = runtime.bytes(32);
    const [one, other] = [await member(server, topic, false), await member(server, topic, false)];
    await until(() => [one, other].every((node) => node.discovery.status().detail.endsWith('to it: 1')));
    one.seek();
    await delay(1_500);
    expect([one.links, other.links]).toEqual([[], []]);
    one.discovery.reach(other.key);
    one.discovery.reach(other.key);
    await until(() => other.links.length === 1);
    expect(one.links.map(({ remoteKey, initiator }) => [remoteKey, initiator])).toEqual([[other.key, true]]);
    // A node that is not at the broker cannot be reached over it.
    one.discovery.reach('a'.repeat(64));
  });

  it('does not call nodes of another mesh at the same broker, nor is called by them', async () => {
    const server = await start();
    const [one, other] = [await member(server, runtime.bytes(32)), await member(server, runtime.bytes(32))];
    await delay(1_500);
    expect([one.links, other.links]).toEqual([[], []]);
  });

  it('lets a guest find the host of its invite, whichever comes first, and nobody else', async () => {
    const server = await start();
    const [topic, elsewhere] = [runtime.bytes(32), runtime.bytes(32)];
    const guest = await node(server, [{ topic, role: 'guest' }]);
    const stranger = await node(server, [{ topic: elsewhere, role: 'guest' }]);
    await delay(200);
    const host = await node(server, [
      { topic: runtime.bytes(32), role: 'member' },
      { topic, role: 'host' },
    ]);
    await until(() => host.links.length === 1 && guest.links.length === 1);
    expect(guest.links[0]!.remoteKey).toBe(host.key);
    host.discovery.setRendezvous([{ topic: runtime.bytes(32), role: 'member' }]);
    const late = await node(server, [{ topic, role: 'guest' }]);
    await delay(1_200);
    expect([stranger.links, late.links]).toEqual([[], []]);
  });

  it('finds members and guests again after the broker was lost', async () => {
    const server = await start();
    const [topic, invite] = [runtime.bytes(32), runtime.bytes(32)];
    const points: Rendezvous[] = [
      { topic, role: 'member' },
      { topic: invite, role: 'host' },
    ];
    const [one, other] = [await node(server, points), await member(server, topic)];
    await until(() => one.links.length === 1 && other.links.length === 1);
    await server.kill();
    await until(() => one.links.length === 0 && other.links.length === 0);
    expect(one.discovery.status()).toMatchObject({ kind: 'nats', working: false });
    await server.start();
    await until(() => {
      for (const { seek } of [one, other]) seek();
      return one.links.length === 1 && other.links.length === 1;
    });
    const guest = await node(server, [{ topic: invite, role: 'guest' }]);
    await until(() => guest.links.length === 1);
    expect(guest.links[0]!.remoteKey).toBe(one.key);
  });

  it('forgets a node that stops at once, and one that crashes within about ten seconds', async () => {
    const server = await start();
    const topic = runtime.bytes(32);
    const [one, leaving, crashing] = [
      await member(server, topic),
      await member(server, topic),
      await member(server, topic),
    ];
    const count = () => one.discovery.status().detail.replace(/.*: /, '');
    await until(() => count() === '2');
    await leaving.discovery.stop();
    await until(() => count() === '1');
    const crashedAt = performance.now();
    await crashing.broker.connection.stop();
    await vi.waitFor(() => expect(count()).toBe('0'), { timeout: 15_000 });
    expect(performance.now() - crashedAt).toBeGreaterThan(5_000);
  });

  it('reports another process with the same key', async () => {
    const server = await start();
    const identity = Identity.create(runtime);
    const point: Rendezvous = { topic: runtime.bytes(32), role: 'member' };
    const [one] = [await node(server, [point], true, identity), await node(server, [point], true, identity)];
    await until(() => !one!.discovery.status().working);
    expect(one!.discovery.status().detail).toContain('another process runs with this node’s key');
  });

  it('ignores presence that its node did not sign', async () => {
    const server = await start();
    const topic = runtime.bytes(32);
    const one = await member(server, topic);
    const { connection, presence } = one.broker;
    const bucket = await (await connection.kvm()).open(connection.names.presenceBucket);
    const own = (await vi.waitFor(async () => (await bucket.get(one.key)) ?? expect.fail(), 20_000))!;
    await bucket.put('a'.repeat(64), own.value);
    await bucket.put('b'.repeat(64), 'x');
    await bucket.put('no-key', own.value);
    const other = await member(server, topic);
    await until(() => presence.get(other.key) !== undefined);
    expect([...presence.nodes].map((present) => present.node)).toEqual([other.key]);
  });
});

async function start(): Promise<NatsServer> {
  const server = await NatsServer.start();
  endings.push(() => server.stop());
  return server;
}

function member(server: NatsServer, topic: Uint8Array, isNeighbour = true) {
  return node(server, [{ topic, role: 'member' }], isNeighbour);
}

async function node(
  server: NatsServer,
  points: readonly Rendezvous[],
  isNeighbour = true,
  identity = Identity.create(runtime),
) {
  const broker = new Broker({ runtime, identity }, { servers: [server.url] });
  const links: Link[] = [];
  const discovery = broker.discovery({
    key: identity.key,
    shouldCall: (key) => !links.some(({ remoteKey }) => remoteKey === key),
    isNeighbour: () => isNeighbour,
  });
  endings.push(async () => {
    await discovery.stop();
    await broker.stop();
  });
  await broker.start();
  await broker.connection.ready(5_000);
  await discovery.start((link) => {
    // As the admission of links does: of two links between the same nodes, the second is of no use.
    if (links.some(({ remoteKey }) => remoteKey === link.remoteKey)) return link.close();
    links.push(link);
    link.listen({
      onFrame: () => {},
      onDrain: () => {},
      onClose: () => {
        links.splice(links.indexOf(link), 1);
      },
    });
  });
  discovery.setRendezvous(points);
  return { key: identity.key, broker, discovery, links, seek: () => discovery.seek() };
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function until(condition: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000, interval: 10 });
}
