import type { KV } from '@nats-io/kv';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { MemoryRegisters } from '../../test/memory-registers.js';
import { TamperingBroker } from '../../test/nats/tampering-broker.js';
import { NatsServer } from '../../test/nats-server.js';
import { Identity } from '../network/membership/identity.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Registered, Registers } from '../store/shared/registers.js';
import { NatsConnection } from './connection.js';
import { NatsRegisters, type NatsRegistersInit } from './nats-registers.js';

const runtime = systemRuntime();
let endings: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

async function connect(server: NatsServer, init: Partial<NatsRegistersInit> = {}) {
  const identity = Identity.create(runtime);
  const connection = new NatsConnection({ runtime, identity }, { servers: [server.url] });
  endings.push(() => connection.stop());
  await connection.start();
  await connection.ready(10_000);
  const registers = new NatsRegisters({ runtime, identity, connection }, { scope: () => 'mesh', ...init });
  return { identity, connection, registers };
}

async function start(): Promise<NatsServer> {
  const server = await NatsServer.start();
  endings.push(() => server.stop());
  return server;
}

async function firstKey(kv: KV): Promise<string> {
  for await (const key of await kv.keys()) return key;
  throw new Error('the bucket is empty');
}

const KINDS: readonly [string, () => Promise<[string, Registers, string, Registers]>][] = [
  [
    'in memory',
    async () => {
      const memory = new MemoryRegisters(runtime);
      return ['a', memory.of('a'), 'b', memory.of('b')];
    },
  ],
  [
    'on NATS',
    async () => {
      const server = await start();
      const [one, other] = [await connect(server), await connect(server)];
      return [one.identity.key, one.registers, other.identity.key, other.registers];
    },
  ],
];

it('a register whose old value a broker showed as a new one is read as before after its next change [NL.4]', async () => {
  const server = await start();
  const rogue = await TamperingBroker.start(server.port);
  endings.push(() => rogue.stop());
  const [honest, watcher] = [await connect(server), await connect({ url: rogue.url } as NatsServer)];
  const keys = Array.from({ length: 5 }, (_, at) => `k${at}`);
  const revisions = new Map(keys.map((key) => [key, 0]));
  const change = async (key: string, value: unknown) => {
    const written = await honest.registers.write(key, value, revisions.get(key)!);
    revisions.set(key, written!);
  };
  const seen = new Map<string, Registered>();
  endings.push(watcher.registers.watch((key, entry) => void seen.set(key, entry)));
  for (let round = 0; round < 10; round++) for (const key of keys) await change(key, round);
  await vi.waitFor(() => expect(seen.size).toBe(keys.length), 10_000);
  // The old values come at the revisions of another register.
  Object.assign(rogue, { subjects: /^\$KV\./, tamperings: ['replay'] });
  revisions.set('other', 0);
  for (let n = 0; rogue.done < 15; n++) await change('other', n);
  rogue.tamperings = [];
  for (const key of keys) await change(key, 'new');
  const wanted = keys.map((key) => ({ revision: revisions.get(key), writer: honest.identity.key, value: 'new' }));
  await vi.waitFor(() => expect(keys.map((key) => seen.get(key))).toEqual(wanted), 10_000);
  for (const [at, key] of keys.entries()) expect(await watcher.registers.read(key)).toEqual(wanted[at]);
});

describe.each(KINDS)('shared registers %s', (_name, open) => {
  it('are written by who knows the latest revision, and by nobody else [NL.3]', async () => {
    const [first, one, , other] = await open();
    expect(await one.read('r.x')).toEqual({ revision: 0, writer: undefined, value: undefined });
    const revision = await one.write('r.x', { a: 1 }, 0);
    expect(await other.write('r.x', { a: 2 }, 0)).toBeUndefined();
    expect(await other.read('r.x')).toEqual({ revision, writer: first, value: { a: 1 } });
    const next = await other.write('r.x', { a: 3 }, revision!);
    expect(next).toBeGreaterThan(revision!);
    expect(await one.write('r.x', { a: 4 }, revision!)).toBeUndefined();
    expect(await one.write('r.y', { a: 5 }, 0)).toBeGreaterThan(next!);
    expect((await one.read('r.x')).value).toEqual({ a: 3 });
  });

  it('count two hundred races, each with one winner', async () => {
    const [, one, , other] = await open();
    let revision = 0;
    for (let round = 0; round < 200; round++) {
      const writes = await Promise.all([one, other].map((each) => each.write('r.x', { round }, revision)));
      const won = writes.filter((written) => written !== undefined);
      expect(won).toHaveLength(1);
      expect(won[0]).toBeGreaterThan(revision);
      revision = won[0]!;
    }
  });

  it('report what is there and what changes', async () => {
    const [first, one, second, other] = await open();
    await one.write('r.x', { a: 1 }, 0);
    const seen = new Map<string, Registered>();
    const stop = other.watch((key, entry) => seen.set(key, entry));
    await vi.waitFor(() => expect(seen.get('r.x')).toMatchObject({ writer: first, value: { a: 1 } }), 20_000);
    await one.write('s.y', 'later', 0);
    await vi.waitFor(() => expect(seen.get('s.y')).toMatchObject({ writer: first, value: 'later' }), 20_000);
    await other.write('r.x', { a: 2 }, seen.get('r.x')!.revision);
    await vi.waitFor(() => expect(seen.get('r.x')).toMatchObject({ writer: second, value: { a: 2 } }), 20_000);
    stop();
  });
});

