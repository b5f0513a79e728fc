import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { SharedDocument } from '../../src/documents/document.js';
import { stateSegments } from '../../src/documents/tables.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { createNode, type EclipticNode, type NodeInit } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';

vi.setConfig({ testTimeout: 60_000 });

const ends: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'ecliptic-state-'));
  ends.push(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A node on real links; with a folder, on a real store, and one that can come back. */
async function start(at?: string, init: Omit<NodeInit, 'network' | 'store'> = {}): Promise<EclipticNode> {
  const kept = at === undefined ? {} : { store: await openStore(at) };
  const folder = at === undefined ? {} : { folder: at };
  const network = { ...folder, dht: false, listen: { host: '127.0.0.1', port: 0 } };
  const node = await createNode({ ...init, ...kept, network });
  ends.push(() => node.stop());
  return node;
}

async function meet(newcomer: EclipticNode, host: EclipticNode): Promise<void> {
  const { code } = await host.network!.invite();
  await newcomer.network!.join(code);
}

/** Waits, by the documents' own events, until something is so. */
function until(documents: readonly SharedDocument[], condition: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const stops: (() => void)[] = [];
    const check = () => {
      if (!condition()) return;
      for (const stop of stops.splice(0)) stop();
      resolve();
    };
    for (const document of documents) stops.push(document.onChange(check), document.onMember(check));
    check();
  });
}

function alike(a: SharedDocument, b: SharedDocument): boolean {
  const sorted = (document: SharedDocument) => JSON.stringify(Object.entries(document.vector).sort());
  return sorted(a) === sorted(b) && Object.keys(a.vector).length > 0;
}

describe('a document that two nodes share', () => {
  it('is the same on both, over WebSocket links, through restarts and edits while apart [IT4 R9.1 R9.2 R9.4 P27]', async () => {
    const places = [folder(), folder()] as const;
    let one = await start(places[0]);
    const two = await start(places[1]);
    await meet(two, one);
    let mars = one.agent({ id: 'mars', tier: 1 }).state('plan');
    // A tier that L1 may not open a conversation with: sharing the document opens it.
    const venus = two.agent({ id: 'venus', tier: 3 }).state('plan');
    const clocks: Record<string, number>[] = [];
    venus.onUpdate(({ vectorClock }) => clocks.push(vectorClock));

    mars.map('tasks').set('first', { by: 'mars', parts: [1, 2] });
    venus.list('log').push('venus was here');
    venus.text('notes').insert(0, 'hello');
    await until([mars, venus], () => mars.list('log').length > 0 && venus.map('tasks').size > 0);
    await until([mars, venus], () => alike(mars, venus));
    expect(mars.toJSON()).toEqual(venus.toJSON());
    expect(clocks.length).toBeGreaterThanOrEqual(2);
    for (const clock of clocks) expect(Object.keys(clock).length).toBeGreaterThan(0);

    // The other node is gone; both go on by themselves.
    await one.stop();
    venus.map('tasks').set('while apart', 'venus');
    venus.text('notes').insert(5, ' from venus');
    await until([venus], () => venus.members.size === 0);
    one = await start(places[0]);
    mars = one.agent({ id: 'mars', tier: 1 }).state('plan');
    await mars.ready;
    expect(mars.map('tasks').get('first')).toEqual({ by: 'mars', parts: [1, 2] });
    mars.map('tasks').set('after the restart', 'mars');
    await until([mars, venus], () => mars.members.size > 0 && alike(mars, venus));
    expect(mars.toJSON()).toEqual(venus.toJSON());
    expect(mars.map('tasks').keys().sort()).toEqual(['after the restart', 'first', 'while apart']);
    expect(mars.text('notes').toString()).toBe('hello from venus');
  });

  it('is sent in parts to a late member, however large it is', async () => {
    const one = await start(folder());
    const two = await start(folder());
    const mars = one.agent({ id: 'mars' }).state('large');
    for (let i = 0; i < 400; i++) mars.map('rows').set(`row ${i}`, `${i} `.repeat(1_500));
    await mars.synced();
    await meet(two, one);
    const venus = two.agent({ id: 'venus' }).state('large');
    await until([venus], () => venus.map('rows').size === 400);
    expect(venus.map('rows').get('row 399')).toBe('399 '.repeat(1_500));
  });

  it('shows its members and their presence until they leave', async () => {
    const one = await start();
    const two = await start();
    await meet(two, one);
    const mars = one.agent({ id: 'mars' }).state('plan');
    const agent = two.agent({ id: 'venus' });
    const venus = agent.state('plan');
    const address = `venus@${two.key}`;
    venus.presence({ load: 3 });
    await until(
      [mars],
      () => mars.members.get(address)?.presence !== undefined && mars.members.get(address)?.presence !== null,
    );
    expect(mars.members.get(address)?.presence).toEqual({ load: 3 });
    mars.map('m').set('a', 1);
    await until([mars], () => mars.reached([address]));
    agent.leave();
    await until([mars], () => mars.members.size === 0);
    expect(mars.reached([address])).toBe(false);
  });
});

