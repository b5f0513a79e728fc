import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbA2AEnvelope } from '../../test/generators.js';
import { introduce, type Mesh, startMesh, startPair } from '../../test/mesh-fixture.js';
import type { A2AMessageType, RoutingResult } from './schemas.js';
import type { ThreadTableInit } from './thread-table.js';

const THREADS = ['one', 'two', 'three'] as const;

/** L1 agents may answer an L3 agent, but not speak to it of their own accord: a reply passes by right, or not at all. */
async function startTalk(threads: ThreadTableInit = {}): Promise<Mesh> {
  const mesh = await startMesh({ limits: { threads } });
  for (const id of ['asker', 'asker2']) mesh.join(id, { tier: 3 });
  for (const id of ['expert', 'expert2']) mesh.join(id, { tier: 1 });
  mesh.join('noise', { tier: 3 });
  mesh.join('echo', { tier: 3 });
  return mesh;
}

const ask = (mesh: Mesh, thread: string, from = 'asker', to = 'expert') =>
  mesh.send(from, to, { type: 'request', thread });

const answer = (mesh: Mesh, thread: string, type: A2AMessageType = 'response', from = 'expert', to = 'asker') =>
  mesh.send(from, to, { type, thread });

let floods = 0;

/** Conversations that come and are answered, each with a payload of about `bytes`. */
async function flood(mesh: Mesh, conversations: number, bytes = 0): Promise<void> {
  for (let count = 0; count < conversations; count++) {
    const thread = `flood ${floods++}`;
    const payload = 'x'.repeat(bytes);
    await mesh.send('noise', 'echo', { type: 'request', thread, payload });
    await mesh.send('echo', 'noise', { type: 'response', thread });
  }
}

const outcome = (result: RoutingResult) => result.error ?? 'delivered';

