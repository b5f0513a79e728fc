import { describe, expect, it } from 'vitest';
import type { RoutingResult } from '../mesh/schemas.js';
import { Identity } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import { LiveDocument } from './live-document.js';
import { Segment } from './segment.js';
import { SegmentRecords } from './segment-records.js';
import type { SyncMessage } from './sync-message.js';
import { stateSegments } from './tables.js';

const THREAD = 'state:open:plan';
const OTHER = 'other@node';

/** One document with a member on another node, whose messages arrive when the test says so. */
async function opened(
  store?: MemoryStore,
  onBad: (error: EclipticError) => void = (error) => expect.unreachable(error.message),
) {
  const runtime = new SimulatedRuntime();
  const identity = Identity.create(runtime);
  const sent: Segment[] = [];
  const waiting: (() => void)[] = [];
  const document = new LiveDocument(
    {
      runtime,
      agentId: 'ada',
      records: store && new SegmentRecords(store),
      link: {
        self: `ada@${identity.key}`,
        isLocal: (address) => address !== OTHER,
        mayRead: () => true,
        mayWrite: () => true,
        sign: (segment) => segment.sign(THREAD, identity),
        post: (to, { payload }: SyncMessage) => {
          const delivered: RoutingResult = { delivered: true, path: 'remote', targetAgentId: to, latencyMs: 1 };
          if (payload.kind !== 'update') return delivered;
          sent.push(...payload.segments.map((wire) => Segment.read(wire)));
          return new Promise((resolve) => waiting.push(() => resolve(delivered)));
        },
      },
      assertMayWrite: () => {},
      onBad,
      onClose: () => {},
      callbackFailed: () => {},
    },
    'plan',
    THREAD,
    '1',
  );
  document.join(OTHER);
  await runtime.advance(100);
  let writes = 0;
  /** Makes changes in so many turns. */
  const write = async (turns: number) => {
    for (let turn = 0; turn < turns; turn++) {
      document.map('m').set('key', ++writes);
      await runtime.advance(0);
    }
  };
  const arrive = async () => {
    for (const settle of waiting.splice(0)) settle();
    await runtime.advance(0);
  };
  return { runtime, document, sent, write, arrive };
}

describe('the changes of several turns', () => {
  it('go to another node at once after a pause, and together while a segment is on its way, after 10 ms at the latest', async () => {
    const { runtime, document, sent, write, arrive } = await opened();
    await write(1);
    expect(sent).toHaveLength(1);
    await write(20);
    expect(sent).toHaveLength(1);
    await runtime.advance(9);
    expect(sent).toHaveLength(1);
    await runtime.advance(1);
    expect(sent).toHaveLength(2);
    await write(5);
    await arrive();
    // The previous segment was made more than 2 ms ago only after a moment.
    await runtime.advance(2);
    expect(sent).toHaveLength(3);
    expect(sent.every((segment) => segment.isSigned(THREAD))).toBe(true);
    expect(Object.values(document.vector)).toEqual([3]);
    await arrive();
    await runtime.advance(10);
    await write(1);
    expect(sent).toHaveLength(4);
    await document.close();
  });

  it('are complete when `synced` resolves, and when the document is closed', async () => {
    const { runtime, document, sent, write, arrive } = await opened(new MemoryStore());
    await write(3);
    const synced = document.synced();
    await runtime.advance(1);
    await arrive();
    await synced;
    await write(3);
    await document.close();
    const replica = new Map(sent.map((segment) => [segment.number, segment]));
    expect(Math.max(...replica.keys())).toBe(replica.size);
    expect(document.map('m').get('key')).toBe(6);
    expect(Object.values(document.vector)).toEqual([replica.size]);
  });

  it('wait while the disk is full, are not called stored, and are stored and sent in order when there is room [FX.4]', async () => {
    const store = new MemoryStore();
    const reported: EclipticError[] = [];
    const { runtime, document, sent, write, arrive } = await opened(store, (error) => void reported.push(error));
    const works = store.write.bind(store);
    const full = new EclipticError('STORE_FAILED', 'cannot use log: the disk is full', { reason: 'full' });
    await write(1);
    await arrive();
    store.write = () => Promise.reject(full);
    await write(3);
    await expect(document.stored()).rejects.toBe(full);
    await runtime.advance(5_000);
    await write(3);
    await expect(document.synced()).rejects.toBe(full);
    expect(sent).toHaveLength(1);
    expect(document.reached([OTHER])).toBe(false);
    expect(reported).toEqual([full]);
    store.write = works;
    await runtime.advance(1_000);
    await arrive();
    await document.stored();
    const numbers = (segments: readonly { number: number }[]) => segments.map(({ number }) => number);
    const inOrder = Array.from({ length: Object.values(document.vector)[0]! }, (_, index) => index + 1);
    expect(numbers(sent)).toEqual(inOrder);
    expect(numbers(await store.read(stateSegments))).toEqual(inOrder);
    await write(1);
    await document.close();
    expect(document.map('m').get('key')).toBe(8);
    expect(numbers(await store.read(stateSegments))).toEqual([...inOrder, inOrder.length + 1]);
    // A document that is closed while the disk is full says that changes are lost.
    const again = await opened(store, (error) => void reported.push(error));
    store.write = () => Promise.reject(full);
    await again.write(1);
    await expect(again.document.close()).rejects.toBe(full);
  });

  it('wait for the disk together, and are sent only after it has them; rows need no signature', async () => {
    const store = new MemoryStore();
    const { runtime, document, sent, write } = await opened(store);
    const stored = store.write.bind(store);
    let finish = () => {};
    store.write = (writes) =>
      writes.length === 0
        ? stored(writes)
        : new Promise<void>((resolve, reject) => {
            finish = () => stored(writes).then(resolve, reject);
          });
    await write(1);
    await write(5);
    expect(sent).toEqual([]);
    finish();
    await runtime.advance(0);
    expect(sent).toHaveLength(1);
    // The rest goes 10 ms after it was made, although the first has not arrived.
    await runtime.advance(10);
    finish();
    await runtime.advance(0);
    expect(sent).toHaveLength(2);
    const rows = await store.read(stateSegments);
    expect(rows.map(({ number, signature }) => [number, signature])).toEqual([
      [1, ''],
      [2, ''],
    ]);
    expect(sent.every((segment) => segment.isSigned(THREAD))).toBe(true);
    store.write = stored;
    await document.close();
  });
});
