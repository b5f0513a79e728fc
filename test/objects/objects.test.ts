import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../../src/agent/agent.js';
import type { Member } from '../../src/coding-agents/mailbox/member.js';
import { runTool } from '../../src/coding-agents/tools/tools.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { decodeInvite, encodeInvite } from '../../src/network/membership/invite.js';
import type { Network } from '../../src/network/peers/network.js';
import { createNode, type EclipticNode, type NodeInit } from '../../src/node/compose.js';
import { ObjectExchange } from '../../src/objects/object-exchange.js';
import type { ObjectRef } from '../../src/objects/reference.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { until as untilSo } from '../nodes/cluster.js';
import { FaultyWay } from '../nodes/faulty-way.js';

vi.setConfig({ testTimeout: 60_000 });

type NetworkedNode = EclipticNode & { readonly network: Network };

const SIZE = 1_500_017;
const BYTES = randomBytes(SIZE);

const folders: string[] = [];
const stops: (() => Promise<void>)[] = [];
/** `sun` attaches; `moon` reads over a connection that can be cut. `comet` is an agent of a third node. */
let host: NetworkedNode;
let guest: NetworkedNode;
let third: NetworkedNode;
let sun: Agent;
let moon: Agent;
let way: FaultyWay;
const security: A2ALogEvent[] = [];

beforeAll(async () => {
  [host, guest, third] = [await start({ listen: { host: '127.0.0.1', port: 0 } }), await start({}), await start({})];
  host.observability.subscribe((event) => event.type === 'security' && security.push(event));
  sun = host.agent({ id: 'sun' });
  moon = guest.agent({ id: 'moon' });
  way = await joinThroughProxy(guest);
  await third.network.join((await host.network.invite()).code);
  await until(() => host.registry.entry(`moon@${guest.key}`) && host.network.peers.reachable(third.key));
});

