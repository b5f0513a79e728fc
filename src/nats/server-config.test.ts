import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../../test/nats-server.js';
import { Identity } from '../network/membership/identity.js';
import { createNode, type EclipticNode } from '../node/compose.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { Broker } from './broker.js';
import { NatsConnection } from './connection.js';
import { NatsDirectory } from './nats-directory.js';
import { BrokerKey } from './nkey.js';
import { serverConfig } from './server-config.js';

const runtime = systemRuntime();
let endings: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

describe('the configuration of a server', () => {
  it('admits the nodes that it names, which see and hear each other as they do without it', async () => {
    const identities = [Identity.create(runtime), Identity.create(runtime)];
    const server = await start(identities);
    const brokers = await Promise.all(
      identities.map(async (identity) => {
        const broker = new Broker({ runtime, identity }, { servers: [server.url] });
        endings.push(() => broker.stop());
        await broker.start();
        await broker.connection.ready(5_000);
        broker.presence.announce([]);
        return broker;
      }),
    );
    const [one, other] = [brokers[0]!, brokers[1]!];
    await until(() => one.presence.get(other.connection.node) !== undefined);
    const texts: string[] = [];
    const key = () => new Uint8Array(32);
    const [from, to] = [one, other].map((broker) => new NatsDirectory({ runtime, key, ...broker }));
    for (const directory of [from!, to!]) {
      endings.push(() => directory.stop());
      await directory.start({
        onEntry: (text) => texts.push(text) > 0,
        onOutdone() {},
        onHeard: () => {},
        onGone: () => {},
      });
    }
    from!.publish({ node: one.connection.node, version: 1, text: 'hello' });
    await until(() => texts.length === 1);
  });

  it('lets whole nodes invite, join and talk, also after the loss of the broker', async () => {
    const { server, nodes } = await startNodes(2);
    const [host, guest] = [nodes[0]!, nodes[1]!];
    // The server may still be starting.
    const code = await vi.waitFor(
      async () => {
        const invite = await host.network!.invite();
        expect(invite.warnings).toEqual([]);
        return invite.code;
      },
      { timeout: 15_000 },
    );
    await guest.network!.join(code);
    guest.agent({ id: 'mars' }).onRequest(({ payload }) => ({ got: payload }));
    const sun = host.agent({ id: 'sun' });
    await vi.waitFor(async () => expect(await sun.request('mars', 1)).toEqual({ got: 1 }), { timeout: 15_000 });
    await server.kill();
    await until(() => host.network!.list().every(({ state }) => state !== 'connected'));
    await server.start();
    await vi.waitFor(async () => expect(await sun.request('mars', 2)).toEqual({ got: 2 }), { timeout: 15_000 });
  });

  it('keeps a node from acting as another: links, mail, presence, directory [NX.8]', async () => {
    const [victim, rogue] = [Identity.create(runtime), Identity.create(runtime)];
    const server = await start([victim, rogue]);
    const [own, foreign] = [await connection(server, victim), await connection(server, rogue)];
    const { names } = own;
    // The buckets exist before the rogue comes.
    const broker = new Broker({ runtime, identity: victim }, { servers: [server.url] });
    endings.push(() => broker.stop());
    await broker.start();
    broker.presence.announce([]);
    await until(() => broker.connection.isConnected);
    const heard: string[] = [];
    own.core.subscribe(names.link(victim.key, '*'), { callback: (_, { subject }) => void heard.push(subject) });
    await own.core.flush();
    const refused: string[] = [];
    void (async () => {
      for await (const status of foreign.core.status()) if (status.type === 'error') refused.push(status.error.message);
    })();
    const third = 'c'.repeat(64);
    const forbidden = [
      names.link(victim.key, third),
      names.mail(victim.key, third),
      names.key(names.presenceBucket, victim.key),
      names.key(names.directoryBucket, victim.key),
      `$JS.API.STREAM.DELETE.KV_${names.presenceBucket}`,
      `$JS.API.STREAM.PURGE.${names.mailStream}`,
      `$JS.API.STREAM.UPDATE.${names.mailStream}`,
      `$JS.API.STREAM.MSG.GET.${names.mailStream}`,
      `$JS.API.DIRECT.GET.${names.mailStream}`,
      `$JS.API.STREAM.DELETE.${names.recordStream}`,
      `$JS.API.STREAM.PURGE.${names.recordStream}`,
      `$JS.API.STREAM.UPDATE.${names.recordStream}`,
      `$JS.API.STREAM.MSG.DELETE.${names.recordStream}`,
      `$JS.API.DIRECT.GET.${names.mailStream}.${names.mail(victim.key, third)}`,
      `$JS.API.CONSUMER.CREATE.${names.mailStream}`,
      `$JS.API.CONSUMER.CREATE.${names.mailStream}.x`,
      `$JS.API.CONSUMER.CREATE.${names.mailStream}.x.${names.mail(victim.key, '>')}`,
      `$JS.API.CONSUMER.DURABLE.CREATE.${names.mailStream}.x`,
      `${names.inbox(victim.key)}.x`,
    ];
    for (const subject of forbidden) foreign.core.publish(subject, '{}');
    foreign.core.publish(names.link(victim.key, rogue.key), 'allowed');
    const hidden = [names.link(victim.key, '*'), names.link('*', '*'), names.mail(victim.key, '*'), '>'];
    for (const subject of [...hidden, `${names.inbox(victim.key)}.>`])
      foreign.core.subscribe(subject, { callback: () => {} });
    await until(() => refused.length >= forbidden.length + hidden.length + 1);
    for (const subject of forbidden) expect(refused.join('\n')).toContain(`"${subject}"`);
    expect(heard).toEqual([names.link(victim.key, rogue.key)]);
  });

  it('reads a node’s own mail with a consumer that is filtered to it, and no other [NX.8]', async () => {
    const [victim, rogue] = [Identity.create(runtime), Identity.create(runtime)];
    const server = await start([victim, rogue]);
    const [own, foreign] = [await connection(server, victim), await connection(server, rogue)];
    const { names } = own;
    await (await own.manager()).streams.add({
      name: names.mailStream,
      subjects: [names.mail('*', '*')],
      allow_direct: true,
    });
    await (await foreign.jetstream()).publish(names.mail(victim.key, rogue.key), 'letter', { msgID: '1' });
    const consumer = await (await own.jetstream()).consumers.get(names.mailStream, {
      filter_subjects: names.mail(victim.key, '*'),
    });
    const message = await consumer.next({ expires: 2_000 });
    expect(message?.string()).toBe('letter');
    // The filter in the request must be the one in the subject that the permissions allow.
    const subject = `$JS.API.CONSUMER.CREATE.${names.mailStream}.x.${names.mail(rogue.key, '>')}`;
    const config = {
      name: 'x',
      filter_subject: names.mail(victim.key, '>'),
      ack_policy: 'none',
      deliver_policy: 'all',
    };
    const answer = await foreign.core.request(subject, JSON.stringify({ stream_name: names.mailStream, config }));
    expect(answer.json<{ error?: unknown }>().error).toBeDefined();
  });

  it('leaves out what an old server does not know', () => {
    const user = { node: 'a'.repeat(64), nkey: `U${'A'.repeat(55)}` };
    expect(serverConfig({ mesh: 'main', users: [user] })).toContain('sync_interval: always');
    expect(serverConfig({ mesh: 'main', users: [user], syncAlways: false })).not.toContain('sync_interval: always');
  });
});