describe('an agent that may not', () => {
  it('read a document gets none of it, on any path; one that may only read changes nothing', async () => {
    const state = { plan: { read: [0, 1, 2], write: [0, 1] } } satisfies NodeInit['state'];
    const sandbox = { enforced: true, shared: ['lab'], allow: {} };
    const one = await start(undefined, { state, sandbox });
    const two = await start(undefined, { state, sandbox });
    await meet(two, one);
    const heard: string[] = [];
    const security: A2ALogEvent[] = [];
    two.observability.subscribe((event) => {
      if (event.type === 'security') security.push(event);
      if (event.type === 'message-received' && event.messageType === 'stream-data') heard.push(event.recipient!);
    });
    const writer = one.agent({ id: 'writer', tier: 1 }).state('plan');
    const reader = two.agent({ id: 'reader', tier: 2 }).state('plan');
    const outsider = two.agent({ id: 'outsider', tier: 3 });
    const inmate = two.agent({ id: 'inmate', tier: 1, sandbox: 'lab' });
    expect(() => outsider.state('plan')).toThrowError(expect.objectContaining({ code: 'TIER_VIOLATION' }));
    // The same name in a sandbox is another document.
    const inside = inmate.state('plan');
    expect(inside.thread).not.toBe(writer.thread);
    writer.map('secrets').set('a', 1);
    await until([reader], () => reader.map('secrets').size === 1);
    expect(() => reader.map('secrets').set('b', 2)).toThrowError(expect.objectContaining({ code: 'TIER_VIOLATION' }));
    expect(inside.members.size).toBe(0);
    expect(inside.toJSON()).toEqual({});
    expect([...writer.members.keys()]).toEqual([`reader@${two.key}`]);

    // Once its tier forbids it, nothing more reaches it, though it was in.
    two.agentById('reader').update({ tier: 3 });
    await until([writer], () => writer.members.size === 0);
    writer.map('secrets').set('later', 2);
    await writer.synced();
    expect(reader.map('secrets').keys()).toEqual(['a']);
    expect(heard.every((id) => id === 'reader')).toBe(true);
    expect(security).toEqual([]);
  });

  it('write is refused by all other members, even if its own node allows it, and the document keeps working', async () => {
    const state = { plan: { write: [0, 1] } } satisfies NodeInit['state'];
    const one = await start(undefined, { state });
    // This node has other rules, and so signs its agent's changes.
    const two = await start();
    await meet(two, one);
    const refusals: A2ALogEvent[] = [];
    const writer = one.agent({ id: 'writer', tier: 1 }).state('plan');
    const other = one.agent({ id: 'other', tier: 2 }).state('plan');
    const rogue = two.agent({ id: 'rogue', tier: 3 }).state('plan');
    const refused = new Promise<void>((resolve) => {
      one.observability.subscribe((event) => {
        if (event.type !== 'security') return;
        refusals.push(event);
        if (new Set(refusals.map(({ recipient }) => recipient)).size === 2) resolve();
      });
    });
    writer.map('m').set('a', 1);
    await until([rogue, other], () => rogue.map('m').size === 1 && other.map('m').size === 1);
    rogue.map('m').set('b', 2);
    await refused;
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({
        code: 'TIER_VIOLATION',
        sender: `rogue@${two.key}`,
        correlationId: rogue.thread,
      });
    }
    writer.map('m').set('c', 3);
    await until([rogue, other], () => rogue.map('m').has('c') && other.map('m').has('c'));
    expect(writer.map('m').toJSON()).toEqual({ a: 1, c: 3 });
    expect(other.map('m').toJSON()).toEqual({ a: 1, c: 3 });
  });

  it('send in a document’s thread has its messages ignored there', async () => {
    const one = await start();
    const mars = one.agent({ id: 'mars' }).state('plan');
    const venus = one.agent({ id: 'venus' });
    const update = {
      sourceAgentId: 'venus',
      vectorClock: { x: 1 },
      payload: { kind: 'have', presence: 'me' },
      timestamp: 0,
    };
    await venus.send('mars', update, { type: 'stream-data', thread: mars.thread });
    expect(mars.members.size).toBe(0);
    expect(mars.toJSON()).toEqual({});
  });

  it('enter a sandbox’s document is one that is neither in the sandbox nor on its allow list', async () => {
    const sandbox = { enforced: true, allow: { lab: ['guide'] } };
    const one = await start(undefined, { sandbox });
    const inside = one.agent({ id: 'inmate', sandbox: 'lab' }).state('plan');
    const guide = one.agent({ id: 'guide' }).state('plan', { sandbox: 'lab' });
    expect(guide.thread).toBe(inside.thread);
    const stranger = one.agent({ id: 'stranger' });
    expect(() => stranger.state('plan', { sandbox: 'lab' })).toThrowError(
      expect.objectContaining({ code: 'SANDBOX_VIOLATION' }),
    );
    inside.map('m').set('a', 1);
    await until([guide], () => guide.map('m').get('a') === 1);
    expect(stranger.state('plan').toJSON()).toEqual({});
  });
});