describe('registers on NATS', () => {
  it('survive the broker, and tell that it is away', async () => {
    const server = await start();
    const { registers, connection } = await connect(server);
    const revision = await registers.write('r.x', { a: 1 }, 0);
    await server.kill();
    await expect(registers.read('r.x')).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    await expect(registers.write('r.x', 2, revision!)).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE' });
    await server.start();
    await connection.ready(10_000);
    await vi.waitFor(
      async () => expect(await registers.read('r.x')).toMatchObject({ revision, value: { a: 1 } }),
      20_000,
    );
    expect(await registers.write('r.x', 3, revision!)).toBeGreaterThan(revision!);
  });

  it('show no writer for a value that was forged, moved, replayed or deleted [NL.4]', async () => {
    const server = await start();
    const { registers, connection, identity } = await connect(server);
    const rogue = await connect(server);
    const name = connection.names.leaseBucket;
    const revision = await registers.write('r.x', { holder: 'me' }, 0);
    const kv = await (await rogue.connection.kvm()).open(name);
    const key = await firstKey(kv);
    const genuine = (await kv.get(key))!.value;
    const nobody = { writer: undefined, value: undefined };
    // The same bytes under another key, in another mesh, and with another writer's name.
    await kv.put(key.replace('r.x', 'r.y'), genuine);
    expect(await registers.read('r.y')).toMatchObject(nobody);
    const forged = { ...JSON.parse(Buffer.from(genuine).toString()), by: rogue.identity.key };
    await kv.put(key.replace('r.x', 'r.z'), JSON.stringify(forged));
    expect(await registers.read('r.z')).toMatchObject(nobody);
    const next = await registers.write('r.x', { holder: 'other' }, revision!);
    expect(await registers.read('r.x')).toMatchObject({ revision: next, writer: identity.key });
    await kv.put(key, genuine);
    expect(await registers.read('r.x')).toMatchObject(nobody);
    expect(await registers.read('r.x')).toMatchObject(nobody);
    await kv.delete(key);
    expect(await registers.read('r.x')).toMatchObject(nobody);
    await kv.put(key, 'no value of ours');
    const { revision: last } = await registers.read('r.x');
    await registers.write('r.x', { holder: 'me' }, last);
    expect(await registers.read('r.x')).toMatchObject({ writer: identity.key, value: { holder: 'me' } });
  });

  it('are encrypted with a secret, compressed when long, and separate by scope', async () => {
    const server = await start();
    const secret = () => Buffer.alloc(32, 7);
    const [one, other] = [await connect(server, { secret }), await connect(server, { secret })];
    const blind = await connect(server);
    const foreign = await connect(server, { scope: () => 'another mesh' });
    const long = { text: 'visible '.repeat(20_000) };
    await one.registers.write('r.x', long, 0);
    expect((await other.registers.read('r.x')).value).toEqual(long);
    expect(await blind.registers.read('r.x')).toMatchObject({ writer: one.identity.key, value: undefined });
    expect((await foreign.registers.read('r.x')).revision).toBe(0);
    const kv = await (await blind.connection.kvm()).open(one.connection.names.leaseBucket);
    const key = await firstKey(kv);
    const { value } = (await kv.get(key))!;
    expect(value.length).toBeLessThan(2_000);
    const huge = { bytes: Array.from({ length: 2_000_000 }, () => Math.floor(runtime.random() * 256)) };
    await expect(one.registers.write('r.h', huge, 0)).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });
});