afterEach(() => vi.restoreAllMocks());

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe('an object', () => {
  it('is fetched from its node, as a stream and as a file [NO.1]', async () => {
    const ref = await attach(BYTES);
    expect(ref).toMatchObject({ node: host.key, owner: 'sun', size: SIZE, sha256: digest(BYTES), name: 'film.bin' });
    expect((await collect(moon.objects.open(ref))).equals(BYTES)).toBe(true);
    const file = join(folder(), 'film.bin');
    await moon.objects.save(ref, file);
    expect(readFileSync(file).equals(BYTES)).toBe(true);
  });

  it('may be empty, and may come from a stream', async () => {
    async function* pieces() {
      yield Buffer.from('one ');
      yield Buffer.from('two');
    }
    const refs = [await attach(Buffer.alloc(0)), await sun.objects.put(pieces(), { to: moon.address })];
    expect(await collect(moon.objects.open(refs[0]!))).toEqual(Buffer.alloc(0));
    expect((await collect(moon.objects.open(refs[1]!))).toString()).toBe('one two');
  });

  it('whose connection is cut in the middle is continued from the byte that is missing [NO.2]', async () => {
    const ref = await attach(BYTES);
    const offsets = askedOffsets();
    const interrupted = vi.spyOn(ObjectExchange.prototype, 'interrupted');
    const chunks: Uint8Array[] = [];
    for await (const chunk of moon.objects.open(ref)) {
      chunks.push(chunk);
      if (chunks.length !== 4) continue;
      way.fault = 'cut';
      // The nodes may be connected again at once, by another address.
      await until(() => interrupted.mock.calls.length > 0);
      way.fault = undefined;
    }
    expect(Buffer.concat(chunks).equals(BYTES)).toBe(true);
    expect(offsets[0]).toBe(0);
    expect(offsets.at(-1)).toBeGreaterThan(0);
  });

  it('that was saved in part is continued by the next attempt, also from a wrong part [NO.2]', async () => {
    const ref = await attach(BYTES);
    const place = folder();
    const [file, part] = [join(place, 'film.bin'), join(place, `film.bin.${ref.object}.part`)];
    const leaving = new AbortController();
    const offsets = askedOffsets((count) => count === 5 && leaving.abort());
    await expect(moon.objects.save(ref, file, { signal: leaving.signal })).rejects.toMatchObject({ code: 'CANCELLED' });
    const { length } = readFileSync(part);
    expect([existsSync(file), length > 0 && length < SIZE]).toEqual([false, true]);
    await moon.objects.save(ref, file);
    expect(offsets).toEqual([0, length]);
    expect(readFileSync(file).equals(BYTES)).toBe(true);
    writeFileSync(part, randomBytes(1_000));
    await moon.objects.save(ref, file);
    expect(offsets.slice(2)).toEqual([1_000, 0]);
    expect(readFileSync(file).equals(BYTES)).toBe(true);
    expect(readdirSync(place)).toEqual(['film.bin']);
  });

  it.each<[string, (path: string) => void]>([
    ['changed', (path) => writeFileSync(path, Buffer.from(BYTES).fill(1, 5_000, 5_001))],
    ['longer', (path) => appendFileSync(path, 'x')],
    ['shorter', (path) => writeFileSync(path, BYTES.subarray(0, 200_000))],
  ])('whose bytes are %s is never reported as complete [NO.3]', async (_, tamper) => {
    const ref = await attach(BYTES);
    tamper(join(folders[0]!, 'objects', `${ref.object}.bin`));
    const file = join(folder(), 'film.bin');
    await expect(collect(moon.objects.open(ref))).rejects.toMatchObject({ code: 'OBJECT_DAMAGED' });
    for (const part of [undefined, BYTES.subarray(0, 10)]) {
      if (part) writeFileSync(`${file}.${ref.object}.part`, part);
      await expect(moon.objects.save(ref, file)).rejects.toMatchObject({ code: 'OBJECT_DAMAGED' });
      expect(readdirSync(dirname(file))).toEqual([]);
    }
  });

  it('is refused to every agent that it was not attached for, whoever has its reference [NO.4]', async () => {
    const ref = await attach(Buffer.from('secret'));
    const comet = third.agent({ id: 'comet' });
    const namesake = third.agent({ id: 'moon' });
    const neighbour = guest.agent({ id: 'phobos' });
    for (const stranger of [comet, namesake, neighbour, host.agent({ id: 'mercury' })]) {
      await expect(collect(stranger.objects.open(ref)), stranger.address).rejects.toMatchObject({
        code: 'OBJECT_REFUSED',
      });
    }
    const guessed = { ...ref, key: Buffer.alloc(32).toString('base64url') };
    await expect(collect(moon.objects.open(guessed))).rejects.toMatchObject({ code: 'OBJECT_REFUSED' });
    expect(new Set(security.map(({ node, code }) => `${node} ${code}`))).toEqual(
      new Set([`${third.key} OBJECT_REFUSED`, `${guest.key} OBJECT_REFUSED`]),
    );
    expect((await collect(moon.objects.open(ref))).toString()).toBe('secret');
  });

  it('does not leave the sandbox of its owner [NO.4]', async () => {
    const boxed = host.agent({ id: 'boxed', sandbox: 'box' });
    const mate = host.agent({ id: 'mate', sandbox: 'box' });
    const put = boxed.objects.put(Buffer.from('secret'), { to: moon.address });
    await expect(put).rejects.toMatchObject({ code: 'SANDBOX_VIOLATION' });
    const ref = await boxed.objects.put(Buffer.from('secret'), { to: 'mate' });
    expect((await collect(mate.objects.open(ref))).toString()).toBe('secret');
    mate.update({ sandbox: 'another' });
    await expect(collect(mate.objects.open(ref))).rejects.toMatchObject({ code: 'SANDBOX_VIOLATION' });
  });

  it('is fetched at most four at a time from one node; further ones wait [NO.5]', async () => {
    const refs = await Promise.all(Array.from({ length: 7 }, (_, n) => attach(BYTES.subarray(n, n + 300_000))));
    const got = await Promise.all(refs.map((ref) => collect(moon.objects.open(ref))));
    expect(got.map(digest)).toEqual(refs.map(({ sha256 }) => sha256));
    const first = refs.slice(0, 4).map((ref) => moon.objects.open(ref)[Symbol.asyncIterator]());
    await Promise.all(first.map((reading) => reading.next()));
    let isThere = false;
    const fifth = collect(moon.objects.open(refs[4]!)).then(() => {
      isThere = true;
    });
    // Answered by the same node over the same conversation, after the fifth would have been.
    await guest.network.peers.begun(host.key);
    expect(isThere).toBe(false);
    await first[0]!.return?.();
    await fifth;
    for (const reading of first) await reading.return?.();
  });

  it('sent faster than it is read is a violation [NO.5]', async () => {
    const exchange = new ObjectExchange({ ...spare(), serve: () => collectNothing() });
    const reading = exchange.read(host.key, { object: 'x', key: 'x', reader: 'moon', offset: 0 });
    const first = reading.next();
    // Until the question was sent.
    await new Promise(setImmediate);
    exchange.take(host.key, ['objects', 'data', 0, 'AAAA']);
    expect((await first).value).toEqual(Buffer.alloc(3));
    for (let n = 0; n < 8; n++) exchange.take(host.key, ['objects', 'data', 0, 'AAAA']);
    const more = () => exchange.take(host.key, ['objects', 'data', 0, 'AAAA']);
    expect(more).toThrow(expect.objectContaining({ code: 'INVALID_FRAME' }));
    expect(() => exchange.take(third.key, ['objects', 'end', 0])).toThrow('that another node was asked for');
    exchange.close();
  });
});