describe('a conversation thread', () => {
  it('Feature: a2a-mcp-protocols, Property 8: Correlation threading [P8 R2.4]', async () => {
    const arbMessage = fc.record({
      envelope: arbA2AEnvelope(),
      thread: fc.constantFrom(undefined, ...THREADS),
      recipient: fc.constantFrom('asker', 'expert', '*', 'nobody'),
      timestamp: fc.nat(20),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(arbMessage, { maxLength: 30 }), async (messages) => {
        const mesh = await startTalk();
        mesh.join('sun', { tier: 0 });
        const delivered: { id: string; thread: string | undefined; timestamp: number }[] = [];
        for (const [index, { envelope, thread, recipient, timestamp }] of messages.entries()) {
          const id = `${envelope.id}${index}`;
          const changes = { id, sender: 'sun', recipient, correlationId: thread, timestamp, metadata: undefined };
          const result = await mesh.router.send({ ...envelope, ...changes });
          expect(result.delivered).toBe(recipient !== 'nobody');
          if (result.delivered) delivered.push({ id, thread, timestamp });
        }
        for (const thread of THREADS) {
          const expected = delivered.filter((message) => message.thread === thread);
          const found = mesh.node.threads.get(thread);
          expect(found.map(({ id }) => id).sort()).toEqual(expected.map(({ id }) => id).sort());
          expect(found.every(({ correlationId }) => correlationId === thread)).toBe(true);
          expect(found.map(({ timestamp }) => timestamp)).toEqual(
            expected.map(({ timestamp }) => timestamp).sort((a, b) => a - b),
          );
        }
      }),
      { numRuns: 150 },
    );
  });

  it('holds question and answer, earliest first [R2.4]', async () => {
    const mesh = await startTalk();
    await ask(mesh, 't');
    await mesh.runtime.advance(5);
    await answer(mesh, 't', 'stream-start');
    await answer(mesh, 't', 'stream-data');
    await answer(mesh, 't', 'stream-end');
    const types = mesh.node.threads.get('t').map(({ type }) => type);
    expect(types).toEqual(['request', 'stream-start', 'stream-data', 'stream-end']);
  });

  it('is empty before its first message [R2.4]', async () => {
    const mesh = await startTalk();
    await mesh.send('asker', 'expert');
    expect(mesh.node.threads.get('t')).toEqual([]);
  });

  it('holds nothing that was refused [R2.4]', async () => {
    const mesh = await startTalk();
    await answer(mesh, 't');
    await ask(mesh, 't', 'asker', 'nobody');
    await mesh.send('asker', 'expert', { type: 'task-proposal', thread: 't' });
    expect(mesh.node.threads.get('t')).toEqual([]);
  });

  it('has messages from another node, with the addresses that this node uses [R2.4 R4.4]', async () => {
    const { here, there } = await startPair();
    here.join('asker', { tier: 3 });
    there.join('expert', { tier: 1 });
    introduce(here, there);
    await here.send('asker', 'expert', { type: 'request', thread: 't' });
    await there.send('expert', 'asker', { type: 'response', thread: 't' });
    const ends = (mesh: Mesh) => mesh.node.threads.get('t').map(({ sender, type }) => `${sender}: ${type}`);
    expect(ends(here)).toEqual(['asker: request', 'expert@there: response']);
    expect(ends(there)).toEqual(['asker@here: request', 'expert: response']);
  });

  it('keeps its later half when it grows past its limit [R2.4]', async () => {
    const mesh = await startTalk({ envelopesPerThread: 10 });
    const payloads = () => mesh.node.threads.get('t').map(({ payload }) => payload);
    for (let payload = 0; payload < 10; payload++) {
      await mesh.send('asker', 'expert', { type: 'request', thread: 't', payload });
    }
    expect(payloads()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    await mesh.send('asker', 'expert', { type: 'request', thread: 't', payload: 10 });
    expect(payloads()).toEqual([5, 6, 7, 8, 9, 10]);
    expect(outcome(await answer(mesh, 't'))).toBe('delivered');
  });
});

describe('the right to reply', () => {
  const REPLIES: readonly A2AMessageType[] = [
    'response',
    'task-accept',
    'task-reject',
    'stream-start',
    'stream-data',
    'stream-end',
    'error',
  ];
  const OPENINGS: readonly A2AMessageType[] = ['request', 'notification', 'task-proposal'];

  it('lets answers go up against the tier rules, by every type that answers and by no other [R4.5 R2.4]', async () => {
    for (const type of [...REPLIES, ...OPENINGS]) {
      const mesh = await startTalk();
      await ask(mesh, 't');
      const expected = REPLIES.includes(type) ? 'delivered' : 'TIER_VIOLATION';
      expect([type, outcome(await answer(mesh, 't', type))]).toEqual([type, expected]);
    }
  });

  it('comes with every type of opening message [R4.5 R2.4]', async () => {
    for (const type of [...REPLIES, ...OPENINGS]) {
      const mesh = await startTalk();
      const metadata = { escalationJustification: 'it cannot wait' };
      await mesh.send('asker', 'expert', { type, thread: 't', metadata });
      expect([type, outcome(await answer(mesh, 't'))]).toEqual([type, 'delivered']);
    }
  });

  it('is of the one that was asked, towards the one that asked, in that thread alone [R4.5]', async () => {
    const mesh = await startTalk();
    await ask(mesh, 't');
    await ask(mesh, 'u', 'asker2', 'expert2');
    const refused = [
      await answer(mesh, 't', 'response', 'expert2', 'asker'),
      await answer(mesh, 't', 'response', 'expert', 'asker2'),
      await answer(mesh, 'u', 'response', 'expert', 'asker'),
      await answer(mesh, 'unheard of', 'response', 'expert', 'asker'),
      await mesh.send('expert', 'asker', { type: 'response' }),
    ];
    expect(refused.map(outcome)).toEqual(Array(5).fill('TIER_VIOLATION'));
    expect(mesh.eventsOf('security')).toHaveLength(5);
    expect(outcome(await answer(mesh, 't'))).toBe('delivered');
  });

  it('does not come with a message that was refused [R4.5]', async () => {
    const mesh = await startTalk();
    mesh.join('deaf', { tier: 1, listens: false });
    await ask(mesh, 't', 'asker', 'deaf');
    await mesh.send('asker', 'expert', { type: 'task-proposal', thread: 't' });
    await mesh.send('asker', 'expert', { type: 'request', thread: 't', metadata: { durable: true } });
    expect(outcome(await answer(mesh, 't', 'response', 'deaf'))).toBe('TIER_VIOLATION');
    expect(outcome(await answer(mesh, 't'))).toBe('TIER_VIOLATION');
    expect(mesh.node.threads.waiting).toBe(0);
  });

  it('is not granted to the first sender under a guessed thread id [R4.5]', async () => {
    const mesh = await startTalk();
    await ask(mesh, 't');
    mesh.join('chief', { tier: 0 });
    await mesh.send('expert2', 'chief', { type: 'response', thread: 't' });
    expect(outcome(await answer(mesh, 't', 'response', 'expert2', 'asker'))).toBe('TIER_VIOLATION');
    expect(outcome(await answer(mesh, 't'))).toBe('delivered');
  });

  it('does not lift the sandbox [R10.1]', async () => {
    const mesh = await startTalk();
    mesh.join('inmate', { tier: 3, sandbox: 'red' });
    await ask(mesh, 't', 'asker', 'inmate');
    expect(outcome(await answer(mesh, 't', 'response', 'inmate'))).toBe('SANDBOX_VIOLATION');
  });
});

describe('conversations that wait for an answer', () => {
  const FINAL: readonly A2AMessageType[] = ['response', 'task-reject', 'stream-end', 'error'];
  const PARTIAL: readonly A2AMessageType[] = ['task-accept', 'stream-start', 'stream-data'];

  it('wait until a final answer came [R2.4]', async () => {
    for (const type of [...FINAL, ...PARTIAL]) {
      const mesh = await startTalk();
      await ask(mesh, 't');
      expect(mesh.node.threads.waiting).toBe(1);
      await answer(mesh, 't', type);
      expect([type, mesh.node.threads.waiting]).toEqual([type, FINAL.includes(type) ? 0 : 1]);
      await answer(mesh, 't', 'response');
      await answer(mesh, 't', 'response');
      expect(mesh.node.threads.waiting).toBe(0);
      await ask(mesh, 't');
      expect(mesh.node.threads.waiting).toBe(1);
    }
  });

  it('are only those of messages in a thread [R2.4]', async () => {
    const mesh = await startTalk({ waiting: 1 });
    await ask(mesh, 't');
    expect((await mesh.send('asker', 'expert')).delivered).toBe(true);
    expect(mesh.node.threads.waiting).toBe(1);
  });

  it('are refused beyond the limit, until one of them is answered [R2.4]', async () => {
    const mesh = await startTalk({ waiting: 2 });
    await ask(mesh, 'one');
    await ask(mesh, 'two');
    const third = await ask(mesh, 'three');
    expect(third).toMatchObject({ delivered: false, error: 'PERMITS_FULL' });
    expect(mesh.node.threads.get('three')).toEqual([]);
    expect(mesh.inbox('expert')).toHaveLength(2);
    expect(outcome(await answer(mesh, 'one', 'stream-data'))).toBe('delivered');
    expect((await ask(mesh, 'three')).error).toBe('PERMITS_FULL');
    expect(outcome(await answer(mesh, 'one'))).toBe('delivered');
    expect((await ask(mesh, 'three')).delivered).toBe(true);
    expect((await ask(mesh, 'four')).error).toBe('PERMITS_FULL');
  });

  it('make room after they waited for the longest time allowed [R2.4]', async () => {
    const mesh = await startTalk({ waiting: 2, waitMs: 10_000 });
    await ask(mesh, 'one');
    await mesh.runtime.advance(5_000);
    await ask(mesh, 'two');
    await mesh.runtime.advance(5_000);
    expect((await ask(mesh, 'three')).error).toBe('PERMITS_FULL');
    await mesh.runtime.advance(1_001);
    expect((await ask(mesh, 'three')).delivered).toBe(true);
    expect(mesh.node.threads.waiting).toBe(2);
    expect((await ask(mesh, 'four')).error).toBe('PERMITS_FULL');
    expect(outcome(await answer(mesh, 'two'))).toBe('delivered');
  });

  it('wait their full time again when they are opened again [R2.4]', async () => {
    const mesh = await startTalk({ waiting: 1, waitMs: 10_000 });
    await ask(mesh, 'one');
    await answer(mesh, 'one');
    await mesh.runtime.advance(60_000);
    await ask(mesh, 'one');
    await mesh.runtime.advance(100);
    expect((await ask(mesh, 'two')).error).toBe('PERMITS_FULL');
  });

  it('go on when no further one may be opened [R2.4]', async () => {
    const mesh = await startTalk({ waiting: 1 });
    await ask(mesh, 'one');
    expect((await ask(mesh, 'two')).error).toBe('PERMITS_FULL');
    const more = await mesh.send('asker', 'expert', { type: 'stream-data', thread: 'one' });
    expect(outcome(more)).toBe('delivered');
  });

  it('are streamed to their end, though no further one may be opened [R2.4]', async () => {
    const { node, runtime } = await startMesh({ limits: { threads: { waiting: 1 } } });
    const reader = node.agent({ id: 'reader', tier: 3 });
    node.agent({ id: 'writer', tier: 3 }).onRequest(async function* () {
      for (let n = 0; n < 600; n++) yield n;
    });
    const stream = reader.stream('writer', null);
    let read = 0;
    const reading = (async () => {
      for await (const _ of stream) read++;
    })().catch(() => {});
    await runtime.runUntilIdle();
    await reading;
    expect(read).toBe(600);
  });

  it('are none after each of two openings in one thread was answered [R2.4]', async () => {
    const mesh = await startTalk();
    await ask(mesh, 't');
    await mesh.send('asker', '*', { thread: 't' });
    for (const id of ['expert', 'expert2', 'asker2', 'noise', 'echo']) await answer(mesh, 't', 'response', id);
    await answer(mesh, 't');
    expect(mesh.node.threads.waiting).toBe(0);
  });

  it('are none after a broadcast without recipients [R2.4]', async () => {
    const mesh = await startMesh();
    mesh.join('alone');
    await mesh.send('alone', '*', { thread: 't' });
    expect(mesh.node.threads.waiting).toBe(0);
  });

  it('are none after a stream that was sent and read to its end [R2.4]', async () => {
    const { node, runtime } = await startMesh();
    const writer = node.agent({ id: 'writer', tier: 3 });
    const read: unknown[] = [];
    node.agent({ id: 'reader', tier: 3 }).onStream(async (stream) => {
      for await (const chunk of stream) read.push(chunk);
    });
    const sending = writer.sendStream('reader', [1, 2, 3]);
    await runtime.runUntilIdle(0);
    await sending;
    expect(read).toEqual([1, 2, 3]);
    expect(node.threads.waiting).toBe(0);
  });

  it('are none after a stream whose reader left [R2.4]', async () => {
    const { node, runtime } = await startMesh();
    const reader = node.agent({ id: 'reader', tier: 3 });
    node.agent({ id: 'writer', tier: 3 }).onRequest(async function* () {
      for (let n = 0; n < 1_000; n++) yield n;
    });
    const stream = reader.stream('writer', null);
    expect(await stream.next()).toEqual({ value: 0, done: false });
    await stream.return();
    await runtime.runUntilIdle(0);
    expect(node.threads.waiting).toBe(0);
  });
});

describe('the share of each opener', () => {
  /** Another node's agents, which `here` knows; their messages arrive as over a link. */
  async function startWithMember(threads: ThreadTableInit = {}) {
    const { here, there } = await startPair({ limits: { threads } });
    for (const id of ['asker', 'flooder']) here.join(id, { tier: 3 });
    here.join('expert', { tier: 1 });
    for (const id of ['member', 'member2']) there.join(id, { tier: 3 });
    introduce(here, there);
    const fromMember = (type: A2AMessageType, thread: string, id = 'member') =>
      here.router.take(there.envelope(id, 'expert@here', { type, thread }), 'there');
    return { here, there, fromMember };
  }

  it('keeps notifications from stopping requests, from this node or another [T-C2 T-F2]', async () => {
    const { here, there, fromMember } = await startWithMember();
    for (let n = 0; n < 110_000; n++) {
      here.router.take(there.envelope('member', 'expert@here', { thread: `remote ${n}` }), 'there');
      if (n % 1_000 === 0) await here.runtime.runUntilIdle(0);
    }
    for (let n = 0; n < 5_000; n++) await here.send('flooder', 'expert', { thread: `local ${n}` });
    expect(here.node.threads.waiting).toBe(0);
    for (const from of ['asker', 'flooder']) expect(outcome(await ask(here, `of ${from}`, from))).toBe('delivered');
    for (const id of ['member', 'member2'])
      expect(outcome(await fromMember('request', `of ${id}`, id))).toBe('delivered');
    expect(outcome(await answer(here, 'of asker'))).toBe('delivered');
  });

  it('lets the owner of open requests fill its own share, and the others go on [T-C2 T-F2]', async () => {
    const { here, fromMember } = await startWithMember({ waiting: 100 });
    for (let n = 0; n < 100; n++) expect(outcome(await fromMember('request', `r ${n}`))).toBe('delivered');
    expect(outcome(await fromMember('request', 'one more'))).toBe('PERMITS_FULL');
    // Its node's other agent has a part of the node's share, and so have the agents of this node of the whole.
    expect(outcome(await fromMember('request', 'other', 'member2'))).toBe('delivered');
    for (let n = 0; n < 40; n++) expect(outcome(await ask(here, `a ${n}`))).toBe('delivered');
    for (let n = 0; n < 30; n++) expect(outcome(await ask(here, `f ${n}`, 'flooder'))).toBe('delivered');
    expect(here.node.threads.waiting).toBe(171);
    for (let n = 0; n < 100; n++) await ask(here, `a more ${n}`);
    expect(here.node.threads.waiting).toBeLessThan(200);
    expect(outcome(await answer(here, 'a 0'))).toBe('delivered');
  });

  it('replaces an owner’s oldest notifications by its later ones, never its requests [T-C2]', async () => {
    const mesh = await startTalk({ threads: 8 });
    await ask(mesh, 'asked');
    await mesh.send('asker', 'expert', { thread: 'noticed, then asked' });
    await ask(mesh, 'noticed, then asked');
    await mesh.send('asker', 'expert', { thread: 'old' });
    await mesh.send('asker2', 'expert', { thread: 'of another' });
    for (let n = 0; n < 20_000; n++) await mesh.send('asker', 'expert', { thread: `n ${n}` });
    expect(outcome(await answer(mesh, 'asked'))).toBe('delivered');
    expect(outcome(await answer(mesh, 'noticed, then asked'))).toBe('delivered');
    expect(outcome(await answer(mesh, 'old'))).toBe('TIER_VIOLATION');
    expect(outcome(await answer(mesh, 'n 17500'))).toBe('delivered');
    expect(outcome(await answer(mesh, 'of another', 'response', 'expert', 'asker2'))).toBe('delivered');
    expect(mesh.node.threads.waiting).toBe(0);
  });

  it('costs no more for the pairs of a long thread than for those of a short one [T-C2]', async () => {
    const mesh = await startMesh();
    for (let n = 0; n < 60; n++) mesh.join(`a${n}`, { tier: 3 });
    for (let n = 0; n < 60; n++) mesh.join(`e${n}`, { tier: 1 });
    for (let n = 0; n < 60; n++) for (let m = 0; m < 60; m++) await ask(mesh, 't', `a${n}`, `e${m}`);
    for (let n = 0; n < 20; n++) await mesh.send('a0', '*', { thread: 't' });
    expect(mesh.node.threads.waiting).toBe(3_600);
    for (let n = 0; n < 60; n++) {
      for (let m = 0; m < 60; m++) {
        expect(outcome(await answer(mesh, 't', 'response', `e${m}`, `a${n}`))).toBe('delivered');
      }
    }
    expect(mesh.node.threads.waiting).toBe(0);
  });
});

describe('a broadcast in a thread', () => {
  it('may be answered by exactly those it reached [R4.2 R4.5]', async () => {
    const mesh = await startMesh();
    mesh.join('asker', { tier: 3, sandbox: 'red' });
    mesh.join('inside', { tier: 1, sandbox: 'red' });
    mesh.join('inside2', { tier: 1, sandbox: 'red' });
    mesh.join('outside', { tier: 1 });
    mesh.join('deaf', { tier: 1, sandbox: 'red', listens: false });
    const { broadcast } = await mesh.send('asker', '*', { thread: 't' });
    expect(broadcast).toMatchObject({ delivered: 2, withheld: 0, failed: 1 });
    mesh.listen('deaf');
    mesh.join('late', { tier: 1, sandbox: 'red' });
    const outcomes: Record<string, string> = {};
    for (const id of ['inside', 'inside2', 'outside', 'deaf', 'late']) {
      outcomes[id] = outcome(await answer(mesh, 't', 'response', id));
    }
    expect(outcomes).toEqual({
      inside: 'delivered',
      inside2: 'delivered',
      outside: 'TIER_VIOLATION',
      deaf: 'TIER_VIOLATION',
      late: 'TIER_VIOLATION',
    });
  });

  it('may be answered from other nodes that it reached [R4.2 R4.4 R4.5]', async () => {
    const { here, there } = await startPair();
    here.join('asker', { tier: 3 });
    there.join('expert', { tier: 1 });
    introduce(here, there);
    await here.send('asker', '*', { thread: 't' });
    expect((await there.send('expert', 'asker@here', { type: 'response', thread: 't' })).delivered).toBe(true);
  });

  it('may still be answered by the others after one has answered, however much was said since [R4.2 R4.5]', async () => {
    const mesh = await startTalk({ threads: 8 });
    await mesh.send('asker', '*', { thread: 't' });
    expect(outcome(await answer(mesh, 't', 'response', 'expert'))).toBe('delivered');
    await flood(mesh, 50);
    expect(outcome(await answer(mesh, 't', 'response', 'expert2'))).toBe('delivered');
  });
});

describe('forgetting messages', () => {
  it('keeps the number of remembered threads within its limit [R2.4]', async () => {
    const mesh = await startTalk({ threads: 8 });
    const from = floods;
    await flood(mesh, 100);
    const kept = [];
    for (let n = from; n < floods; n++) if (mesh.node.threads.get(`flood ${n}`).length > 0) kept.push(n);
    expect(kept.length).toBeLessThanOrEqual(8);
    expect(kept).toContain(floods - 1);
  });

  it('keeps the remembered bytes of many threads within their limit [R2.4]', async () => {
    const mesh = await startTalk({ bytes: 100_000 });
    const from = floods;
    await flood(mesh, 100, 10_000);
    let bytes = 0;
    for (let n = from; n < floods; n++) {
      for (const { payload } of mesh.node.threads.get(`flood ${n}`)) bytes += JSON.stringify(payload).length;
    }
    expect(bytes).toBeLessThanOrEqual(120_000);
    expect(bytes).toBeGreaterThan(0);
  });

  it('keeps the remembered bytes of one long thread within their limit [R2.4]', async () => {
    const mesh = await startTalk({ bytes: 100_000 });
    for (let n = 0; n < 100; n++) {
      await mesh.send('asker', 'expert', { type: 'request', thread: 't', payload: 'x'.repeat(10_000) });
    }
    const bytes = mesh.node.threads.get('t').reduce((sum, { payload }) => sum + JSON.stringify(payload).length, 0);
    expect(bytes).toBeLessThanOrEqual(120_000);
  });

  it('forgets a thread that was silent for the longest time allowed [R2.4]', async () => {
    const mesh = await startTalk({ maxAgeMs: 1_000 });
    await ask(mesh, 't');
    await answer(mesh, 't');
    await mesh.runtime.advance(400);
    expect(mesh.node.threads.get('t')).toHaveLength(2);
    await mesh.runtime.advance(600);
    expect(mesh.node.threads.get('t')).toEqual([]);
    expect(outcome(await answer(mesh, 't'))).toBe('TIER_VIOLATION');
  });

  it('forgets a silent thread in time, whatever else is said meanwhile [R2.4]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 999 }), { maxLength: 3 }), async (moments) => {
        const mesh = await startTalk({ maxAgeMs: 1_000 });
        await ask(mesh, 't');
        await answer(mesh, 't');
        let elapsed = 0;
        for (const moment of [...moments].sort((a, b) => a - b)) {
          await mesh.runtime.advance(moment - elapsed);
          elapsed = moment;
          await flood(mesh, 1);
        }
        await mesh.runtime.advance(1_000 - elapsed);
        expect(outcome(await answer(mesh, 't'))).toBe('TIER_VIOLATION');
        expect(mesh.node.threads.get('t')).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  it('forgets messages, not permits to reply [R2.4 R4.5]', async () => {
    const mesh = await startTalk({ threads: 8, maxAgeMs: 1_000 });
    await ask(mesh, 't');
    await flood(mesh, 50);
    await mesh.runtime.advance(5_000);
    expect(mesh.node.threads.get('t')).toEqual([]);
    expect(outcome(await answer(mesh, 't'))).toBe('delivered');
    expect(mesh.node.threads.get('t').map(({ type }) => type)).toEqual(['response']);
  });

  type Step =
    | { do: 'ask'; thread: string; from: string; to: string }
    | { do: 'answer'; thread: string; from: string; to: string; type: A2AMessageType }
    | { do: 'flood'; conversations: number; bytes: number }
    | { do: 'wait'; ms: number };

  const thread = fc.constantFrom(...THREADS);
  const asker = fc.constantFrom('asker', 'asker2');
  const expert = fc.constantFrom('expert', 'expert2');
  const type = fc.constantFrom<A2AMessageType>('response', 'error', 'stream-data', 'stream-end', 'task-accept');
  const arbStep: fc.Arbitrary<Step> = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('ask' as const), thread, from: asker, to: expert }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('answer' as const), thread, from: expert, to: asker, type }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('flood' as const),
        conversations: fc.nat(12),
        bytes: fc.constantFrom(0, 5_000),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(3_000) }) },
  );
  const arbLimits = fc.record({
    threads: fc.integer({ min: 2, max: 12 }),
    bytes: fc.constantFrom(2_000, 20_000, 1_000_000),
    maxAgeMs: fc.constantFrom(200, 2_000, 1_000_000),
    envelopesPerThread: fc.integer({ min: 1, max: 6 }),
  });

  it('never refuses an honest reply to an open question, nor admits a forged one [R2.4 R4.5]', async () => {
    await fc.assert(
      fc.asyncProperty(arbLimits, fc.array(arbStep, { maxLength: 40 }), async (limits, steps) => {
        const mesh = await startTalk(limits);
        const opened = new Set<string>();
        const unanswered = new Set<string>();
        for (const step of steps) {
          if (step.do === 'flood') await flood(mesh, step.conversations, step.bytes);
          else if (step.do === 'wait') await mesh.runtime.advance(step.ms);
          else if (step.do === 'ask') {
            expect(outcome(await ask(mesh, step.thread, step.from, step.to))).toBe('delivered');
            opened.add(`${step.thread} ${step.from} ${step.to}`);
            unanswered.add(`${step.thread} ${step.from} ${step.to}`);
          } else {
            const key = `${step.thread} ${step.to} ${step.from}`;
            const result = outcome(await answer(mesh, step.thread, step.type, step.from, step.to));
            if (unanswered.has(key)) expect(result).toBe('delivered');
            else if (!opened.has(key)) expect(result).toBe('TIER_VIOLATION');
            if (['response', 'error', 'stream-end'].includes(step.type)) unanswered.delete(key);
          }
          expect(mesh.node.threads.waiting).toBe(unanswered.size);
        }
        for (const key of unanswered) {
          const [id, to, from] = key.split(' ');
          expect(outcome(await answer(mesh, id!, 'response', from!, to!))).toBe('delivered');
        }
        expect(mesh.node.threads.waiting).toBe(0);
      }),
      { numRuns: 300 },
    );
  });

  it('never refuses an honest reply to a broadcast that was not answered yet [R2.4 R4.2 R4.5]', async () => {
    const broadcast = fc.record({ do: fc.constant('broadcast' as const), thread, from: asker });
    const arbMixed = fc.oneof({ weight: 3, arbitrary: broadcast }, { weight: 10, arbitrary: arbStep });
    await fc.assert(
      fc.asyncProperty(arbLimits, fc.array(arbMixed, { maxLength: 40 }), async (limits, steps) => {
        const mesh = await startTalk(limits);
        const opened = new Set<string>();
        const unanswered = new Set<string>();
        const open = (step: { thread: string; from: string }, ...responders: string[]) => {
          for (const responder of responders) {
            opened.add(`${step.thread} ${step.from} ${responder}`);
            unanswered.add(`${step.thread} ${step.from} ${responder}`);
          }
        };
        for (const step of steps) {
          if (step.do === 'flood') await flood(mesh, step.conversations, step.bytes);
          else if (step.do === 'wait') await mesh.runtime.advance(step.ms);
          else if (step.do === 'ask') {
            expect(outcome(await ask(mesh, step.thread, step.from, step.to))).toBe('delivered');
            open(step, step.to);
          } else if (step.do === 'broadcast') {
            expect((await mesh.send(step.from, '*', { thread: step.thread })).broadcast).toMatchObject({
              delivered: 5,
            });
            open(step, 'expert', 'expert2');
          } else {
            const key = `${step.thread} ${step.to} ${step.from}`;
            const result = outcome(await answer(mesh, step.thread, step.type, step.from, step.to));
            if (unanswered.has(key)) expect(result).toBe('delivered');
            else if (!opened.has(key)) expect(result).toBe('TIER_VIOLATION');
            if (['response', 'error', 'stream-end'].includes(step.type)) unanswered.delete(key);
          }
        }
        for (const key of unanswered) {
          const [id, to, from] = key.split(' ');
          expect(outcome(await answer(mesh, id!, 'response', from!, to!))).toBe('delivered');
        }
      }),
      { numRuns: 300 },
    );
  });
});
