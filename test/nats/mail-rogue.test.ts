import { jetstream } from '@nats-io/jetstream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NatsConnection } from '../../src/nats/connection.js';
import { NatsMail } from '../../src/nats/nats-mail.js';
import { Identity } from '../../src/network/membership/identity.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { NatsServer } from '../nats-server.js';
import { MailWorld, type Station, until } from './mail-world.js';

vi.setConfig({ testTimeout: 60_000 });

const STREAM = 'ecl_main_mail';
const runtime = systemRuntime();
let world: MailWorld;
let ann: Station;
let bob: Station;
let annKey: string;
let bobKey: string;
let endings: (() => Promise<unknown>)[];

beforeEach(async () => {
  endings = [];
  world = new MailWorld(await NatsServer.start());
  ({ ann, bob, annKey, bobKey } = await world.pair());
});

afterEach(async () => {
  for (const end of endings) await end();
  await world.end();
});

/** Publishes bytes as if the broker let everybody publish everywhere. */
async function forge(bytes: Uint8Array, from = annKey, to = bobKey): Promise<void> {
  await jetstream(await world.owner()).publish(`ecl.main.m.${to}.${from}`, bytes);
}

async function stored(seq: number): Promise<Buffer> {
  return Buffer.from((await (await world.manager()).streams.getMessage(STREAM, { seq }))!.data);
}

async function lastSeq(): Promise<number> {
  return (await (await world.manager()).streams.info(STREAM)).state.last_seq;
}

/** Seals batches as a node with that identity would, in a mesh of its choice. */
async function sealer(identity: Identity, mesh: string): Promise<NatsMail> {
  const connection = new NatsConnection({ runtime, identity }, { servers: [world.server.url] });
  endings.push(() => connection.stop());
  await connection.start();
  return new NatsMail({ runtime, identity, connection, mesh: () => mesh });
}

const bodyAt = (at: number, items: readonly unknown[] = [], chain: unknown = null) =>
  JSON.stringify({ at, chain, cards: [], items });

async function relay(payload: unknown): Promise<void> {
  const id = await ann.send(bob, bobKey, payload);
  await until(async () => (await ann.states(id)).includes('relayed'), 'relayed');
}

/** Bob comes, and gets this much after all that was forged. */
async function expectBobGets(payloads: readonly unknown[]): Promise<void> {
  await ann.stop();
  await bob.start();
  await until(() => bob.got.length >= payloads.length, 'the honest mail came');
  expect(bob.got).toEqual(payloads);
}

const meshOf = (station: Station) => {
  const chain = JSON.parse(JSON.stringify(station.running.network!.peers.get(bobKey)!.chain));
  return chain[0].mesh as string;
};