async function start(identities: readonly { key: string; seed: string }[]): Promise<NatsServer> {
  const server = await NatsServer.start({
    config: (place) => serverConfig({ ...place, mesh: 'main', users: users(identities) }),
  });
  endings.push(() => server.stop());
  return server;
}

function users(identities: readonly { key: string; seed: string }[]) {
  return identities.map(({ key, seed }) => ({ node: key, nkey: new BrokerKey(seed).text }));
}

/** Nodes choose their keys as they start, so the server learns them then. */
async function startNodes(count: number): Promise<{ server: NatsServer; nodes: EclipticNode[] }> {
  const server = await start([]);
  const nodes: EclipticNode[] = [];
  for (let made = 0; made < count; made++) {
    const node = await createNode({ network: { nats: { servers: [server.url] } } });
    endings.push(() => node.stop());
    nodes.push(node);
  }
  const own = nodes.map((node) => node.brokerAccess!.users().users[0]!);
  await server.configure((place) => serverConfig({ ...place, mesh: 'main', users: own }));
  return { server, nodes };
}

async function connection(server: NatsServer, identity: Identity): Promise<NatsConnection> {
  const made = new NatsConnection({ runtime, identity }, { servers: [server.url] });
  endings.push(() => made.stop());
  await made.start();
  await made.ready(5_000);
  return made;
}

async function until(condition: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000, interval: 5 });
}
