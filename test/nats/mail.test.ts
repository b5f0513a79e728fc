import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RelayInbound } from '../../src/mail/relay-inbound.js';
import { NatsMail } from '../../src/nats/nats-mail.js';
import { NatsServer } from '../nats-server.js';
import { MailWorld, type Station, until } from './mail-world.js';

vi.setConfig({ testTimeout: 60_000 });

let world: MailWorld;
let ann: Station;
let bob: Station;
let bobKey: string;

beforeEach(async () => {
  world = new MailWorld(await NatsServer.start());
  ({ ann, bob, bobKey } = await world.pair());
});

afterEach(() => world.end());

const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, n) => from + n);

async function sendAll(count: number, from = 0): Promise<string[]> {
  const ids = [];
  for (const n of numbers(count, from)) ids.push(await ann.send(bob, bobKey, n));
  return ids;
}

async function relayed(ids: readonly string[]): Promise<void> {
  for (const id of ids) await until(async () => (await ann.states(id)).includes('relayed'), `${id} is relayed`);
}

/** Sends and waits until the stream has all of it, in batches of one message. */
async function relayOneByOne(count: number, from = 0): Promise<string[]> {
  const ids = [];
  for (const n of numbers(count, from)) {
    ids.push(await ann.send(bob, bobKey, n));
    await relayed(ids.slice(-1));
  }
  return ids;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('mail for an absent node', () => {
  it('arrives from the stream after its sender has gone, 100 of 100, in order [NM.1 NM.2]', async () => {
    await bob.stop();
    const ids = await sendAll(100);
    await relayed(ids);
    const [, step] = (await ann.running.mail!.receipt(ids[0]!)).story;
    expect(step).toMatchObject({ state: 'relayed', reason: 'NATS server alone' });
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 100, 'all came');
    expect(bob.got).toEqual(numbers(100));
    await bob.stop();
    // The receipts came the same way: the two were never there together.
    await ann.start();
    await until(async () => (await ann.states(ids.at(-1)!)).includes('done'), 'the receipt came');
    expect(await ann.states(ids[0]!)).toEqual(['stored', 'relayed', 'arrived', 'read', 'done']);
    expect(await ann.running.mail!.outbox()).toEqual([]);
    expect([...ann.security, ...bob.security]).toEqual([]);
  });

  it('keeps the state `relayed` across a restart of its sender [NM.2]', async () => {
    await bob.stop();
    const ids = await sendAll(3);
    await relayed(ids);
    await ann.stop();
    await ann.start();
    for (const id of ids) expect(await ann.states(id)).toEqual(['stored', 'relayed']);
    const rows = await ann.running.mail!.outbox();
    expect(rows.map((row) => ann.running.mail!.stateOf(row))).toEqual(['relayed', 'relayed', 'relayed']);
  });

  it('that comes from the stream and over a link is handled once, whichever is first [NM.3]', async () => {
    await bob.stop();
    await relayed(await sendAll(50));
    // Both are there: the outbox goes over the link while the stream is read.
    await bob.start();
    await until(() => bob.got.length >= 50, 'all came');
    const more = await sendAll(50, 50);
    await until(async () => (await ann.states(more.at(-1)!)).includes('done'), 'all are done');
    await bob.stop();
    await relayed(await sendAll(10, 100));
    await bob.start();
    await until(() => bob.got.length >= 110, 'the rest came');
    await bob.stop();
    await bob.start();
    await pause(1_500);
    expect(bob.got).toEqual(numbers(110));
    expect([...ann.security, ...bob.security]).toEqual([]);
  });

  it('that came over a link first is passed over in the stream, also after a restart [NM.3]', async () => {
    await bob.stop();
    const ids = await sendAll(20);
    await relayed(ids);
    const reads: Parameters<NatsMail['read']>[] = [];
    const reading = vi.spyOn(NatsMail.prototype, 'read').mockImplementation((...read) => void reads.push(read));
    await bob.start();
    await until(() => bob.got.length === 20 && reads.length > 0, 'all came over the link');
    await until(async () => (await ann.states(ids.at(-1)!)).includes('done'), 'all are done');
    await ann.stop();
    await bob.stop();
    reading.mockRestore();
    const taken = vi.spyOn(RelayInbound.prototype, 'take');
    await bob.start();
    await until(() => taken.mock.calls.length > 0, 'the stream is read');
    await pause(300);
    expect(bob.got).toEqual(numbers(20));
    expect([...ann.security, ...bob.security]).toEqual([]);
    taken.mockRestore();
  });

  it('of an agent that the recipient’s node has never heard of is taken [NM.4]', async () => {
    await bob.stop();
    const { messageId } = await ann.running
      .agent({ id: 'new', tier: 0 })
      .send(`bob@${bobKey}`, 'from new', { durable: true });
    await relayed([messageId!]);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 1, 'it came');
    expect(bob.got).toEqual(['from new']);
  });

  it('survives a restart of the broker [NM.5]', async () => {
    await bob.stop();
    await relayed(await sendAll(20));
    await world.server.kill();
    await world.server.start();
    await relayed(await sendAll(20, 20));
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length >= 40, 'all came');
    expect(bob.got).toEqual(numbers(40));
  });

  it('is stored once although the broker was killed while it was published [NM.5]', async () => {
    await bob.stop();
    const ids: string[] = [];
    for (const round of numbers(4)) {
      const sending = (async () => {
        for (const n of numbers(50, round * 50)) ids.push(await ann.send(bob, bobKey, n));
      })();
      await pause(20 + 30 * round);
      await world.server.kill();
      await sending;
      await world.server.start();
    }
    await relayed(ids);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length >= 200, 'all came');
    await pause(500);
    expect(bob.got).toEqual(numbers(200));
    expect(bob.security).toEqual([]);
  });

  it('is published again when the stream was deleted [NM.6]', async () => {
    await bob.stop();
    await relayed(await relayOneByOne(3));
    await (await world.manager()).streams.delete('ecl_main_mail');
    await relayed(await sendAll(2, 3));
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length >= 5, 'all came');
    expect(bob.got).toEqual(numbers(5));
  });

  it('of which the broker has lost a part waits for it, and then comes in order [NM.6]', async () => {
    await bob.stop();
    await relayOneByOne(4);
    await ann.stop();
    const manager = await world.manager();
    const { state } = await manager.streams.info('ecl_main_mail');
    await manager.streams.deleteMessage('ecl_main_mail', state.last_seq - 2);
    await bob.start();
    await until(() => bob.log.some((line) => /a batch of relayed mail is missing/.test(line)), 'it asked');
    await until(() => bob.got.length === 1, 'the first came');
    await bob.stop();
    await ann.start();
    await until(async () => (await manager.streams.info('ecl_main_mail')).state.last_seq > state.last_seq + 1, 'again');
    await pause(300);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length >= 4, 'the rest came');
    expect(bob.got).toEqual(numbers(4));
    expect([...ann.security, ...bob.security]).toEqual([]);
  });

  it('comes again to a recipient that was restored from an older copy [NM.7]', async () => {
    await bob.stop();
    await relayed(await relayOneByOne(5));
    await bob.start();
    await until(() => bob.got.length === 5, 'the first came');
    await bob.stop();
    const copy = await bob.copy();
    await relayed(await relayOneByOne(5, 5));
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 10, 'the others came');
    await bob.stop();
    await rm(bob.folder, { recursive: true, force: true });
    bob.folder = copy;
    world.folders.push(copy);
    await bob.start();
    await until(() => bob.got.length >= 15, 'the others came again');
    await pause(500);
    // What the copy had is not repeated.
    expect(bob.got).toEqual([...numbers(10), ...numbers(5, 5)]);
    expect(bob.running.mail!.diagnose()).toMatchObject([{ text: expect.stringMatching(/a copy, or was put back/) }]);
  });

  it('of a sender that was restored from an older copy is stored once, and newer mail is not lost [NM.7]', async () => {
    await bob.stop();
    await relayed(await sendAll(5));
    await ann.stop();
    const copy = await ann.copy();
    await ann.start();
    await relayed(await sendAll(5, 5));
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 10, 'all came');
    await rm(ann.folder, { recursive: true, force: true });
    ann.folder = copy;
    world.folders.push(copy);
    await bob.stop();
    await ann.start();
    // The copy does not know that the first five were relayed under its former epoch.
    await relayed(await sendAll(3, 20));
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length >= 13, 'the new ones came');
    await pause(500);
    expect(bob.got).toEqual([...numbers(10), 20, 21, 22]);
  });

  it('that is larger than a message of the server goes in parts, and holds nothing back [NM.17]', async () => {
    await bob.stop();
    await ann.stop();
    await world.server.reload('max_payload: 65536');
    await ann.start();
    const large = ['x'.repeat(300_000), 1, 2, 'y'.repeat(200_000), 3];
    const ids: string[] = [];
    for (const payload of large) ids.push(await ann.send(bob, bobKey, payload));
    await relayed(ids);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === large.length, 'all came');
    expect(bob.got).toEqual(large);
    expect(bob.security).toEqual([]);
    await bob.stop();
    await ann.start();
    await until(async () => (await ann.states(ids.at(-1)!)).includes('done'), 'the receipt came');
  });

  it('that its recipient has confirmed makes room in the stream [NM.8]', async () => {
    await bob.stop();
    await relayOneByOne(105);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 105, 'all came');
    await bob.stop();
    await ann.start();
    await until(async () => (await ann.running.mail!.outbox()).length === 0, 'the receipts came');
    await relayOneByOne(1, 105);
    const subjects = { subjects_filter: 'ecl.main.m.>' };
    const { state } = await (await world.manager()).streams.info('ecl_main_mail', subjects);
    expect(state.subjects![`ecl.main.m.${bobKey}.${ann.running.key}`]).toBeLessThan(10);
    await ann.stop();
    await bob.start();
    await until(() => bob.got.length === 106, 'the last came');
  });
});