describe('a rogue with the broker’s credentials', () => {
  it('cannot put mail under another’s name, nor anything that holds back the mail behind it [NM.9]', async () => {
    const mesh = meshOf(ann);
    await bob.stop();
    await relay('first');
    const genuine = await stored(await lastSeq());
    const rogue = Identity.create(runtime);
    const forger = await sealer(rogue, mesh);
    await forge(Buffer.from('garbage'));
    await forge(Buffer.alloc(0));
    await forge(genuine.subarray(0, genuine.length - 1));
    await forge(genuine.subarray(0, 40));
    await forge(Buffer.alloc(900_000, 1));
    const flipped = Buffer.from(genuine);
    flipped[100]! ^= 1;
    await forge(flipped);
    // Well made, but by another key.
    await forge(forger.seal(bobKey, bodyAt(Date.now())).bytes);
    // Under names that are no node's.
    await forge(genuine, 'nobody');
    await forge(genuine, rogue.key);
    await relay('second');
    await expectBobGets(['first', 'second']);
    // Once for each name.
    expect(bob.security.map(({ node, code }) => [node, code])).toEqual([
      [annKey, 'INVALID_FRAME'],
      ['nobody', 'INVALID_FRAME'],
      [rogue.key, 'INVALID_FRAME'],
    ]);
    expect(bob.running.mail!.diagnose().map(({ text }) => text)).toContain(
      `relayed mail: 7 batches under the name of node ${annKey.slice(0, 12)} were refused (INVALID_FRAME)`,
    );
  });

  it('cannot have a batch taken twice [NM.9]', async () => {
    await bob.stop();
    await relay('first');
    const genuine = await stored(await lastSeq());
    await forge(genuine);
    await relay('second');
    await forge(genuine);
    await expectBobGets(['first', 'second']);
    await until(() => bob.security.length > 0, 'reported');
    expect(bob.security).toMatchObject([
      { node: annKey, code: 'INVALID_FRAME', reason: expect.stringMatching(/was taken before/) },
    ]);
    // Also later, when the receipts of the messages might be gone.
    await forge(genuine);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(bob.got).toEqual(['first', 'second']);
  });

  it('cannot send as itself unless it is a member of this mesh [NM.9]', async () => {
    const mesh = meshOf(ann);
    await bob.stop();
    const rogue = Identity.create(runtime);
    const mail = ['s', 'x', 0, [[1, Date.now(), null, [1, 'm1', 'ann', 'bob', 'notification', Date.now(), 'evil']]]];
    const stranger = await sealer(rogue, mesh);
    await forge(stranger.seal(bobKey, bodyAt(Date.now(), [mail])).bytes, rogue.key);
    const elsewhere = await sealer(rogue, rogue.key);
    await forge(elsewhere.seal(bobKey, bodyAt(Date.now(), [mail])).bytes, rogue.key);
    await relay('honest');
    await expectBobGets(['honest']);
    expect(bob.security.map(({ node, code }) => [node, code])).toEqual([
      [rogue.key, 'MEMBERSHIP_REFUSED'],
      [rogue.key, 'INVALID_FRAME'],
    ]);
  });

  it('that is a member cannot send malformed batches, nor batches from the future [NM.9]', async () => {
    const mesh = meshOf(ann);
    await bob.stop();
    await ann.stop();
    const identity = Identity.keptIn(ann.folder, runtime);
    const member = await sealer(identity, mesh);
    const now = Date.now();
    const bodies = [
      'null',
      '{',
      JSON.stringify({ at: now, cards: [], items: 'x' }),
      bodyAt(now, [['s', 'x']]),
      bodyAt(now, [['s', 'x', 0, [[1, 1, null, 'no envelope']]]]),
      bodyAt(now, [['unheard-of']]),
      bodyAt(now, [['u', -1, 5]]),
      bodyAt(now, [['t', 0, 0, [['id', [['no state', 1, null]]]]]]),
      bodyAt(now + 86_400_000),
    ];
    for (const body of bodies) await forge(member.seal(bobKey, body).bytes);
    await ann.start();
    await relay('honest');
    await expectBobGets(['honest']);
    expect(bob.security).toMatchObject([{ node: annKey, code: 'INVALID_FRAME' }]);
    const [finding] = bob.running.mail!.diagnose();
    expect(finding?.text).toMatch(new RegExp(`^relayed mail: ${bodies.length} batches`));
  });

  it('that was removed is refused, also with mail of before [NM.9]', async () => {
    const eve = await world.station('eve');
    await eve.start();
    const { code } = await ann.running.network!.invite();
    await eve.running.network!.join(code);
    const eveKey = eve.running.key;
    const knows = () => eve.running.registry.getById(`bob@${bobKey}`) && bob.running.registry.getById(`eve@${eveKey}`);
    await until(() => knows() !== undefined, 'eve and bob know each other');
    await ann.stop();
    await bob.stop();
    const id = await eve.send(bob, bobKey, 'from eve');
    await until(async () => (await eve.states(id)).includes('relayed'), 'relayed');
    await eve.stop();
    await ann.start();
    ann.running.network!.remove(eveKey);
    await relay('from ann');
    // Bob learns of the removal from ann before he reads on.
    const reading = vi.spyOn(NatsMail.prototype, 'read').mockImplementation(() => {});
    await bob.start();
    await until(() => bob.running.network!.hasRemoved(eveKey), 'bob knows of the removal');
    reading.mockRestore();
    await bob.stop();
    await bob.start();
    await until(() => bob.security.some(({ node }) => node === eveKey), 'reported');
    await until(() => bob.got.length > 0, 'the honest mail came');
    expect(bob.got).toEqual(['from ann']);
    expect(bob.security.filter(({ node }) => node === eveKey)).toMatchObject([{ code: 'MEMBERSHIP_REFUSED' }]);
  });

  it('reads nothing but who writes to whom, and how much [NM.10]', async () => {
    await bob.stop();
    await relay({ secret: 'the launch code is 0000' });
    const seen: string[] = [];
    for (let seq = 1; seq <= (await lastSeq()); seq++) seen.push((await stored(seq)).toString('latin1'));
    expect(seen.join()).not.toMatch(/secret|launch|notification|ann@|bob/);
  });
});

describe('the stream of mail', () => {
  it('recognises a batch that is published again', async () => {
    const mesh = meshOf(ann);
    const node = await sealer(Identity.create(runtime), mesh);
    await until(async () => (await lastSeq().catch(() => -1)) >= 0, 'there is a stream');
    const batch = node.seal(bobKey, bodyAt(Date.now()));
    await until(
      () =>
        node.publish(batch, { replace: false }).then(
          () => true,
          () => false,
        ),
      'published',
    );
    const before = await lastSeq();
    const { position } = await node.publish(batch, { replace: false });
    expect([position, await lastSeq()]).toEqual([before, before]);
    await node.publish(node.seal(bobKey, bodyAt(Date.now())), { replace: false });
    expect(await lastSeq()).toBe(before + 1);
  });

  it('is bounded for each sender and recipient, kept on disk, and never changed once it is there [NM.11]', async () => {
    const manager = await world.manager();
    await until(async () => (await lastSeq().catch(() => -1)) >= 0, 'there is a stream');
    const { config } = await manager.streams.info(STREAM);
    expect(config).toMatchObject({
      subjects: ['ecl.main.m.*.*'],
      retention: 'limits',
      storage: 'file',
      discard: 'new',
      discard_new_per_subject: true,
      max_msgs_per_subject: 10_000,
      max_age: 30 * 86_400 * 1e9,
    });
    await manager.streams.update(STREAM, { max_age: 86_400 * 1e9 });
    await bob.stop();
    await bob.start();
    await until(() => bob.log.includes('mail stream has other settings'), 'the owner is told');
    expect((await manager.streams.info(STREAM)).config.max_age).toBe(86_400 * 1e9);
    expect(bob.running.mail!.diagnose()).toMatchObject([{ text: expect.stringContaining('max_age is 86400') }]);
    await bob.stop();
    await relay('still used');
    await expectBobGets(['still used']);
  });
});