describe('the stored rows of a document', () => {
  it('are loaded again, and a damaged row is reported while the rest is available', async () => {
    const at = folder();
    const first = await start(at);
    const mars = first.agent({ id: 'mars' }).state('plan');
    mars.map('m').set('a', 1);
    await mars.synced();
    mars.map('m').set('b', 2);
    await mars.synced();
    mars.map('m').set('c', 3);
    await mars.synced();
    const { thread } = mars;
    await first.stop();
    const store = await openStore(at);
    const rows = await store.read(stateSegments, { where: { thread } });
    expect(rows.map(({ number }) => number)).toEqual([1, 2, 3]);
    await store.write([stateSegments.put({ ...rows[1]!, bytes: 'AAAA' })]);
    await store.close();

    const again = await start(at);
    const faults: A2ALogEvent[] = [];
    again.observability.subscribe((event) => {
      if (event.type === 'error') faults.push(event);
    });
    const back = again.agent({ id: 'mars' }).state('plan');
    await back.ready;
    expect(back.map('m').toJSON()).toEqual({ a: 1 });
    const [fault] = faults;
    expect(fault).toMatchObject({ code: 'STORE_DAMAGED', recipient: 'mars' });
    expect(fault?.reason).toContain('segment 2');
    // Changes written since then are stored, and loaded the next time.
    back.map('m').set('d', 4);
    await back.synced();
    await again.stop();
    const third = await start(at);
    const last = third.agent({ id: 'mars' }).state('plan');
    await last.ready;
    expect(last.map('m').toJSON()).toEqual({ a: 1, d: 4 });
  });
});
