import { describe, expect, it } from 'vitest';
import type { RoutingResult } from '../mesh/schemas.js';
import { Identity } from '../network/membership/identity.js';
import type { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { Replica } from './replica.js';
import type { Segment } from './segment.js';
import { Sync } from './sync.js';
import type { SyncMessage } from './sync-message.js';

const THREAD = 'state:open:plan';
const OTHER = 'other@node';

/** One replica, its messages, and the times of their arrival. */
function lone(runtime = new SimulatedRuntime()) {
  const identity = Identity.create(runtime);
  const replica = new Replica(THREAD, `ada@${identity.key}/1`);
  const said: SyncMessage[] = [];
  const waiting: ((delivered: boolean) => void)[] = [];
  const faults: [error: EclipticError, source: string][] = [];
  const sync = new Sync({
    runtime,
    replica,
    link: {
      self: `ada@${identity.key}`,
      isLocal: () => false,
      mayRead: () => true,
      mayWrite: () => true,
      sign: (segment) => segment.sign(THREAD, identity),
      post: (to, message) => {
        said.push(message);
        return new Promise<RoutingResult>((resolve) => {
          waiting.push((delivered) => resolve({ delivered, path: 'remote', targetAgentId: to, latencyMs: 1 }));
        });
      },
    },
    onApplied: () => {},
    onSent: () => {},
    onMerged: () => {},
    onQuarantined: () => {},
    freshStream: () => `ada@${identity.key}/2`,
    onBad: (error, source) => faults.push([error, source]),
    callbackFailed: () => {},
  });
  const write = (value: unknown): Segment => {
    replica.doc.getMap('m:map').set('key', value);
    const segment = replica.take()!;
    replica.commit(segment);
    sync.push(segment);
    return segment;
  };
  const kinds = () => said.map(({ payload }) => payload.kind);
  const arrive = async (delivered = true) => {
    for (const settle of waiting.splice(0)) settle(delivered);
    await runtime.advance(0);
  };
  return { runtime, identity, replica, sync, said, faults, write, kinds, arrive };
}

describe('a replica and a member', () => {
  it('over a slow link has a bounded number of updates under way; the rest is asked for', async () => {
    const { sync, write, kinds, arrive, said, replica } = lone();
    sync.add(OTHER);
    sync.start();
    for (let i = 0; i < 1_000; i++) write(i);
    expect(kinds().length).toBeLessThanOrEqual(64);
    said.length = 0;
    await arrive();
    // Once everything has arrived, it is told how far this replica is, and asks.
    expect(kinds()).toEqual(['have']);
    expect(said[0]!.vectorClock).toEqual(replica.vector);
    await arrive();
    write('live again');
    expect(kinds()).toEqual(['have', 'update']);
    sync.close();
  });

  it('that cannot be reached is told again, later and later', async () => {
    const { runtime, sync, write, kinds, arrive } = lone();
    sync.add(OTHER);
    sync.start();
    await arrive(false);
    write(1);
    expect(kinds()).toEqual(['have']);
    await runtime.advance(500);
    expect(kinds()).toEqual(['have', 'have']);
    await arrive(false);
    await runtime.advance(900);
    expect(kinds()).toHaveLength(2);
    await runtime.advance(100);
    expect(kinds()).toHaveLength(3);
    await arrive();
    write(2);
    expect(kinds().at(-1)).toBe('update');
    sync.close();
  });

  it('gets missing segments in parts, one for each request', async () => {
    const { sync, said, replica, write } = lone();
    sync.add(OTHER);
    sync.start();
    for (let i = 0; i < 60; i++) write(`${i}`.padEnd(20_000, 'x'));
    const vector: Record<string, number> = {};
    const sizes: number[] = [];
    for (let more = true; more; ) {
      said.length = 0;
      sync.take(OTHER, { sourceAgentId: OTHER, vectorClock: vector, payload: { kind: 'want' }, timestamp: 0 });
      const [answer] = said;
      if (answer?.payload.kind !== 'part') return expect.unreachable();
      sizes.push(JSON.stringify(answer).length);
      vector[replica.stream] = (vector[replica.stream] ?? 0) + answer.payload.segments.length;
      more = answer.payload.more;
    }
    expect(vector).toEqual(replica.vector);
    expect(sizes.length).toBeGreaterThan(3);
    expect(Math.max(...sizes)).toBeLessThan(500_000);
    sync.close();
  });

  it('that sends invalid segments is reported, and asked less and less often', async () => {
    const { runtime, sync, said, faults, arrive, replica } = lone();
    sync.add(OTHER);
    sync.start();
    const vectorClock = { 'ghost@node/1': 5 };
    sync.take(OTHER, { sourceAgentId: OTHER, vectorClock, payload: { kind: 'have', presence: null }, timestamp: 0 });
    const wire = { stream: 'ghost@node/1', first: 1, number: 1, after: {}, update: 'AAAA', signature: 'none' };
    let asked = 0;
    for (let passed = 0; passed < 60_000; passed += 50) {
      await runtime.advance(50);
      await arrive();
      if (!said.some(({ payload }) => payload.kind === 'want')) continue;
      asked++;
      said.length = 0;
      const part = { kind: 'part', segments: [wire], more: false };
      sync.take(OTHER, { sourceAgentId: OTHER, vectorClock, payload: part, timestamp: 0 });
    }
    expect(asked).toBeGreaterThan(2);
    expect(asked).toBeLessThan(12);
    expect(faults).toHaveLength(asked);
    for (const [error, source] of faults) {
      expect([error.code, source]).toEqual(['CRDT_DESERIALIZATION_FAILED', OTHER]);
    }
    expect(replica.vector).toEqual({});
    sync.close();
    expect(runtime.pending).toBe(0);
  });
});
