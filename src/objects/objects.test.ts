import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Policy } from '../mesh/policy.js';
import { createNode, type EclipticNode, type NodeInit } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { ObjectArchive } from './archive.js';
import type { ObjectLimits } from './limits.js';
import { ObjectFiles } from './object-files.js';
import { Objects } from './objects.js';
import { attachmentsIn, objectName, readRef, sizeText, withAttachments } from './reference.js';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-objects-'));
const objectsFolder = join(folder, 'objects');
let runtime = new SimulatedRuntime();
let node: EclipticNode | undefined;

afterEach(async () => {
  await node?.stop();
  node = undefined;
  runtime = new SimulatedRuntime();
  rmSync(folder, { recursive: true, force: true });
});

describe('the objects of a node', () => {
  it('share its disk: an agent has a share, and so has the node [NO.9]', async () => {
    const { sun, moon, mars } = await start({ objectBytes: 100, agentBytes: 150, agentObjects: 2, nodeBytes: 250 });
    const put = (agent: typeof sun, size: number) => agent.objects.put(Buffer.alloc(size), { to: 'mars' });
    await put(sun, 100);
    await expect(put(sun, 101)).rejects.toMatchObject({ code: 'OBJECT_TOO_LARGE', details: { limit: 100 } });
    await expect(put(sun, 51)).rejects.toMatchObject({ code: 'OBJECTS_FULL', details: { agentId: 'sun' } });
    const second = await put(sun, 50);
    await expect(put(sun, 0)).rejects.toMatchObject({ code: 'OBJECTS_FULL', details: { agentObjects: 2 } });
    // Another agent has a share of its own, until the node has no room.
    await put(moon, 100);
    await expect(put(mars, 1)).rejects.toMatchObject({ code: 'OBJECTS_FULL', details: { nodeBytes: 250 } });
    // A refused object leaves no file behind, and a removed one makes room.
    expect(files('.bin')).toHaveLength(3);
    expect(files('.part')).toEqual([]);
    await sun.objects.remove(second);
    await put(mars, 50);
    await expect(moon.objects.remove(sun.objects.list[0]!)).rejects.toMatchObject({ code: 'OBJECT_NOT_FOUND' });
  });

  it('that are attached at once cannot exceed a share together [NO.9]', async () => {
    const { sun } = await start({ agentBytes: 250 });
    const puts = Array.from({ length: 5 }, () => sun.objects.put(pieces(10, 10), { to: 'moon' }));
    const outcomes = await Promise.allSettled(puts);
    expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(2);
    expect(sun.objects.list.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(250);
    expect(files('.bin')).toHaveLength(sun.objects.list.length);
  });

  it('are removed when their time is over, 7 days unless told otherwise, at most 30 [NO.10]', async () => {
    const { sun, moon } = await start();
    const put = (ttlMs?: number) => sun.objects.put(Buffer.from('text'), { to: 'moon', ttlMs });
    const [minute, week, year] = [await put(60_000), await put(), await put(365 * 86_400_000)];
    const hours = [week, year].map(({ expiresAt }) => Math.round((expiresAt - runtime.now()) / 3_600_000));
    expect(hours).toEqual([168, 720]);
    await runtime.advance(60_001);
    await expect(read(moon, minute)).rejects.toMatchObject({ code: 'OBJECT_NOT_FOUND' });
    await runtime.advance(30_000);
    expect(sun.objects.list).toEqual([week, year]);
    expect(files('.bin')).toEqual([week, year].map(({ object }) => `${object}.bin`));
    expect(files('.json')).toEqual([week, year].map(({ object }) => `${object}.json`));
  });

  it('are there after a restart; halves of them are not [NO.10]', async () => {
    const first = await start();
    const ref = await first.sun.objects.put(Buffer.from('text'), { to: 'moon' });
    const torn = await first.sun.objects.put(Buffer.from('torn'), { to: 'moon' });
    await node!.stop();
    rmSync(join(objectsFolder, `${torn.object}.bin`));
    writeFileSync(join(objectsFolder, '01JD.part'), 'x');
    writeFileSync(join(objectsFolder, '01JE.bin'), 'x');
    writeFileSync(join(objectsFolder, '01JF.json'), '{');
    const { sun, moon } = await start();
    expect(sun.objects.list).toEqual([ref]);
    expect(await read(moon, ref)).toBe('text');
    expect(readdirSync(objectsFolder).sort()).toEqual([`${ref.object}.bin`, `${ref.object}.json`, 'received']);
  });

  it('whose copy the archive could not take are stored there when it is back [NO.8]', async () => {
    const { sun } = await start();
    const copies = new Map<string, Buffer>();
    let onAvailable = () => {};
    let isAway = true;
    const archive: ObjectArchive = {
      async store({ object }, bytes) {
        if (isAway) throw new EclipticError('BROKER_UNREACHABLE', 'away');
        copies.set(object, await collect(bytes));
      },
      read: ({ object }, offset) => pieces(1, copies.get(object)!.length - offset),
      onAvailable(listener) {
        onAvailable = listener;
        return () => {};
      },
      remove: async ({ object }) => void copies.delete(object),
    };
    const other = { address: 'moon@elsewhere', node: 'elsewhere', tier: 3 as const, sandboxId: undefined };
    const objects = new Objects({
      ...{ runtime, registry: node!.registry, policy: new Policy(), nodeKey: node!.key, network: undefined, archive },
      files: await ObjectFiles.open(runtime, join(folder, 'others')),
      findAway: (address) => (address === other.address ? other : undefined),
    });
    objects.start();
    const owner = node!.registry.entry(sun.id)!;
    const ref = await objects.put(owner, Buffer.from('text'), { to: other.address });
    await objects.put(owner, Buffer.from('for this node'), { to: 'moon' });
    expect(copies.size).toBe(0);
    isAway = false;
    onAvailable();
    await vi.waitFor(() => expect(copies).toEqual(new Map([[ref.object, Buffer.from('text')]])), 20_000);
    await objects.remove(ref.object);
    expect(copies.size).toBe(0);
    await objects.stop();
  });

  it('need a data folder, readers that are known, and a file that can be read', async () => {
    const { sun } = await start();
    const put = (source: string, to: string | string[] = 'moon') => sun.objects.put(source, { to });
    await expect(put(join(folder, 'none'))).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' });
    await expect(put(folder)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' });
    await expect(put('x', 'nobody')).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    await expect(put('x', [])).rejects.toMatchObject({ code: 'INVALID_PARAMS' });
    expect(files('.part')).toEqual([]);
    await node!.stop();
    node = await createNode({ runtime });
    const bare = node.agent({ id: 'sun' });
    await expect(bare.objects.put('x', { to: 'sun' })).rejects.toMatchObject({ code: 'STORE_REQUIRED' });
  });
});

describe('a reference', () => {
  it('is read from a payload only where it is whole, and a name has no path', async () => {
    const { sun } = await start();
    const ref = await sun.objects.put(Buffer.from('text'), { to: 'moon', name: '/tmp/../a b.txt' });
    expect(ref.name).toBe('a b.txt');
    expect(attachmentsIn(JSON.parse(JSON.stringify(withAttachments('see', [ref]))))).toEqual([ref]);
    expect(attachmentsIn({ attachments: [{ ...ref, name: '../x' }, 1, null, ref] })).toEqual([ref]);
    for (const none of [undefined, null, 1, 'x', [], { attachments: {} }]) expect(attachmentsIn(none)).toEqual([]);
    expect(() => withAttachments([1], [ref])).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }));
    expect(() => readRef({ ...ref, size: -1 })).toThrow('size');
    expect(['..', 'a/..', '', '\n'].map(objectName)).toEqual(['object', 'object', 'object', 'object']);
    expect([0, 1_023, 1_024, 5_242_880, 3 * 2 ** 30].map(sizeText)).toEqual([
      ...['0 bytes', '1023 bytes', '1.0 KiB', '5.0 MiB', '3.0 GiB'],
    ]);
  });
});

async function start(objects: Partial<ObjectLimits> = {}) {
  mkdirSync(folder, { recursive: true });
  const network: NodeInit['network'] = { dht: false, folder };
  node = await createNode({ runtime, network, limits: { objects } });
  const [sun, moon, mars] = ['sun', 'moon', 'mars'].map((id) => node!.agent({ id }));
  return { sun: sun!, moon: moon!, mars: mars! };
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function read(agent: Awaited<ReturnType<typeof start>>['sun'], ref: Parameters<typeof agent.objects.open>[0]) {
  return (await collect(agent.objects.open(ref))).toString();
}

function files(ending: string): string[] {
  return readdirSync(objectsFolder).filter((name) => name.endsWith(ending));
}

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield Buffer.alloc(size);
}
