import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { arbCRDTSyncMessage } from '../../test/generators.js';
import type { Agent } from '../agent/agent.js';
import type { A2ALogEvent } from '../mesh/schemas.js';
import { Identity } from '../network/membership/identity.js';
import { createNode, type EclipticNode, type NodeInit } from '../node/compose.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import { CRDTSyncChannel } from './crdt-sync.js';
import type { SharedDocument } from './document.js';
import { Replica } from './replica.js';
import { type CRDTSyncMessage, CRDTSyncMessageSchema, readMessage } from './sync-message.js';
import { stateSegments } from './tables.js';

const nodes: EclipticNode[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) {
    let over = false;
    void node.stop().then(() => {
      over = true;
    });
    while (!over) await runtimes.get(node)!.advance(1);
  }
});

const runtimes = new Map<EclipticNode, SimulatedRuntime>();

async function start(init: NodeInit = {}): Promise<{ node: EclipticNode; runtime: SimulatedRuntime }> {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, ...init });
  nodes.push(node);
  runtimes.set(node, runtime);
  return { node, runtime };
}

/** Two agents, their documents, and a moment for them to meet. */
async function pair(init: NodeInit = {}) {
  const { node, runtime } = await start(init);
  const [mars, venus] = [node.agent({ id: 'mars' }), node.agent({ id: 'venus' })] as [Agent, Agent];
  const [one, other] = [mars.state('plan'), venus.state('plan')] as [SharedDocument, SharedDocument];
  await runtime.advance(200);
  return { node, runtime, mars, venus, one, other };
}

