import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CoreConnection, NatsConnection } from '../../src/nats/connection.js';
import { BrokerKey } from '../../src/nats/nkey.js';
import { type ServerConfigUser, serverConfig } from '../../src/nats/server-config.js';
import { Identity } from '../../src/network/membership/identity.js';
import type { ObjectRef } from '../../src/objects/reference.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MailWorld, type Station, until } from '../nats/mail-world.js';
import { NatsServer, type WholeConfig } from '../nats-server.js';
import { SOAK } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 60_000 });

const TEXT = 'a text that no broker may read ';
const BYTES = Buffer.concat([randomBytes(1_000_000), Buffer.from(TEXT.repeat(30_000))]);
const STREAM = 'ecl_main_objects';

let world: MailWorld;
let ann: Station;
let bob: Station;
let annKey: string;
let bobKey: string;
let folder: string;
let owner: CoreConnection;
const runtime = systemRuntime();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-objects-'));
});

afterEach(async () => {
  await owner.close();
  await world.end();
  rmSync(folder, { recursive: true, force: true });
});

describe('with NATS, an object', () => {
  it('that came with durable mail is complete although its sender has stopped; the broker reads nothing [NO.6 NO.7 NO.8]', async () => {
    await pair();
    await bob.stop();
    const ref = await attach();
    const id = await ann.send(bob, bobKey, { text: 'see', film: ref });
    await until(async () => (await ann.states(id)).includes('relayed'), 'relayed');
    await ann.stop();
    const file = join(folder, 'film');
    bob.onMessage = async ({ payload }) => {
      await agentOf(bob).objects.save((payload as { film: ObjectRef }).film, file);
    };
    await bob.start();
    await until(() => bob.got.length === 1, 'it came');
    expect(readFileSync(file).equals(BYTES)).toBe(true);

    // From an offset in the middle of a chunk, and no further than a chunk is changed.
    const manager = await jetstreamManager(owner);
    const { state } = await manager.streams.info(STREAM, { subjects_filter: '>' });
    const subjects = Object.keys(state.subjects!);
    const wanted = Array.from({ length: Math.ceil(BYTES.length / 262_144) }, (_, n) => subject(ref, n));
    expect(subjects.sort()).toEqual(wanted.sort());
    for (const name of subjects) {
      const { data } = (await manager.streams.getMessage(STREAM, { last_by_subj: name }))!;
      expect(Buffer.from(data).includes(TEXT.slice(0, 12))).toBe(false);
    }
    const broker = jetstream(owner);
    // No member can do that: each writes under its own name only.
    const rogue = new NatsConnection({ runtime, identity: Identity.keptIn(bob.folder, runtime) }, bob);
    await rogue.start();
    await rogue.ready(5_000);
    const forged = (await rogue.jetstream()).publish(subject(ref, 1), 'x', { timeout: 5_000 });
    await expect(forged).rejects.toThrow(/permission/i);
    await rogue.stop();
    await broker.publish(subject(ref, 1), randomBytes(262_160));
    await expect(agentOf(bob).objects.save(ref, join(folder, 'other'))).rejects.toMatchObject({
      code: 'OBJECT_DAMAGED',
    });
    // A chunk of another place is a change, too.
    const [first] = [(await manager.streams.getMessage(STREAM, { last_by_subj: subject(ref, 0) }))!];
    await broker.publish(subject(ref, 1), first.data);
    await expect(agentOf(bob).objects.save(ref, join(folder, 'other'))).rejects.toMatchObject({
      code: 'OBJECT_DAMAGED',
    });

    // Its node, once it is back, is asked first; when it removes the object, the copy goes too.
    await ann.start();
    await until(() => bob.running.network!.peers.reachable(annKey), 'ann is back');
    await agentOf(bob).objects.save(ref, join(folder, 'other'));
    expect(readFileSync(join(folder, 'other')).equals(BYTES)).toBe(true);
    await agentOf(ann).objects.remove(ref);
    const { state: left } = await manager.streams.info(STREAM);
    expect(left.bytes).toBeLessThan(10_000);
    await expect(agentOf(bob).objects.save(ref, join(folder, 'gone'))).rejects.toMatchObject({
      code: 'OBJECT_NOT_FOUND',
    });
  });
});

describe.runIf(SOAK)('on a cluster of three servers, an object', () => {
  it('is read from any of them while one is killed [NO.6]', async () => {
    const servers = await NatsServer.cluster(3);
    world = new MailWorld(...(servers as [NatsServer, ...NatsServer[]]));
    ({ ann, bob, annKey, bobKey } = await world.pair());
    owner = await world.owner();
    for (const [round, server] of servers.entries()) {
      const ref = await attach();
      await until(() => ann.running.objects.stored.at(-1)!.archived, 'the copy is stored');
      await ann.stop();
      await until(() => !bob.running.network!.peers.reachable(annKey), 'ann is gone');
      const file = join(folder, `film ${round}`);
      const saved = agentOf(bob).objects.save(ref, file);
      await server.kill();
      await saved;
      expect(readFileSync(file).equals(BYTES)).toBe(true);
      await server.start();
      await ann.start();
      await until(() => bob.running.network!.peers.reachable(annKey), 'ann is back');
      await until(() => ann.running.network!.peers.reachable(bobKey), 'bob is seen');
    }
  });
});

function subject({ object }: ObjectRef, chunk: number): string {
  return `ecl.main.o.${annKey}.${object}.${chunk}`;
}

function attach(): Promise<ObjectRef> {
  return agentOf(ann).objects.put(BYTES, { to: `bob@${bobKey}`, name: 'film' });
}

function agentOf(station: Station) {
  return station.running.agentById(station.name);
}

/** Two nodes at a server with the permissions of the printed configuration. */
async function pair(): Promise<void> {
  const config =
    (users: readonly ServerConfigUser[] = []): WholeConfig =>
    (place) =>
      serverConfig({ ...place, mesh: 'main', users }).replace('users: [', 'users: [ { user: owner, password: owner }');
  const server = await NatsServer.start({ config: config() });
  world = new MailWorld(server);
  [ann, bob] = [await world.station('ann'), await world.station('bob')];
  const identities = [ann, bob].map((station) => Identity.keptIn(station.folder, runtime));
  const users = identities.map(({ key, seed }) => ({ node: key, nkey: new BrokerKey(seed).text }));
  await server.configure(config(users));
  ({ annKey, bobKey } = await world.join(ann, bob));
  owner = await connect({ servers: [server.url], user: 'owner', pass: 'owner' });
}
