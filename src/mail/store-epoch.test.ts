import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Life, type Station, World } from '../../test/durable/simulated-mail.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import { placeOf } from '../system/files/private-file.js';
import { baseOf, StoreEpoch } from './store-epoch.js';

let world: World;
let receiver: Life;
let sender: Station;
let heard: unknown[];

beforeEach(async () => {
  world = new World();
  const [a, b] = (await world.mesh(2)) as [Life, Life];
  sender = a.station;
  receiver = b;
  heard = [];
  b.node.agent({ id: 'bob', tier: 0 }).onMessage((message) => void heard.push(message.payload));
});

afterEach(() => world.end());

/** Sends each text from a process of the sender, which then stops; resolves with the process when all have arrived. */
async function run(texts: readonly string[], arrive = true): Promise<Life> {
  const life = sender.life ?? (await world.start(sender));
  const ann = life.node.agent({ id: 'ann', tier: 0 });
  const address = `bob@${receiver.station.key}`;
  if (arrive) await world.until(() => life.node.registry.entry(address) !== undefined);
  for (const text of texts) await world.settled(ann.send(address, text, { durable: true }));
  if (arrive) await world.until(() => texts.every((text) => heard.includes(text)), 300_000);
  await world.runtime.advance(2_000);
  await world.stop(life);
  return life;
}

const codes = ({ events }: Life) => events.filter(({ type }) => type === 'security').map(({ code }) => code);

describe('a sender that was put back from a copy', () => {
  it('loses no mail, and both sides report the restoration [T-F5]', async () => {
    await run(['one']);
    const copy = sender.disk;
    await run(['two', 'three']);
    sender.disk = copy;
    // The same numbers as before, for other messages.
    const restored = await run(['four', 'five', 'six']);
    expect(heard).toEqual(['one', 'two', 'three', 'four', 'five', 'six']);
    expect(codes(receiver)).toContain('STORE_RESTORED');
    expect(codes(restored)).toContain('STORE_RESTORED');
    expect(receiver.node.mail!.diagnose().map(({ text }) => text)).toEqual([
      expect.stringMatching(/was put back from a copy/),
    ]);
    expect(restored.node.mail!.diagnose()).toMatchObject([
      { level: 'warning', text: expect.stringMatching(/new epoch: this store was put back from a copy/) },
    ]);
    // It stays known, and the next process goes on in the same epoch, with nothing more to report.
    const next = await run(['seven']);
    expect(heard.at(-1)).toBe('seven');
    expect(codes(next)).toEqual([]);
    expect(next.node.mail!.diagnose()).toHaveLength(1);
    expect([...receiver.errors, ...restored.errors]).toEqual([]);
  });

  it('with mail in its outbox that had been taken before has it taken once, and its receipt told again [T-F5]', async () => {
    await run(['one']);
    world.nodes.network.cut(sender.key, receiver.station.key);
    const life = await world.start(sender);
    const ann = life.node.agent({ id: 'ann', tier: 0 });
    const { messageId } = await world.settled(ann.send(`bob@${receiver.station.key}`, 'two', { durable: true }));
    await world.stop(life);
    const copy = sender.disk;
    world.nodes.network.heal(sender.key, receiver.station.key);
    await run(['three']);
    await world.until(() => heard.includes('two'));
    sender.disk = copy;
    const restored = await world.start(sender);
    restored.node.agent({ id: 'ann', tier: 0 });
    await world.until(() =>
      restored.events.some(({ envelopeId, receiptState }) => envelopeId === messageId && receiptState === 'done'),
    );
    expect(heard.filter((text) => text === 'two')).toHaveLength(1);
    expect((await restored.node.mail!.receipt(messageId!)).state).toBe('done');
  });
});

describe('a data folder that runs twice', () => {
  it('is reported by the other side and by both of its processes, and none of its mail is lost [T-F5]', async () => {
    await run(['one']);
    const twin: Station = { ...sender };
    const [first, second] = [await world.start(sender), await world.start(twin)];
    for (const [life, text] of [
      [first, 'from the first'],
      [second, 'from the second'],
    ] as const) {
      const ann = life.node.agent({ id: 'ann', tier: 0 });
      await world.settled(ann.send(`bob@${receiver.station.key}`, text, { durable: true }));
    }
    await world.until(() => heard.length === 3, 600_000);
    await world.until(() => [receiver, first, second].every((life) => codes(life).includes('NODE_DOUBLED')), 600_000);
    const problems = (life: Life) => life.node.network.diagnose().filter(({ level }) => level === 'problem');
    expect(JSON.stringify(problems(receiver))).toContain('two processes run with its key');
    for (const life of [first, second]) expect(JSON.stringify(problems(life))).toContain('another process runs with');
    world.crash(second);
  });
});

describe('the epoch of a store', () => {
  it('changes with the data folder, and names the base of older messages [T-F5]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-epoch-'));
    try {
      const [file, copy] = [join(folder, 'node.key'), join(folder, 'copy.key')];
      for (const name of [file, copy]) writeFileSync(name, 'x');
      const runtime = new SimulatedRuntime();
      const store = new MemoryStore();
      const first = await StoreEpoch.open(runtime, store, { last: 5, place: placeOf(file) });
      const again = await StoreEpoch.open(runtime, store, { last: 9, place: placeOf(file) });
      expect([again.name, again.restored]).toEqual([first.name, undefined]);
      const copied = await StoreEpoch.open(runtime, store, { last: 12, place: placeOf(copy) });
      expect(copied.name).not.toBe(first.name);
      expect(baseOf(copied.name)).toBe(12);
      expect(copied.restored?.reason).toMatch(/copy/);
      expect((await StoreEpoch.open(runtime, store, { last: 20, place: placeOf(copy) })).name).toBe(copied.name);
      expect(placeOf(join(folder, 'nothing'))).toBeUndefined();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('changes at the report of other nodes at most once in ten minutes [T-F5]', async () => {
    const runtime = new SimulatedRuntime();
    const epoch = await StoreEpoch.open(runtime, new MemoryStore(), { last: 0 });
    expect(await epoch.renew(1, 'said')).toBe(true);
    const { name } = epoch;
    expect(await epoch.renew(1, 'said again')).toBe(false);
    expect(epoch.name).toBe(name);
    await runtime.advance(600_000);
    expect(await epoch.renew(1, 'said later')).toBe(true);
  });
});
