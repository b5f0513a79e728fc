import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer, type NatsServerOptions } from '../../test/nats-server.js';
import { Identity } from '../network/membership/identity.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { NatsConnection } from './connection.js';
import { BrokerNames } from './names.js';
import { BrokerKey, NKEY_USER } from './nkey.js';
import { brokerGaps } from './server-version.js';

const runtime = systemRuntime();
let endings: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

describe('the connection to NATS', () => {
  it('connects, publishes, subscribes and stops', async () => {
    const server = await start();
    const [one, other] = [await connection(server.url), await connection(server.url)];
    const got: string[] = [];
    (await one.ready(5_000)).subscribe('ecl.main.x', { callback: (_, msg) => void got.push(msg.string()) });
    await one.core.flush();
    (await other.ready(5_000)).publish('ecl.main.x', 'hello');
    await vi.waitFor(() => expect(got).toEqual(['hello']), 20_000);
    expect(one.info?.version).toMatch(/^2\./);
    expect(one.gaps).toEqual(brokerGaps(one.info!));
    await one.stop();
    expect(one.isConnected).toBe(false);
    expect(() => one.core).toThrow(expect.objectContaining({ code: 'BROKER_UNREACHABLE' }));
  });

  it('logs in with a key derived from the node’s seed, which is not the node’s key [NX.4]', async () => {
    const identity = Identity.create(runtime);
    const key = new BrokerKey(identity.seed);
    expect(key.text).toMatch(NKEY_USER);
    const server = await start({ extra: `authorization { users: [{ nkey: ${key.text} }] }` });
    const admitted = await connection(server.url, identity);
    await admitted.ready(5_000);
    const refused = await connection(server.url);
    await expect(refused.ready(300)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    expect(refused.failure).toMatch(/Authorization Violation/);
  });

  it('says why no server of a cluster admits it, instead of trying them without a pause', async () => {
    const servers = await NatsServer.cluster(3, { extra: 'authorization { users: [{ user: a, password: b }] }' });
    endings.push(...servers.map((server) => () => server.stop()));
    const refused = await connection(servers[0]!.url);
    await vi.waitFor(() => expect(refused.failure).toMatch(/Authorization Violation/), { timeout: 5_000 });
  });

  it('admits a node that the server’s configuration names later', async () => {
    const server = await start({ extra: 'authorization { users: [{ user: a, password: b }] }' });
    const identity = Identity.create(runtime);
    const late = await connection(server.url, identity);
    await expect(late.ready(200)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    await server.reload(`authorization { users: [{ nkey: ${new BrokerKey(identity.seed).text} }] }`);
    await late.ready(10_000);
  });

  it('logs in with a password in the address, and does not show it', async () => {
    const server = await start({ extra: 'authorization { users: [{ user: ann, password: "se cret" }] }' });
    const named = await connection(server.url.replace('nats://', 'nats://ann:se%20cret@'));
    await named.ready(5_000);
    expect(named.servers).toEqual([server.url]);
  });

  it('starts without a broker, connects when one comes, and reports the loss and the return', async () => {
    const server = await start();
    await server.kill();
    const node = await connection(server.url);
    const events: string[] = [];
    node.onConnected(() => events.push('connected'));
    node.onDisconnected(() => events.push('disconnected'));
    await expect(node.ready(100)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    await server.start();
    const core = await node.ready(10_000);
    const got: string[] = [];
    core.subscribe('ecl.main.x', { callback: (_, msg) => void got.push(msg.string()) });
    await server.kill();
    await vi.waitFor(() => expect(events).toEqual(['connected', 'disconnected']), { timeout: 5_000 });
    await server.start();
    await node.ready(10_000);
    expect(events).toEqual(['connected', 'disconnected', 'connected']);
    const other = await connection(server.url);
    (await other.ready(5_000)).publish('ecl.main.x', 'after');
    await vi.waitFor(() => expect(got).toEqual(['after']), 20_000);
  });

  it('notices a broker that hangs', async () => {
    const server = await start();
    const node = await connection(server.url);
    await node.ready(5_000);
    const lost = vi.fn();
    node.onDisconnected(lost);
    server.pause();
    try {
      await vi.waitFor(() => expect(lost).toHaveBeenCalledOnce(), { timeout: 10_000 });
    } finally {
      server.resume();
    }
    await node.ready(10_000);
  });

  it('offers JetStream and key-value buckets, also on a cluster and after its restart', async () => {
    const servers = await NatsServer.cluster(3, { syncAlways: true });
    for (const server of servers) endings.push(() => server.stop());
    const node = await connection(servers.map(({ url }) => url));
    await node.ready(10_000);
    const bucket = node.names.leaseBucket;
    const kv = await vi.waitFor(async () => (await node.kvm()).create(bucket, { replicas: 3 }), { timeout: 15_000 });
    const revision = await kv.create('a', 'first');
    await expect(kv.create('a', 'second')).rejects.toThrow();
    for (const server of servers) await server.kill();
    for (const server of servers) await server.start();
    await node.ready(10_000);
    const again = await vi.waitFor(async () => (await (await node.kvm()).open(bucket)).get('a'), { timeout: 20_000 });
    expect([again?.string(), again?.revision]).toEqual(['first', revision]);
    expect(Object.keys(await (await node.manager()).getAccountInfo())).toContain('memory');
  }, 60_000);

  it('names the gaps of an old server', () => {
    expect(brokerGaps({ version: '2.9.10' })).toHaveLength(2);
    expect(brokerGaps({ version: '2.9.10', cluster: 'c' }).join()).toContain('can lose an acknowledged write');
    expect(brokerGaps({ version: '2.10.27' })).toHaveLength(1);
    expect(brokerGaps({ version: '2.14.0', cluster: 'c' })).toEqual([]);
  });

  it('refuses a mesh name that would change a subject', () => {
    for (const mesh of ['', 'a.b', '*', '>', 'a b', 'x'.repeat(65)]) {
      expect(() => new BrokerNames(mesh)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    }
  });
});

async function start(options?: NatsServerOptions): Promise<NatsServer> {
  const server = await NatsServer.start(options);
  endings.push(() => server.stop());
  return server;
}

async function connection(
  servers: string | readonly string[],
  identity = Identity.create(runtime),
): Promise<NatsConnection> {
  const made = new NatsConnection({ runtime, identity }, { servers: [servers].flat() });
  endings.push(() => made.stop());
  await made.start();
  return made;
}