describe('coding agents', () => {
  it('send each other files of their checkouts, and only these [NO.11]', async () => {
    const [checkout, outside] = [folder(), folder()];
    const alice = await member(host, 'alice', checkout);
    const bob = await member(guest, 'bob', folder());
    await until(() => host.registry.entry(`bob@${guest.key}`) && guest.registry.entry(`alice@${host.key}`));
    writeFileSync(join(checkout, 'film.bin'), BYTES);
    writeFileSync(join(outside, 'secret'), 'x');
    symlinkSync(join(outside, 'secret'), join(checkout, 'link'));
    const send = (path: string) => call(alice, 'mesh_send', { to: 'bob', text: 'look', files: [path] });
    for (const path of [join(outside, 'secret'), 'link', `../${basename(outside)}/secret`]) {
      await expect(send(path)).rejects.toMatchObject({ code: 'PROVIDER_POLICY_DENIED' });
    }
    await send('film.bin');
    const { text, shown } = await call(bob, 'mesh_inbox', { wait_s: 20 });
    expect(text).toContain('look\n[file: film.bin, application/octet-stream, 1.4 MiB]');
    const [, object] = /\nFile: ecliptic object get (\w{26}) --out FILE$/.exec(text) ?? [];
    // Found by its id after the message was closed.
    await call(bob, 'mesh_inbox', {}, shown);
    expect(await guest.mail!.inbox('bob')).toEqual([]);
    const found = guest.objects.received.find(({ ref }) => ref.object === object);
    expect(found?.reader).toBe('bob');
    expect((await collect(bob.agent.objects.open(found!.ref))).equals(BYTES)).toBe(true);
  });
});

async function member(node: NetworkedNode, as: string, checkout: string): Promise<Member> {
  return (await node.openCodingAgents(folder())).attach({ as, client: 'scripted', checkout });
}

let calls = 0;

function call(caller: Member, tool: string, args: object, seen: readonly string[] = []) {
  return runTool(caller, tool, args, { number: ++calls, seen, signal: new AbortController().signal });
}

/** Components of an exchange whose items go nowhere. */
function spare() {
  const sendConfirmed = () => new Promise<void>(() => {});
  const peers = { onRemoved() {}, begun: async () => {}, speaks: () => true, sendConfirmed };
  return { runtime: new SimulatedRuntime(), network: { peers } as unknown as Network };
}

async function* collectNothing(): AsyncGenerator<Uint8Array> {}

/** The offsets at which objects are asked for from now on; `onChunk` counts the chunks that came. */
function askedOffsets(onChunk: (count: number) => unknown = () => undefined): number[] {
  const offsets: number[] = [];
  const read = ObjectExchange.prototype.read;
  vi.spyOn(ObjectExchange.prototype, 'read').mockImplementation(async function* (this: ObjectExchange, ...asked) {
    offsets.push(asked[1].offset);
    let count = 0;
    for await (const chunk of read.apply(this, asked)) {
      onChunk(++count);
      yield chunk;
    }
  });
  return offsets;
}

function attach(bytes: Uint8Array): Promise<ObjectRef> {
  return sun.objects.put(bytes, { to: moon.address, name: 'film.bin' });
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'ecliptic-objects-'));
  folders.push(made);
  return made;
}

async function start(network: NodeInit['network']): Promise<NetworkedNode> {
  const node = await createNode({ network: { dht: false, folder: folder(), ...network }, store: new MemoryStore() });
  stops.push(() => node.stop());
  return node as NetworkedNode;
}

async function joinThroughProxy(node: NetworkedNode): Promise<FaultyWay> {
  const invite = decodeInvite((await host.network.invite()).code);
  const faulty = await FaultyWay.start(Number(new URL(invite.addresses[0]!).port));
  stops.push(() => faulty.stop());
  await node.network.join(encodeInvite({ ...invite, addresses: [`ws://127.0.0.1:${faulty.port}`] }));
  return faulty;
}

async function until(done: () => unknown): Promise<void> {
  await untilSo(() => Boolean(done()), `${done}`);
}