describe('a shared document', () => {
  it('Feature: a2a-mcp-protocols, Property 27: CRDT update broadcast and apply round trip [P27 R9.1 R9.2 R9.4]', async () => {
    const arbUpdate = fc.oneof(
      fc.record({
        map: fc.constantFrom('a', 'b'),
        set: fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), fc.integer(), {
          minKeys: 1,
          maxKeys: 3,
          noNullPrototype: true,
        }),
      }),
      fc.record({
        list: fc.constant('c'),
        at: fc.constant(0),
        insert: fc.array(fc.string(), { minLength: 1, maxLength: 3 }),
      }),
      fc.record({ text: fc.constant('d'), at: fc.constant(0), insert: fc.string({ minLength: 1, maxLength: 9 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(2), arbUpdate), { minLength: 1, maxLength: 3 }), async (updates) => {
        const { node, runtime } = await start();
        const ids = ['ada', 'bob', 'cyd'] as const;
        const channels = ids.map((id) => new CRDTSyncChannel(node.agent({ id }).state('plan')));
        const heard = channels.map((channel) => {
          const messages: CRDTSyncMessage[] = [];
          channel.onUpdate((message) => messages.push(message));
          return messages;
        });
        await runtime.advance(200);
        for (const [index, update] of updates) {
          const sent = channels[index]!.broadcast(update, ids[index]!);
          await runtime.advance(200);
          await sent;
        }
        for (const messages of heard) {
          expect(messages).toHaveLength(updates.length);
          expect(messages.map(({ sourceAgentId }) => sourceAgentId.split('@')[0])).toEqual(
            updates.map(([index]) => ids[index]),
          );
          for (const message of messages) {
            expect(CRDTSyncMessageSchema.parse(message)).toEqual(message);
            expect(Object.keys(message.vectorClock).length).toBeGreaterThan(0);
          }
        }
        const [first, ...others] = node.documents.list.map(({ document }) => document.toJSON());
        for (const other of others) expect(other).toEqual(first);
        for (const channel of channels) expect(channel.getVectorClock()).toEqual(channels[0]!.getVectorClock());
      }),
      { numRuns: 100 },
    );
  });

  it('travels as stream-data in its own thread', async () => {
    const { node, runtime, one } = await pair();
    const sent: A2ALogEvent[] = [];
    node.observability.subscribe((event) => {
      if (event.type === 'message-sent') sent.push(event);
    });
    one.map('m').set('a', 1);
    await runtime.advance(1);
    expect(sent[0]).toMatchObject({
      messageType: 'stream-data',
      correlationId: 'state:open:plan',
      sender: 'mars',
      recipient: 'venus',
    });
  });

  it('makes one segment of the changes of one turn', async () => {
    const { runtime, one, other } = await pair();
    for (let i = 0; i < 100; i++) one.map('m').set(`key ${i}`, i);
    one.transact(() => one.list('l').push(1, 2));
    await runtime.advance(1);
    expect(Object.values(one.vector)).toEqual([1]);
    expect(other.map('m').size).toBe(100);
    expect(other.list('l').toJSON()).toEqual([1, 2]);
  });

  it('splits changes that are too large for one segment, and refuses a value that is too large for any', async () => {
    const { runtime, one, other } = await pair();
    for (let i = 0; i < 40; i++) one.map('m').set(`key ${i}`, 'x'.repeat(10_000));
    await runtime.advance(100);
    expect(Object.values(one.vector)[0]).toBeGreaterThan(2);
    expect(other.map('m').size).toBe(40);
    const large = expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' });
    expect(() => one.map('m').set('large', 'x'.repeat(200_000))).toThrowError(large);
    expect(() =>
      one.transact(() => {
        for (let i = 0; i < 40; i++) one.list('l').push('x'.repeat(10_000));
      }),
    ).toThrowError(large);
  });

  it('holds JSON, and is not changed through values that were written or read', async () => {
    const { runtime, one, other } = await pair();
    const value = { list: [1, { deep: null }] };
    one.map('m').set('a', value);
    value.list.push(7);
    await runtime.advance(1);
    const got = other.map('m').get('a') as { list: unknown[] };
    expect(got).toEqual({ list: [1, { deep: null }] });
    got.list.push('mine');
    expect(other.map('m').get('a')).toEqual(one.map('m').get('a'));
    for (const bad of [undefined, Number.NaN, () => 1, new Date(0), 1n]) {
      expect(() => one.map('m').set('bad', bad)).toThrowError(expect.objectContaining({ code: 'INVALID_ENVELOPE' }));
    }
    for (const name of ['', '__proto__', 'x'.repeat(300)]) {
      expect(() => one.map(name)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    }
    expect(() => one.map('m').set('__proto__', 1)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    expect(() => one.list('l').delete(0)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    expect(() => one.text('t').insert(1, 'x')).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    expect(one.toJSON()).toEqual({ m: { a: { list: [1, { deep: null }] } } });
  });

  it('reports the author of a change, and the members that have all changes', async () => {
    const { runtime, node, one, other } = await pair();
    const changes: unknown[] = [];
    one.onChange((change) => changes.push(change));
    const venus = `venus@${node.key}`;
    one.text('t').insert(0, 'abc');
    expect(one.reached([venus])).toBe(false);
    await runtime.advance(200);
    expect(one.reached([venus, `mars@${node.key}`])).toBe(true);
    expect(one.reached([`nobody@${node.key}`])).toBe(false);
    other.text('t').delete(1, 1);
    await runtime.advance(200);
    expect(changes).toEqual([
      { by: `mars@${node.key}`, local: true },
      { by: venus, local: false },
    ]);
    expect(one.text('t').toString()).toBe('ac');
  });

  it('has presence, which is told and kept nowhere, and ends with its agent', async () => {
    const store = new MemoryStore();
    const { runtime, node, venus, one, other } = await pair({ store });
    const told: unknown[] = [];
    one.onMember((address, member) => told.push([address.split('@')[0], member?.presence]));
    for (let load = 0; load < 20; load++) other.presence({ load });
    await runtime.advance(100);
    expect(one.members.get(`venus@${node.key}`)?.presence).toEqual({ load: 19 });
    expect(told.length).toBeLessThan(4);
    expect(await store.read(stateSegments)).toEqual([]);
    venus.leave();
    await runtime.advance(10);
    expect(one.members.size).toBe(0);
    expect(told.at(-1)).toEqual(['venus', undefined]);
  });

  it('is the same for as long as it is open, and another life after', async () => {
    const { runtime, mars, one, other } = await pair();
    expect(mars.state('plan')).toBe(one);
    one.map('m').set('a', 1);
    const closed = one.close();
    await runtime.advance(10);
    await closed;
    expect(other.members.size).toBe(0);
    expect(() => one.map('m').set('b', 2)).toThrowError(expect.objectContaining({ code: 'NODE_STOPPED' }));
    const again = mars.state('plan');
    expect(again).not.toBe(one);
    await runtime.advance(500);
    expect(again.map('m').get('a')).toBe(1);
  });

  it('that is durable is on disk before anybody hears of it, and needs a store', async () => {
    const store = new MemoryStore();
    const { runtime, one, other } = await pair({ store });
    let onDisk: number | undefined;
    other.onUpdate(() => {
      void store.count(stateSegments, { where: { agent: 'mars' } }).then((count) => {
        onDisk ??= count;
      });
    });
    one.map('m').set('a', 1);
    await runtime.advance(100);
    expect(onDisk).toBe(1);
    expect(await store.count(stateSegments, { where: { agent: 'venus' } })).toBe(1);
    const { mars } = await pair();
    expect(() => mars.state('other', { durable: true })).toThrowError(
      expect.objectContaining({ code: 'STORE_REQUIRED' }),
    );
  });

  it('catches up at once, although the others reported before its stored segments were loaded', async () => {
    const store = new MemoryStore();
    const { node, runtime } = await start({ store });
    const one = node.agent({ id: 'mars' }).state('plan');
    await runtime.advance(200);
    one.map('notes').set('step', 3);
    await runtime.advance(200);
    const read = store.read.bind(store);
    store.read = (table, query) =>
      new Promise((resolve) => void runtime.setTimer(() => resolve(read(table, query)), 20));
    const other = node.agent({ id: 'venus' }).state('plan');
    const caughtUp = other.caughtUp(1_000);
    await runtime.advance(200);
    expect(other.toJSON()).toEqual({ notes: { step: 3 } });
    expect(await caughtUp).toBe(true);
  });

  it('lets in only whom its member admits', async () => {
    const { node, runtime, mars, venus } = await pair();
    const own = mars.state('private', { admits: ({ address }) => address === 'earth' });
    const refused = venus.state('private');
    const earth = node.agent({ id: 'earth' }).state('private');
    own.map('m').set('a', 1);
    await runtime.advance(500);
    expect([...own.members.keys()]).toEqual([`earth@${node.key}`]);
    expect(earth.map('m').get('a')).toBe(1);
    // Who is in it with both passes it on; the one that admits fewer hears of its own choice only.
    expect([...own.members.keys()]).not.toContain(`venus@${node.key}`);
    expect(refused.members.has(`mars@${node.key}`)).toBe(false);
  });

  it('merges many small segments of one author into few, and everyone alike', async () => {
    const store = new MemoryStore();
    const { runtime, node, one, other } = await pair({ store });
    for (let i = 0; i < 130; i++) {
      one.map('m').set(`key ${i % 7}`, i);
      await runtime.advance(1);
    }
    await runtime.advance(500);
    const [mine, theirs] = node.documents.list.map(({ document }) => document.segments.length);
    expect(mine).toBeLessThan(10);
    expect(theirs).toBe(mine);
    expect(other.toJSON()).toEqual(one.toJSON());
    expect(await store.count(stateSegments, { where: { agent: 'mars' } })).toBe(mine);
  });
});

describe('what members say', () => {
  it('is read as it was written [GEN.arbCRDTSyncMessage]', () => {
    fc.assert(
      fc.property(arbCRDTSyncMessage(), (message) => {
        expect(readMessage(JSON.parse(JSON.stringify(message)))).toEqual(message);
      }),
    );
  });

  it('that is no message is reported with its source, and skipped [R9.5]', async () => {
    const { node, runtime, venus, one } = await pair();
    const faults: A2ALogEvent[] = [];
    node.observability.subscribe((event) => {
      if (event.type === 'error') faults.push(event);
    });
    const wire = { stream: 'venus@x/1', first: 1, number: 1, after: {}, update: 'AAAA', signature: 'x' };
    const update = { kind: 'update', segments: [wire] };
    const bad = [
      null,
      'text',
      { vectorClock: {} },
      { sourceAgentId: 'a', vectorClock: { x: 1 }, payload: update, timestamp: 0 },
    ];
    for (const payload of bad) await venus.send('mars', payload, { type: 'stream-data', thread: one.thread });
    expect(faults).toHaveLength(bad.length);
    for (const fault of faults) {
      expect(fault).toMatchObject({
        code: 'CRDT_DESERIALIZATION_FAILED',
        sender: `venus@${node.key}`,
        recipient: 'mars',
      });
    }
    one.map('m').set('still', 'works');
    await runtime.advance(100);
    expect(node.documents.list[1]!.document.map('m').get('still')).toBe('works');
  });

  it('of an author that signed two segments under one number is a security event [T-F13]', async () => {
    const { node, runtime, venus, one, other } = await pair();
    const events: A2ALogEvent[] = [];
    node.observability.subscribe((event) => {
      if (event.type === 'security') events.push(event);
    });
    const author = Identity.create(runtime);
    const stream = `eve@${author.key}/1`;
    for (const value of ['black', 'white']) {
      const face = new Replica(one.thread, stream);
      face.doc.getMap('m:m').set('a', value);
      const segment = face.take()!;
      segment.sign(one.thread, author);
      const update = { kind: 'update', segments: [JSON.parse(JSON.stringify(segment.wire()))] };
      const payload = { sourceAgentId: 'venus', vectorClock: { [stream]: 1 }, payload: update, timestamp: 0 };
      await venus.send('mars', payload, { type: 'stream-data', thread: one.thread });
    }
    await runtime.advance(500);
    const [event] = events;
    expect(event).toMatchObject({
      code: 'CRDT_DESERIALIZATION_FAILED',
      sender: `venus@${node.key}`,
      recipient: 'mars',
    });
    expect(event!.reason).toContain(stream);
    expect(new Set(events.map(({ recipient }) => recipient))).toEqual(new Set(['mars', 'venus']));
    expect([one.toJSON(), other.toJSON()]).toEqual([{}, {}]);
  });

  it('of merges of another agent’s segments does not make its node sign one [T-F13]', async () => {
    const { node, runtime, venus, one } = await pair();
    for (let i = 0; i < 4; i++) {
      one.map('m').set('a', i);
      await runtime.advance(10);
    }
    const [stream] = Object.keys(one.vector);
    const merge = { kind: 'merged', stream, first: 2, number: 3, signature: '' };
    const payload = { sourceAgentId: 'venus', vectorClock: {}, payload: merge, timestamp: 0 };
    await venus.send('mars', payload, { type: 'stream-data', thread: one.thread });
    expect(node.documents.list[0]!.document.segments).toHaveLength(4);
  });

  it('under another’s name is refused by the channel', async () => {
    const { one } = await pair();
    const channel = new CRDTSyncChannel(one);
    await expect(channel.broadcast({ map: 'm', set: { a: 1 } }, 'venus')).rejects.toMatchObject({
      code: 'SENDER_REFUSED',
    });
    await expect(channel.broadcast(new Uint8Array(3), 'mars')).rejects.toMatchObject({
      code: 'CRDT_DESERIALIZATION_FAILED',
    });
  });
});

describe('a channel of updates', () => {
  it('takes any JSON value, which every member then has, and refuses any other [R9.1 T-C15]', async () => {
    const { node, runtime } = await start();
    const [one, other] = ['ann', 'bob'].map((id) => node.agent({ id }).state('plan'));
    const channel = new CRDTSyncChannel(one!);
    const values = [null, true, 5, 'text', [1, [2]], { any: { thing: [] } }, { map: 'm', set: 5 }];
    for (const value of values) {
      const sent = channel.broadcast(value, 'ann');
      await runtime.advance(200);
      await sent;
    }
    expect(other!.list('updates').toJSON()).toEqual(values);
    for (const value of [undefined, 5n, () => {}, Number.NaN]) {
      await expect(channel.broadcast(value, 'ann')).rejects.toMatchObject({ code: 'CRDT_DESERIALIZATION_FAILED' });
    }
    expect(other!.list('updates').length).toBe(values.length);
  });
});
