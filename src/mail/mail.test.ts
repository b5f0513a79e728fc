import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Fate, type Life, World } from '../../test/durable/simulated-mail.js';
import { Rogue, type RogueLink } from '../../test/rogue-peer.js';
import type { Agent } from '../agent/agent.js';
import { audit, journal } from '../mesh/audit/tables.js';
import { SCHEMA_VERSION } from '../mesh/schemas.js';
import { createNode } from '../node/compose.js';
import type { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import type { Table, Write } from '../store/store.js';
import { NO_MAIL } from './no-mail.js';
import { inbox, outbox, receipts, watches } from './tables.js';

const DAY_MS = 86_400_000;
/** More than all retries of a failing handler take together. */
const RETRIES_MS = 20_000;

let world: World;
let a: Life;
let b: Life;
let ann: Agent;
let bob: Agent;
/** What bob's handler got, in order. */
let heard: unknown[];

beforeEach(async () => {
  world = new World();
  [a, b] = (await world.mesh(2)) as [Life, Life];
  ann = a.node.agent({ id: 'ann', tier: 0 });
  bob = b.node.agent({ id: 'bob', tier: 0 });
  heard = [];
  listen(bob);
  await world.until(() => knows(a, 'bob', b) && knows(b, 'ann', a));
});

afterEach(() => world.end());

/** Lets a node refuse mail from other nodes, as one without a store does. */
function refuseMail({ node }: Life) {
  return vi.spyOn(node.mail!, 'take').mockImplementation((...taken) => NO_MAIL.take(...taken));
}

describe('a durable message', () => {
  it('is stored, and resolves, only when it is on disk [DM1]', async () => {
    let release = () => {};
    const disk = new Promise<void>((resolve) => {
      release = resolve;
    });
    a.store.fate = (_call, writes) => (touches(writes, outbox) ? disk : 'pass');
    let result: unknown;
    void ann.send(at('bob', b), 1, { durable: true }).then((found) => {
      result = found;
    });
    await world.runtime.advance(5_000);
    expect({ result, heard }).toEqual({ result: undefined, heard: [] });
    release();
    await world.until(() => result !== undefined);
    expect(result).toEqual({
      delivered: false,
      stored: true,
      path: 'remote',
      targetAgentId: at('bob', b),
      latencyMs: 0,
      messageId: expect.any(String),
    });
    await world.until(() => heard.length === 1);
  });

  it('goes to an agent of the same node, and has a receipt there', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    listen(amy);
    for (const address of ['amy', at('amy', a)]) {
      const { stored, path, messageId } = await world.settled(ann.send(address, address, { durable: true }));
      expect({ stored, path }).toEqual({ stored: true, path: 'local' });
      await over(a, messageId!);
      expect(await statesOf(a, messageId!)).toEqual(['stored', 'arrived', 'read', 'done']);
    }
    expect(heard).toEqual(['amy', at('amy', a)]);
    expect(await world.rows(a, inbox)).toEqual([]);
  });

  it('waits for an absent node, across restarts of both, and then has the same receipt on both sides [DM2 RC2]', async () => {
    world.crash(b);
    const ids = [];
    for (let n = 0; n < 100; n++) ids.push(await sendDurably(n));
    expect(await world.rows(a, outbox)).toHaveLength(100);
    await restart('a');
    await restart('b');
    await world.until(() => heard.length === 100);
    expect(heard).toEqual(Array.from({ length: 100 }, (_, n) => n));
    await atRest();
    for (const id of ids) await expectSameStory(id, ['stored', 'arrived', 'read', 'done']);
  });

  it('can be addressed to a node that was never met in this run', async () => {
    world.crash(b);
    world.crash(a);
    await revive('a');
    expect(a.node.registry.getById(at('bob', b))).toBeUndefined();
    const id = await sendDurably('from the address book');
    await revive('b');
    await world.until(() => heard.length === 1);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'read', 'done']);
  });

  it('waits for an agent that is not there, while its node is', async () => {
    bob.leave();
    const id = await sendDurably('for later');
    await world.until(() => a.events.some(({ receiptState }) => receiptState === 'arrived'));
    expect(await world.rows(a, outbox)).toEqual([]);
    expect((await a.node.mail!.receipt(id)).state).toBe('arrived');
    await world.runtime.advance(60_000);
    bob = b.node.agent({ id: 'bob', tier: 0 });
    listen(bob);
    await world.until(() => heard.length === 1);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'read', 'done']);
  });

  it('waits for an agent of the same node that has left', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    amy.leave();
    const { messageId } = await world.settled(ann.send('amy', 'hello', { durable: true }));
    await restart('a');
    listen(a.node.agent({ id: 'amy', tier: 0 }));
    await over(a, messageId!);
    expect(heard).toEqual(['hello']);
  });

  it('to an unknown address is refused, and nothing is stored', async () => {
    const nobody = `${'0'.repeat(64)}`;
    for (const to of ['nobody', `bob@${nobody}`, `nobody@${b.node.key}`, `nobody@${a.node.key}`]) {
      expect(await codeOf(ann.send(to, 1, { durable: true })), to).toBe('AGENT_NOT_FOUND');
    }
    expect(await world.rows(a, outbox)).toEqual([]);
    expect(await world.rows(a, receipts)).toEqual([]);
  });

  it('is listed without naming a page', async () => {
    await world.settled(world.stop(b));
    const id = await sendDurably(1);
    expect(await world.settled(a.node.mail!.outbox())).toMatchObject([{ id }]);
    expect(await world.settled(a.node.mail!.inbox('ann'))).toEqual([]);
  });

  it('cannot be a broadcast', async () => {
    expect(await codeOf(ann.send('*', 1, { durable: true }))).toBe('INVALID_ENVELOPE');
    expect(await world.rows(a, receipts)).toEqual([]);
  });

  it('to a capability goes to an agent that offers it', async () => {
    bob.update({ capabilities: ['build'] });
    await world.until(() => a.node.registry.findByCapability('build').length === 1);
    const { targetAgentId } = await world.settled(ann.send({ capability: 'build' }, 1, { durable: true }));
    expect(targetAgentId).toBe(at('bob', b));
    await world.until(() => heard.length === 1);
    expect(await codeOf(ann.send({ capability: 'paint' }, 1, { durable: true }))).toBe('CAPABILITY_NOT_FOUND');
  });

  it('needs a node with a store', async () => {
    const runtime = new SimulatedRuntime();
    const node = await createNode({ runtime });
    const [sun, mars] = [node.agent({ id: 'sun', tier: 0 }), node.agent({ id: 'mars', tier: 0 })];
    mars.onNotification(() => {});
    expect(await codeOf(sun.send('mars', 1, { durable: true }))).toBe('STORE_REQUIRED');
    await expect(sun.kept('anything')).rejects.toMatchObject({ code: 'STORE_REQUIRED' });
    expect(node.mail).toBeUndefined();
    await node.stop();
  });

  it('stays in the outbox while the recipient’s node keeps no mail, and goes when it does', async () => {
    refuseMail(b);
    const id = await sendDurably(1);
    await world.runtime.advance(30_000);
    expect((await a.node.mail!.receipt(id)).state).toBe('stored');
    expect(await world.rows(a, outbox)).toHaveLength(1);
    await restart('b');
    await world.until(() => heard.length === 1);
  });

  it('carries a payload of the largest size, and any JSON value', async () => {
    const large = 'x'.repeat(1_048_576 - 2);
    const odd = { text: 'half \ud83d of a pair', '': [null, 0.1, -0, 1e308, '\u0000\u2028"\\'], deep: { deeper: {} } };
    await sendDurably(large);
    await sendDurably(odd);
    await world.until(() => heard.length === 2);
    expect(heard[0] === large).toBe(true);
    expect(heard[1]).toEqual(JSON.parse(JSON.stringify(odd)));
    expect(b.errors).toEqual([]);
    expect(await codeOf(ann.send(at('bob', b), `${large}x`, { durable: true }))).toBe('PAYLOAD_TOO_LARGE');
  });

  it('is refused when the outbox is full, and accepted when there is room again [DM6]', async () => {
    const { key } = b.node;
    await fillOutbox('c', 99_999);
    world.crash(b);
    await world.settled(ann.send(`bob@${key}`, 'the last', { durable: true }));
    expect(await codeOf(ann.send(`bob@${key}`, 'one too many', { durable: true }))).toBe('QUEUE_FULL');
    // Mail within the node is not in the outbox.
    listen(a.node.agent({ id: 'amy', tier: 0 }));
    await world.settled(ann.send('amy', 'here', { durable: true }));
    await revive('b');
    await world.until(() => heard.includes('the last'));
    await world.runtime.advance(1_000);
    await world.settled(ann.send(`bob@${key}`, 'another', { durable: true }));
    await world.until(() => heard.includes('another'));
    expect(heard).toEqual(['here', 'the last', 'another']);
  });

  it('counts once in the outbox, however often its end is reported', async () => {
    const { key } = b.node;
    await fillOutbox('c', 99_998);
    await world.connected();
    for (const n of [1, 2]) await world.settled(ann.send(`bob@${key}`, n, { durable: true }));
    await world.until(() => heard.length === 2);
    await world.runtime.advance(1_000);
    expect(await a.store.inner.count(outbox)).toBe(99_998);
    world.crash(b);
    const codes = [];
    for (let n = 0; n < 4; n++) {
      codes.push(await world.settled(ann.send(`bob@${key}`, n, { durable: true })).then(() => 'stored', codeOfError));
    }
    expect(codes).toEqual(['stored', 'stored', 'QUEUE_FULL', 'QUEUE_FULL']);
  });

  it('that could not be written does not take a place in the outbox', async () => {
    const address = at('bob', b);
    await fillOutbox('c', 99_990);
    world.crash(b);
    a.store.fate = (_call, writes) => (touches(writes, outbox) ? 'fail' : 'pass');
    for (let n = 0; n < 20; n++) expect(await codeOf(ann.send(address, n, { durable: true }))).toBe('STORE_FAILED');
    a.store.fate = () => 'pass';
    await sendDurably('there is room');
  });

  it('is one of more than can be on their way at once, and all arrive in order', async () => {
    const count = 1_050;
    world.crash(b);
    const sends = Array.from({ length: count }, (_, n) => ann.send(at('bob', b), n, { durable: true }));
    await world.settled(Promise.all(sends));
    await revive('b');
    await world.until(() => heard.length === count);
    expect(heard).toEqual(Array.from({ length: count }, (_, n) => n));
    await atRest();
  });

  it('is sent, however many messages before it expired on their way', async () => {
    const refusing = refuseMail(b);
    const options = { durable: true, ttlMs: 2_000 };
    const sends = Array.from({ length: 1_000 }, () => ann.send(at('bob', b), 'too late', options));
    await world.settled(Promise.all(sends));
    await world.runtime.advance(5_000);
    expect(await world.rows(a, outbox)).toEqual([]);
    refusing.mockRestore();
    await sendDurably('in time');
    await world.runtime.advance(60_000);
    expect(heard).toEqual(['in time']);
  });

  it('that arrives after both sides restarted is not dropped as a duplicate', async () => {
    for (let round = 0; round < 4; round++) {
      for (let n = 0; n < round; n++) await sendDurably(`${round}.${n}`);
      await world.until(() => heard.length === (round * (round + 1)) / 2);
      await atRest();
      expect(await world.rows(a, outbox)).toEqual([]);
      await restart('a');
      await restart('b');
    }
    await sendDurably('last');
    await world.until(() => heard.includes('last'));
    expect(heard).toEqual(['1.0', '2.0', '2.1', '3.0', '3.1', '3.2', 'last']);
  });

  it('of a node with a new store is taken, although its numbers were used before', async () => {
    for (const n of [1, 2, 3]) await sendDurably(n);
    await world.until(() => heard.length === 3);
    await atRest();
    world.crash(a);
    world.stations[0]!.disk = undefined;
    await revive('a');
    await world.until(() => knows(a, 'bob', b));
    await sendDurably('from an empty store');
    await world.until(() => heard.length === 4);
  });

  it('is written to the journal of both nodes', async () => {
    const id = await sendDurably(1);
    await world.until(() => heard.length === 1);
    for (const { node } of [a, b]) {
      const rows = (await node.records!.journal.search({})).filter(({ envelopeId }) => envelopeId === id);
      expect(rows.map(({ code }) => code)).toEqual([null]);
      expect(node.records!.replay(rows)).toEqual({ asked: 1, differences: [] });
    }
  });

  it('that crosses tiers is in the audit log [RE1]', async () => {
    const low = b.node.agent({ id: 'low', tier: 3 });
    listen(low);
    await world.until(() => knows(a, 'low', b));
    await world.settled(ann.send(at('low', b), 'plain'));
    await world.settled(ann.send(at('low', b), 'kept', { durable: true }));
    await world.until(() => heard.length === 2);
    await world.runtime.advance(1_000);
    for (const life of [a, b]) {
      const audited = (await world.rows(life, audit)).map(({ event }) => JSON.parse(event));
      expect(
        audited.filter(({ type }) => type === 'tier-audit'),
        life.name,
      ).toHaveLength(2);
    }
  });
});

describe('the name of a recipient', () => {
  it('is enough once its node’s cards are gone, if only one node had such an agent [T-C7]', async () => {
    await b.node.stop();
    await world.until(() => a.node.registry.getRemoteCards().length === 0);
    const sent = await world.settled(ann.send('bob', 'later', { durable: true }));
    expect(sent).toMatchObject({ stored: true, targetAgentId: at('bob', b) });
    const unknown = ann.send('nobody', 1, { durable: true });
    await expect(world.settled(unknown)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
  });

  it('with half a character in the thread’s id is refused as input, not as a failing store [T-G1]', async () => {
    const sent = ann.send(at('bob', b), 1, { durable: true, thread: 'half \ud83d' });
    await expect(world.settled(sent)).rejects.toMatchObject({ code: 'INVALID_ENVELOPE', retryable: false });
    await world.settled(ann.send(at('bob', b), 1, { durable: true, thread: 'whole \ud83d\ude00' }));
  });
});

describe('policy', () => {
  const CASES = ['TIER_VIOLATION', 'SANDBOX_VIOLATION', 'ESCALATION_REQUIRED'] as const;

  it.each(CASES)('is asked at the sender: %s', async (code) => {
    const { sender, type } = await forbidden(code);
    forbid(a, code);
    forbid(b, code);
    expect(await codeOf(sender.send(at('bob', b), 1, { durable: true, type }))).toBe(code);
    expect(await world.rows(a, outbox)).toEqual([]);
    expect(await world.rows(a, receipts)).toEqual([]);
  });

  it.each(CASES)('is asked again at the receiver, and both sides are told: %s [DM7]', async (code) => {
    const { sender, type } = await forbidden(code);
    allow(a, code);
    allow(b, code);
    world.crash(b);
    const { messageId } = await world.settled(sender.send(at('bob', b), 1, { durable: true, type }));
    await revive('b');
    forbid(b, code);
    await over(a, messageId!);
    await atRest();
    await expectSameStory(messageId!, ['stored', 'refused']);
    const { story } = await a.node.mail!.receipt(messageId!);
    expect(story.at(-1)!.reason).toMatch(new RegExp(`^${code}: `));
    expect(heard).toEqual([]);
    for (const life of [a, b]) {
      expect(await world.rows(life, outbox)).toEqual([]);
      expect(await world.rows(life, inbox)).toEqual([]);
    }
    expect(b.events.filter(({ type: kind }) => kind === 'security')).toMatchObject([{ code }]);
    // It stays refused, whatever the rules become.
    allow(b, code);
    await restart('a');
    await restart('b');
    await world.runtime.advance(30_000);
    expect(heard).toEqual([]);
    await expectSameStory(messageId!, ['stored', 'refused']);
  });

  it('is asked about what a commit sends', async () => {
    const low = a.node.agent({ id: 'low', tier: 1 });
    const deep = b.node.agent({ id: 'deep', tier: 3 });
    listen(deep);
    await world.until(() => knows(a, 'deep', b));
    const thrown: unknown[] = [];
    low.onNotification(async (message) => {
      await message.commit({ keep: { done: true }, send: [{ to: at('deep', b), payload: 1 }] }).catch((error) => {
        thrown.push(error.code);
        throw error;
      });
    });
    const { messageId } = await world.settled(ann.send('low', 1, { durable: true }));
    await over(a, messageId!);
    expect(thrown).toEqual(Array(5).fill('TIER_VIOLATION'));
    expect((await a.node.mail!.receipt(messageId!)).state).toBe('undeliverable');
    expect(await low.kept('done')).toBeUndefined();
    expect(heard).toEqual([]);
  });

  it('allows a durable answer to a durable question, also after both sides restarted [DM7]', async () => {
    // L3 may ask L1; L1 may not open a conversation with L3.
    let carl = b.node.agent({ id: 'carl', tier: 1 });
    let low = a.node.agent({ id: 'low', tier: 3 });
    await world.until(() => knows(a, 'carl', b) && knows(b, 'low', a));
    carl.leave();
    const options = { durable: true, type: 'request', thread: 'question' } as const;
    const { messageId } = await world.settled(low.send(at('carl', b), 'why?', options));
    await world.until(() => a.events.some(({ receiptState }) => receiptState === 'arrived'));
    await restart('a');
    await restart('b');
    low = a.node.agent({ id: 'low', tier: 3 });
    low.onMessage(({ type, payload, thread }) => void heard.push({ type, payload, thread }));
    carl = b.node.agent({ id: 'carl', tier: 1 });
    carl.onRequest(({ payload }) => `${payload} because`);
    await world.until(() => heard.length === 1);
    expect(heard).toEqual([{ type: 'response', payload: 'why? because', thread: 'question' }]);
    await atRest();
    await expectSameStory(messageId!, ['stored', 'arrived', 'read', 'replied']);
    // Which gives it no right to anything else.
    expect(await codeOf(carl.send(at('low', a), 1, { durable: true }))).toBe('TIER_VIOLATION');
    const other = { durable: true, type: 'response', thread: 'another' } as const;
    expect(await codeOf(carl.send(at('low', a), 1, other))).toBe('TIER_VIOLATION');
  });
});

describe('a handler', () => {
  it('gets the mail of each sender in order, one at a time [DM5]', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    const under = new Map<string, number>();
    bob.onNotification(async ({ payload, from }) => {
      under.set(from, (under.get(from) ?? 0) + 1);
      expect(under.get(from)).toBe(1);
      await b.runtime.pause(((payload as number) * 37) % 100);
      under.set(from, 0);
      heard.push(`${from.split('@')[0]} ${payload}`);
    });
    for (let n = 0; n < 30; n++) {
      void ann.send(at('bob', b), n, { durable: true });
      void amy.send(at('bob', b), n, { durable: true });
    }
    await world.until(() => heard.length === 60);
    for (const name of ['ann', 'amy']) {
      const numbers = heard
        .filter((line) => String(line).startsWith(name))
        .map((line) => Number(String(line).slice(4)));
      expect(numbers).toEqual(Array.from({ length: 30 }, (_, n) => n));
    }
  });

  it('that throws is called again after longer and longer waits, with the same id, and then given up', async () => {
    const calls: { at: number; id: string; redelivered: boolean }[] = [];
    bob.onNotification((message) => {
      calls.push({ at: b.runtime.now(), id: message.envelope.id, redelivered: message.redelivered });
      throw new Error('no such luck');
    });
    const id = await sendDurably(1);
    await over(a, id);
    expect(calls.map(({ at: time }) => time - calls[0]!.at)).toEqual([0, 1_000, 3_000, 7_000, 15_000]);
    expect(calls.map(({ redelivered }) => redelivered)).toEqual([false, true, true, true, true]);
    expect(new Set(calls.map((call) => call.id))).toEqual(new Set([id]));
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'undeliverable']);
    const { story } = await a.node.mail!.receipt(id);
    expect(story.at(-1)!.reason).toBe('its handler failed 5 times: no such luck');
    await world.runtime.advance(60_000);
    expect(calls).toHaveLength(5);
  });

  it('that fails for one sender goes on for the others, and then for that one', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    await world.until(() => knows(b, 'amy', a));
    bob.onNotification(({ payload, from }) => {
      if (payload === 'bad') throw new Error('no');
      heard.push(`${from.split('@')[0]} ${payload} ${b.runtime.now() - began}`);
    });
    const began = b.runtime.now();
    await sendDurably('bad');
    await sendDurably('good');
    for (const n of [1, 2, 3]) await world.settled(amy.send(at('bob', b), n, { durable: true }));
    await world.until(() => heard.length === 4);
    const times = heard.map((line) => String(line).split(' '));
    expect(times.map(([name, what]) => `${name} ${what}`)).toEqual(['amy 1', 'amy 2', 'amy 3', 'ann good']);
    expect(Number(times[2]![2])).toBeLessThan(1_000);
    expect(Number(times[3]![2])).toBeGreaterThanOrEqual(15_000);
  });

  it('sees that a message came before, whenever it may have [DM3]', async () => {
    const seen: string[] = [];
    const note = (agent: Agent, life: Life) =>
      agent.onNotification(async (message) => {
        seen.push(`${message.payload} ${message.redelivered}`);
        if (message.payload === 'slow') await life.runtime.pause(10_000);
      });
    note(bob, b);
    await sendDurably('quick');
    await sendDurably('slow');
    await sendDurably('waits');
    await world.until(() => seen.length === 2);
    world.crash(b);
    await revive('b', note);
    await world.until(() => seen.length === 4);
    // The last one was not delivered before, but the node cannot know that.
    expect(seen).toEqual(['quick false', 'slow false', 'slow true', 'waits true']);
    await sendDurably('new');
    await world.until(() => seen.includes('new false'));
  });

  it('sees that a message came before, also when its agent left and came back [DM3]', async () => {
    const seen: boolean[] = [];
    const note = (agent: Agent) =>
      agent.onNotification(async (message) => {
        seen.push(message.redelivered);
        await b.runtime.pause(1_000);
      });
    note(bob);
    await sendDurably(1);
    await world.until(() => seen.length === 1);
    bob.leave();
    note(b.node.agent({ id: 'bob', tier: 0 }));
    await world.until(() => seen.length === 2);
    expect(seen).toEqual([false, true]);
  });

  it('is not called any more once its agent has left', async () => {
    await sendDurably(1);
    await world.until(() => heard.length === 1);
    bob.leave();
    await sendDurably(2);
    await world.runtime.advance(5_000);
    expect(heard).toEqual([1]);
    expect(await world.rows(b, inbox)).toHaveLength(1);
  });

  it('that is attached late gets the mail that waited for it', async () => {
    bob.leave();
    const id = await sendDurably('patience');
    await world.runtime.advance(1_000);
    bob = b.node.agent({ id: 'bob', tier: 0 });
    await world.runtime.advance(RETRIES_MS);
    listen(bob);
    await world.runtime.advance(RETRIES_MS);
    expect(heard).toEqual(['patience']);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it('of another kind leaves a message in the inbox, unread, and a later one for it gets it once [RC2]', async () => {
    bob.leave();
    bob = b.node.agent({ id: 'bob', tier: 0 }).onRequest(({ payload }) => payload);
    const id = await sendDurably('please stop');
    await world.runtime.advance(60_000);
    expect((await a.node.mail!.receipt(id)).state).toBe('arrived');
    expect(await world.settled(ann.request(at('bob', b), 7))).toBe(7);
    const seen: unknown[] = [];
    bob.onNotification(({ payload, redelivered }) => void seen.push([payload, redelivered]));
    await world.runtime.advance(1_000);
    expect(seen).toEqual([['please stop', false]]);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it('may fail with as long a message as it likes', async () => {
    bob.onNotification(() => {
      throw new Error('x'.repeat(5_000));
    });
    const id = await sendDurably(1);
    await world.runtime.advance(RETRIES_MS);
    expect((await b.node.mail!.receipt(id)).state).toBe('undeliverable');
    await world.runtime.advance(60_000);
    expect(a.events.filter(({ type }) => type === 'security')).toEqual([]);
    expect((await a.node.mail!.receipt(id)).state).toBe('undeliverable');
    expect(a.node.network.peers.reachable(b.node.key)).toBe(true);
  });

  it('may fail with a message that is cut in the middle of a character', async () => {
    const uncaught = await withoutUncaught(async () => {
      bob.onNotification(({ payload }) => {
        if (payload === 'bad') throw new Error('🚀'.slice(0, 1));
        heard.push(payload);
      });
      const id = await sendDurably('bad');
      await sendDurably('good');
      await world.runtime.advance(2 * RETRIES_MS);
      expect((await b.node.mail!.receipt(id)).state).toBe('undeliverable');
      expect(heard).toEqual(['good']);
    });
    expect(uncaught).toEqual([]);
  });
});

describe('a commit', () => {
  it('keeps and sends, once, with the end of the message', async () => {
    listen(ann);
    bob.onNotification(async (message) => {
      const sum = ((await bob.kept<number>('sum')) ?? 0) + (message.payload as number);
      await message.commit({ keep: { sum }, send: [{ to: message.from, payload: { sum }, thread: 't' }] });
    });
    const ids = [];
    for (const n of [1, 2, 3]) ids.push(await sendDurably(n));
    await world.until(() => heard.length === 3);
    expect(heard).toEqual([{ sum: 1 }, { sum: 3 }, { sum: 6 }]);
    expect(await bob.kept('sum')).toBe(6);
    await atRest();
    for (const id of ids) expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it('deletes values that are undefined, and keeps agents apart', async () => {
    const eve = b.node.agent({ id: 'eve', tier: 0 });
    for (const agent of [bob, eve]) {
      agent.onNotification((message) => message.commit({ keep: message.payload as Record<string, unknown> }));
    }
    await world.until(() => knows(a, 'eve', b));
    bob.onNotification((message) =>
      message.commit({ keep: message.payload === 0 ? { x: undefined } : { x: 1, y: null } }),
    );
    await sendDurably(1);
    await world.settled(ann.send(at('eve', b), { x: 'eve’s' }, { durable: true }));
    await atRest();
    expect([await bob.kept('x'), await bob.kept('y'), await eve.kept('x')]).toEqual([1, null, 'eve’s']);
    await sendDurably(0);
    await atRest();
    expect([await bob.kept('x'), await bob.kept('y'), await eve.kept('x')]).toEqual([undefined, null, 'eve’s']);
    await restart('b');
    expect(await bob.kept('y')).toBe(null);
  });

  it('of a message that is not durable is refused', async () => {
    const codes: unknown[] = [];
    bob.onNotification((message) => message.commit().catch((error) => void codes.push(error.code)));
    await world.settled(ann.send(at('bob', b), 1));
    await world.until(() => codes.length === 1);
    expect(codes).toEqual(['INVALID_TRANSITION']);
  });

  it('can be made once only', async () => {
    const codes: unknown[] = [];
    bob.onNotification(async (message) => {
      await message.commit({ keep: { n: 1 } });
      await message.commit({ keep: { n: 2 } }).catch((error) => codes.push(error.code));
    });
    const id = await sendDurably(1);
    await over(a, id);
    expect(codes).toEqual(['INVALID_TRANSITION']);
    expect(await bob.kept('n')).toBe(1);
  });

  it('can be made once only, also at the same time', async () => {
    const outcomes: unknown[] = [];
    bob.onNotification(async (message) => {
      const commits = [1, 2].map((n) => message.commit({ keep: { [`n${n}`]: n } }));
      outcomes.push(...(await Promise.allSettled(commits)).map(({ status }) => status));
    });
    const id = await sendDurably(1);
    await over(a, id);
    expect(outcomes).toEqual(['fulfilled', 'rejected']);
    expect([await bob.kept('n1'), await bob.kept('n2')]).toEqual([1, undefined]);
  });

  it('takes effect once, although its handler fails while it is under way', async () => {
    let count = 0;
    bob.onNotification(async (message) => {
      const n = ((await bob.kept<number>('n')) ?? 0) + 1;
      const commit = message.commit({ keep: { n } });
      count++;
      // As by `Promise.race` with a deadline.
      if (count === 1) throw new Error('too slow');
      await commit.catch(() => {});
    });
    const id = await sendDurably(1);
    await over(a, id);
    await world.runtime.advance(RETRIES_MS);
    expect(await bob.kept('n')).toBe(1);
  });

  it('takes effect once, although its agent left meanwhile and came back', async () => {
    const count = (agent: Agent) =>
      agent.onNotification(async (message) => {
        await b.runtime.pause(1_000);
        const n = ((await agent.kept<number>('n')) ?? 0) + 1;
        await message.commit({ keep: { n } });
      });
    count(bob);
    await sendDurably(1);
    await world.runtime.advance(500);
    bob.leave();
    bob = b.node.agent({ id: 'bob', tier: 0 });
    count(bob);
    await world.runtime.advance(RETRIES_MS);
    expect(await bob.kept('n')).toBe(1);
  });

  it('that sends to an unknown agent changes nothing, and the message is redelivered', async () => {
    const codes: unknown[] = [];
    bob.onNotification(async (message) => {
      const send = codes.length < 2 ? [{ to: 'nobody', payload: 1 }] : [];
      await message.commit({ keep: { tries: codes.length }, send }).catch((error) => {
        codes.push(error.code);
        throw error;
      });
    });
    const id = await sendDurably(1);
    await over(a, id);
    expect(codes).toEqual(['AGENT_NOT_FOUND', 'AGENT_NOT_FOUND']);
    expect(await bob.kept('tries')).toBe(2);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it.each([
    ['a number too large for JSON', 10n],
    ['something that contains itself', circular()],
  ])('that keeps %s is refused with a typed error, and the message comes again', async (_what, value) => {
    const codes: unknown[] = [];
    bob.onNotification(async (message) => {
      const keep = codes.length === 0 ? { value } : { value: 'plain' };
      await message.commit({ keep }).catch((error) => {
        codes.push(error.code);
        throw error;
      });
    });
    const id = await sendDurably(1);
    await over(a, id);
    expect(codes).toEqual([expect.any(String)]);
    expect(await bob.kept('value')).toBe('plain');
  });

  it.each(['crash before', 'crash after'] as const)(
    'takes effect exactly once, and in order, wherever either process crashes: %s each call to its disk [DM4]',
    { timeout: 120_000 },
    async (fate) => {
      const calls = await countCalls();
      const step = process.env.ECLIPTIC_SOAK === '1' ? 1 : 3;
      const faults: string[] = [];
      for (const side of ['a', 'b'] as const) {
        for (let call = 1 + (fate === 'crash after' ? 1 : 0); call <= calls[side] + 5; call += step) {
          faults.push(...(await ledger(side, call, fate)).map((fault) => `${side}, call ${call}: ${fault}`));
        }
      }
      expect(faults).toEqual([]);
    },
  );
});

describe('a store that fails', () => {
  it('rejects the send, keeps the node serving, and loses nothing afterwards [DM8]', async () => {
    a.store.inner.failWith('the disk is full');
    expect(await codeOf(ann.send(at('bob', b), 'lost', { durable: true }))).toBe('STORE_FAILED');
    await world.settled(ann.send(at('bob', b), 'plain'));
    expect(heard).toEqual(['plain']);
    await world.runtime.advance(5_000);
    a.store.inner.failWith(undefined);
    await sendDurably('kept');
    await world.until(() => heard.length === 2);
    await restart('a');
    await restart('b');
    await sendDurably('after');
    await world.until(() => heard.length === 3);
    expect(heard).toEqual(['plain', 'kept', 'after']);
  });

  it('at the recipient for a moment loses nothing, once the nodes meet again', async () => {
    b.store.inner.failWith('the disk is full');
    for (const n of [1, 2, 3]) await sendDurably(n);
    await world.runtime.advance(5_000);
    expect(heard).toEqual([]);
    b.store.inner.failWith(undefined);
    await restart('a');
    await world.until(() => heard.length === 3);
    expect(heard).toEqual([1, 2, 3]);
    await atRest();
  });

  it('at the recipient for a moment delays mail by no more than a while', async () => {
    b.store.inner.failWith('the disk is full');
    const id = await sendDurably(1);
    await world.runtime.advance(5_000);
    b.store.inner.failWith(undefined);
    await sendDurably(2);
    await world.runtime.advance(600_000);
    expect(heard).toEqual([1, 2]);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'read', 'done']);
  });

  it('at the sender for a moment delays the receipt by no more than a while', async () => {
    let blocked = true;
    a.store.fate = (_call, writes) =>
      blocked && touches(writes, receipts) && !touches(writes, outbox) ? 'fail' : 'pass';
    const id = await sendDurably(1);
    await world.until(() => heard.length === 1);
    await world.runtime.advance(1_000);
    blocked = false;
    await world.runtime.advance(600_000);
    expect(await world.rows(a, outbox)).toEqual([]);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it('at the sender when the nodes meet delays mail by no more than a while', async () => {
    world.crash(b);
    await sendDurably(1);
    await revive('b');
    a.store.fate = (_call, writes) => (writes === undefined ? 'fail' : 'pass');
    await world.connected();
    await world.runtime.advance(1_000);
    a.store.fate = () => 'pass';
    await world.runtime.advance(600_000);
    expect(heard).toEqual([1]);
  });

  it('for one message of several loses none of them and keeps their order', async () => {
    world.crash(b);
    for (const n of [1, 2, 3]) await sendDurably(n);
    await revive('b');
    failOnce(b, inbox);
    await world.runtime.advance(5_000);
    await restart('a');
    await world.runtime.advance(10_000);
    expect(heard).toEqual([1, 2, 3]);
  });

  it('for one message of several, before the process ends, loses none of them', async () => {
    world.crash(b);
    for (const n of [1, 2]) await sendDurably(n);
    await revive('b');
    failOnce(b, inbox);
    await world.runtime.advance(5_000);
    await restart('b');
    await world.runtime.advance(60_000);
    expect([...heard].sort()).toEqual([1, 2]);
    expect(await world.rows(a, outbox)).toEqual([]);
  });

  it('when an agent appears keeps its mail in order', async () => {
    bob.leave();
    await sendDurably(1);
    await sendDurably(2);
    await world.runtime.advance(1_000);
    b.store.inner.failWith('the disk is gone');
    bob = b.node.agent({ id: 'bob', tier: 0 });
    listen(bob);
    await world.runtime.advance(1_000);
    b.store.inner.failWith(undefined);
    await sendDurably(3);
    await world.runtime.advance(RETRIES_MS);
    expect(heard).toEqual([1, 2, 3]);
  });

  it('for longer than a message is tried again holds up its sender’s mail no longer than that', async () => {
    const uncaught = await withoutUncaught(async () => {
      const done: unknown[] = [];
      bob.onNotification(async (message) => {
        await message.commit();
        done.push(message.payload);
      });
      bob.leave();
      await sendDurably(1);
      await sendDurably(2);
      await world.runtime.advance(1_000);
      bob = b.node.agent({ id: 'bob', tier: 0 });
      bob.onNotification(async (message) => {
        await message.commit();
        done.push(message.payload);
      });
      b.store.fate = (_call, writes) => (writes && !touches(writes, journal) ? 'fail' : 'pass');
      await world.runtime.advance(2 * RETRIES_MS);
      b.store.fate = () => 'pass';
      await world.runtime.advance(600_000);
      expect(done).toEqual([1, 2]);
    });
    expect(uncaught).toEqual([]);
  });

  it('while a handler’s message ends does not leave its receipt unfinished', async () => {
    failOnce(b, inbox, 'delete');
    const id = await sendDurably(1);
    await world.until(() => heard.length === 1);
    await world.runtime.advance(600_000);
    expect((await b.node.mail!.receipt(id)).state).toBe('done');
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
    expect(await world.rows(b, inbox)).toEqual([]);
  });

  it('while a handler’s message ends causes a redelivery after a restart, marked as such', async () => {
    const seen: unknown[] = [];
    const note = (agent: Agent) =>
      agent.onNotification((message) => void seen.push([message.payload, message.redelivered]));
    note(bob);
    b.store.fate = (_call, writes) =>
      writes?.some((write) => write.kind === 'delete' && write.table === inbox) ? 'fail' : 'pass';
    const id = await sendDurably(1);
    await world.until(() => seen.length === 1);
    await world.runtime.advance(1_000);
    world.crash(b);
    await revive('b', note);
    await over(a, id);
    expect(seen).toEqual([
      [1, false],
      [1, true],
    ]);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
  });

  it('or is slow leaves nothing running when the node has stopped', async () => {
    let release = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    a.store.fate = (_call, writes) => (writes === undefined ? slow : 'pass');
    await world.runtime.advance(1_500);
    const stopped = a.node.stop();
    await world.runtime.advance(100);
    release();
    await world.settled(stopped);
    await world.runtime.advance(10_000);
    expect(a.runtime.pending).toBe(0);
  });
});

describe('a time to live', () => {
  it('runs out in the outbox, and the recipient’s node never sees the message', async () => {
    world.crash(b);
    const id = await sendDurably(1, { ttlMs: 5_000 });
    const lasting = await sendDurably(2);
    await world.runtime.advance(4_900);
    expect((await a.node.mail!.receipt(id)).state).toBe('stored');
    await world.runtime.advance(1_500);
    expect(await a.node.mail!.receipt(id)).toMatchObject({ state: 'expired', over: true });
    expect((await world.rows(a, outbox)).map((row) => row.id)).toEqual([lasting]);
    await revive('b');
    await world.until(() => heard.length === 1);
    await atRest();
    expect(heard).toEqual([2]);
    await expect(b.node.mail!.receipt(id)).rejects.toMatchObject({ code: 'RECEIPT_NOT_FOUND' });
  });

  it('runs out in the inbox, and both sides end alike', async () => {
    bob.leave();
    const id = await sendDurably(1, { ttlMs: 5_000 });
    await over(a, id);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'expired']);
    listen(b.node.agent({ id: 'bob', tier: 0 }));
    await world.runtime.advance(5_000);
    expect(heard).toEqual([]);
  });

  it('is a week where none is given, whatever happens meanwhile', async () => {
    world.crash(b);
    const id = await sendDurably(1);
    world.crash(a);
    await world.runtime.advance(7 * DAY_MS - 5_000);
    await revive('a');
    await world.runtime.advance(2_000);
    expect((await a.node.mail!.receipt(id)).state).toBe('stored');
    await world.runtime.advance(5_000);
    expect((await a.node.mail!.receipt(id)).state).toBe('expired');
  });

  it('that runs out while the handler works does not undo the work', async () => {
    bob.onNotification(async (message) => {
      await b.runtime.pause(5_000);
      await message.commit({ keep: { done: true } });
    });
    const id = await sendDurably(1, { ttlMs: 2_000 });
    await world.runtime.advance(10_000);
    await atRest();
    expect(await bob.kept('done')).toBe(true);
    expect((await a.node.mail!.receipt(id)).state).toBe('done');
    expect((await b.node.mail!.receipt(id)).state).toBe('done');
  });

  it('that runs out on both sides is the same on both sides [RC4]', async () => {
    bob.leave();
    // It arrives, but its sender does not hear so.
    b.store.fate = (_call, writes) => {
      if (touches(writes, inbox)) world.nodes.network.cut(a.node.key, b.node.key);
      return 'pass';
    };
    const id = await sendDurably(1, { ttlMs: 5_000 });
    await world.until(() => b.events.some(({ receiptState }) => receiptState === 'arrived'));
    await world.runtime.advance(10_000);
    world.nodes.network.healAll();
    await world.runtime.advance(60_000);
    await atRest();
    expect((await a.node.mail!.receipt(id)).state).toBe('expired');
    await expectSameStory(id, ['stored', 'arrived', 'expired']);
  });

  it('that has run out when the message arrives ends as expired', async () => {
    world.crash(b);
    await world.runtime.advance(500);
    const id = await sendDurably(1, { ttlMs: 60_000 });
    await world.runtime.advance(59_000);
    a.store.fate = (_call, writes) =>
      writes?.some((write) => write.kind === 'delete') ? new Promise(() => {}) : 'pass';
    await world.runtime.advance(1_500);
    await revive('b');
    await over(b, id);
    expect((await b.node.mail!.receipt(id)).state).toBe('expired');
  });
});

describe('a durable request', () => {
  it('is answered durably, also if the recipient appears later', async () => {
    ann.onMessage(({ type, payload, thread }) => void heard.push([type, payload, thread]));
    bob.onRequest(({ payload }) => (payload as number) * 2);
    const options = { durable: true, type: 'request', thread: 'sum' } as const;
    const { messageId } = await world.settled(ann.send(at('bob', b), 21, options));
    await world.until(() => heard.length === 1);
    expect(heard).toEqual([['response', 42, 'sum']]);
    await atRest();
    await expectSameStory(messageId!, ['stored', 'arrived', 'read', 'replied']);
  });

  it('is answered although the asker is away when the answer is found', async () => {
    bob.onRequest(async ({ payload }) => {
      await b.runtime.pause(5_000);
      return (payload as number) * 2;
    });
    const options = { durable: true, type: 'request', thread: 'sum' } as const;
    const { messageId } = await world.settled(ann.send(at('bob', b), 21, options));
    await world.runtime.advance(1_000);
    world.crash(a);
    await world.runtime.advance(100_000);
    await revive('a', (agent) => agent.onMessage(({ payload }) => void heard.push(payload)));
    await world.until(() => heard.length === 1);
    expect(heard).toEqual([42]);
    await atRest();
    await expectSameStory(messageId!, ['stored', 'arrived', 'surfaced', 'read', 'replied']);
  });

  it('has one answer, although its handler failed at first', async () => {
    ann.onMessage(({ type, payload }) => void heard.push([type, payload]));
    let tries = 0;
    bob.onRequest(() => {
      if (++tries < 3) throw new Error('not yet');
      return 'now';
    });
    const options = { durable: true, type: 'request', thread: 'patience' } as const;
    const { messageId } = await world.settled(ann.send(at('bob', b), 1, options));
    await over(a, messageId!);
    await world.runtime.advance(1_000);
    expect(tries).toBe(3);
    expect(heard).toEqual([['response', 'now']]);
  });

  it('whose handler always fails is answered with the error, and ends as undeliverable', async () => {
    ann.onMessage(({ type, payload }) => void heard.push([type, (payload as { message: string }).message]));
    bob.onRequest(() => {
      throw new Error('never');
    });
    const options = { durable: true, type: 'request', thread: 'hopeless' } as const;
    const { messageId } = await world.settled(ann.send(at('bob', b), 1, options));
    await over(a, messageId!);
    expect((await a.node.mail!.receipt(messageId!)).state).toBe('undeliverable');
    expect(heard[0]).toEqual(['error', 'never']);
  });

  it('is not called replied when the answer could not be kept', async () => {
    ann.onMessage(({ payload }) => void heard.push(payload));
    let failing = true;
    b.store.fate = (_call, writes) => (failing && touches(writes, outbox) ? 'fail' : 'pass');
    bob.onRequest(() => 'the answer');
    const options = { durable: true, type: 'request', thread: 'lost' } as const;
    const { messageId } = await world.settled(ann.send(at('bob', b), 1, options));
    await world.runtime.advance(500);
    failing = false;
    await world.runtime.advance(RETRIES_MS);
    expect({ heard, state: (await a.node.mail!.receipt(messageId!)).state }).toEqual({
      heard: ['the answer'],
      state: 'replied',
    });
  });
});

describe('a message that must be read in time', () => {
  it('tells its sender once when it is not, also across a restart [RC3]', async () => {
    const notices: unknown[] = [];
    const watch = (agent: Agent) => agent.onUnread(({ messageId, state }) => notices.push([messageId, state]));
    watch(ann);
    world.crash(b);
    const late = await sendDurably(1, { readWithinMs: 5_000 });
    await world.runtime.advance(7_000);
    expect(notices).toEqual([[late, 'stored']]);
    const second = await sendDurably(2, { readWithinMs: 5_000 });
    world.crash(a);
    await world.runtime.advance(1_000);
    await revive('a', watch);
    await world.runtime.advance(10_000);
    await restart('a');
    watch(ann);
    await world.runtime.advance(10_000);
    expect(notices).toEqual([
      [late, 'stored'],
      [second, 'stored'],
    ]);
  });

  it('is not reported when it was read', async () => {
    const notices: unknown[] = [];
    ann.onUnread((notice) => void notices.push(notice));
    await sendDurably(1, { readWithinMs: 5_000 });
    await world.runtime.advance(20_000);
    expect(notices).toEqual([]);
    expect(a.events.filter(({ receiptState }) => receiptState === 'overdue')).toEqual([]);
    expect(a.errors).toEqual([]);
  });

  it('tells its sender when that comes back', async () => {
    const notices: unknown[] = [];
    world.crash(b);
    const id = await sendDurably(1, { readWithinMs: 5_000 });
    ann.leave();
    await world.runtime.advance(10_000);
    a.node.agent({ id: 'ann', tier: 0 }).onUnread(({ messageId }) => notices.push(messageId));
    await world.runtime.advance(10_000);
    expect(notices).toEqual([id]);
  });

  it('does not let a notice that throws disturb the others', async () => {
    ann.onUnread(() => {
      throw new Error('not listening');
    });
    world.crash(b);
    for (const n of [1, 2, 3]) await sendDurably(n, { readWithinMs: 1_000, ttlMs: 5_000 });
    await world.runtime.advance(10_000);
    expect(await world.rows(a, watches)).toEqual([]);
    expect(await world.rows(a, outbox)).toEqual([]);
  });
});

describe('a node that is stopped in good order', () => {
  it('does not refuse the durable mail that arrives meanwhile', async () => {
    const eve = b.node.agent({ id: 'eve', tier: 0 });
    eve.onNotification(() => b.runtime.pause(3_000));
    await world.until(() => knows(a, 'eve', b));
    await world.settled(ann.send(at('eve', b), 'slow work'));
    const stopping = world.stop(b, 5_000);
    const id = await sendDurably('meanwhile');
    await stopping;
    await revive('b');
    await world.connected();
    await world.runtime.advance(10_000);
    expect((await a.node.mail!.receipt(id)).state).not.toBe('refused');
    expect(heard).toEqual(['meanwhile']);
  });

  it('lets a handler of durable mail finish within the time it gives', async () => {
    const done: unknown[] = [];
    bob.onNotification(async (message) => {
      await b.runtime.pause(1_000);
      await message.commit({ keep: { done: true } });
      done.push(message.payload);
    });
    await sendDurably(1);
    await world.runtime.advance(500);
    await world.stop(b, 5_000);
    expect(done).toEqual([1]);
  });

  it('stores messages that were sent at the last moment', async () => {
    const last = ann.send(at('bob', b), 'at the last moment', { durable: true });
    const stopping = world.stop(a);
    const { stored, messageId } = await world.settled(last);
    expect(stored).toBe(true);
    await stopping;
    await expect(ann.send(at('bob', b), 'after it', { durable: true })).rejects.toMatchObject({ code: 'NODE_STOPPED' });
    await revive('a');
    await over(a, messageId!);
    expect(heard).toEqual(['at the last moment']);
  });

  it('was never started if its store cannot be read, and leaves nothing running', async () => {
    const runtime = new SimulatedRuntime();
    const store = new MemoryStore();
    store.failWith('the disk is gone');
    await expect(createNode({ runtime, store, network: {} })).rejects.toMatchObject({ code: 'STORE_FAILED' });
    await runtime.advance(10_000);
    expect(runtime.pending).toBe(0);
  });

  it('goes on with its mail when it comes back', async () => {
    bob.onNotification(() => b.runtime.pause(60_000));
    const id = await sendDurably('again');
    await world.runtime.advance(500);
    await world.stop(b);
    await revive('b');
    await over(a, id);
    expect(heard).toEqual(['again']);
    expect(b.errors).toEqual([]);
  });
});

describe('an agent that sends durable mail and leaves', () => {
  it('is known to a node that was away all the time [DM13]', async () => {
    world.crash(b);
    const guest = a.node.agent({ id: 'guest', tier: 0 });
    const { messageId } = await world.settled(guest.send(at('bob', b), 'farewell', { durable: true }));
    guest.leave();
    await revive('b');
    await over(a, messageId!);
    expect((await a.node.mail!.receipt(messageId!)).state).toBe('done');
    expect(heard).toEqual(['farewell']);
  });

  it('is known to a node that met it before', async () => {
    const guest = a.node.agent({ id: 'guest', tier: 0 });
    await world.until(() => knows(b, 'guest', a));
    world.crash(b);
    const { messageId } = await world.settled(guest.send(at('bob', b), 'farewell', { durable: true }));
    guest.leave();
    await revive('b');
    await over(a, messageId!);
    expect(heard).toEqual(['farewell']);
  });
});

describe('both sides of a receipt', () => {
  it('show the same times, although the handler was called several times [RC2]', async () => {
    let calls = 0;
    bob.onNotification(async () => {
      await b.runtime.pause(10);
      if (++calls < 3) throw new Error('not yet');
    });
    const id = await sendDurably(1);
    await over(a, id);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'surfaced', 'read', 'done']);
  });

  it('are updated, however many updates there are', async () => {
    world.crash(b);
    const store = new MemoryStore(world.stations[1]!.disk);
    const steps = JSON.stringify([['undeliverable', world.runtime.now(), '€'.repeat(4_096)]]);
    const row = { at: world.runtime.now(), node: a.node.key, side: 'received', steps };
    await store.write(
      Array.from({ length: 1_200 }, (_, n): Write => receipts.put({ ...row, id: `m${n}`, news: n + 1 })),
    );
    world.stations[1]!.disk = store.snapshot();
    await revive('b');
    await world.runtime.advance(30_000);
    expect(a.events.filter(({ type }) => type === 'security')).toEqual([]);
    expect(await world.untold(b)).toEqual([]);
  });
});

describe('finished receipts', () => {
  it('are kept within limits of age and count, and open ones for as long as it takes [RE6]', async () => {
    const retention = { receipts: { maxAgeMs: 600_000, maxRows: 8 } };
    world.crash(a);
    const life = await world.start(world.stations[0]!, { limits: { retention } });
    const sender = life.node.agent({ id: 'ann', tier: 0 });
    listen(life.node.agent({ id: 'amy', tier: 0 }));
    await world.until(() => knows(life, 'bob', b));
    bob.leave();
    const open = await world.settled(sender.send(at('bob', b), 'still there', { durable: true }));
    for (let n = 0; n < 20; n++) await world.settled(sender.send('amy', n, { durable: true }));
    await world.until(() => heard.length === 20);
    await world.runtime.advance(61_000);
    expect(await world.rows(life, receipts)).toHaveLength(8);
    await world.runtime.advance(700_000);
    const left = await world.rows(life, receipts);
    expect(left.map(({ id }) => id)).toEqual([open.messageId]);
    expect(await life.node.mail!.receipt(open.messageId!)).toMatchObject({ state: 'arrived', over: false });
  });
});

describe('a hostile peer', () => {
  let rogue: Rogue;
  let link: RogueLink;

  beforeEach(async () => {
    rogue = await Rogue.join(world.nodes, a.node);
    link = await rogue.meet(a.node);
    link.announce({ id: 'evil', tier: 0 });
    await world.runtime.advance(10);
    listen(ann);
  });

  it('can send durable mail as an honest one does', async () => {
    link.give(mail(1, 'm1'));
    await world.runtime.advance(100);
    expect(heard).toEqual(['m1']);
    const told = link.items.filter(([kind]) => kind === 't').flatMap((item) => item[3] as [string, unknown[][]][]);
    expect(told.map(([id, steps]) => [id, steps.map(([state]) => state)])).toEqual([
      ['m1', ['stored', 'arrived', 'read', 'done']],
    ]);
  });

  it('gets each message once, by its id, whatever number it has [T-F5]', async () => {
    link.give(mail(2, 'm2'), mail(2, 'm2'), mail(1, 'm1'), mail(2, 'other'), mail(3, 'm3'));
    await world.runtime.advance(100);
    expect(heard).toEqual(['m2', 'm1', 'other', 'm3']);
    expect(link.closed).toBe(false);
  });

  it('fills its own share of the inboxes and no other’s, in messages, rows and time [T-F3 T-F14]', async () => {
    a.node.agent({ id: 'amy', tier: 0 }).leave();
    const flood = (from: number) => {
      const { runtime } = world;
      const envelope = (n: number) => [
        SCHEMA_VERSION,
        `f${n}`,
        'evil',
        'amy',
        'notification',
        1,
        n,
        null,
        { durable: true },
      ];
      const messages = Array.from({ length: 1_000 }, (_, n) => [from + n, runtime.now(), null, envelope(from + n)]);
      return ['s', 'rogue-store', from - 1, messages];
    };
    for (let from = 1; from < 25_000; from += 1_000) {
      link.give(flood(from));
      await world.runtime.advance(10);
    }
    expect(await a.store.inner.count(inbox)).toBe(20_000);
    // The rest is refused with the reason, and refusals that its node does not hear of stop it altogether.
    const { state, story } = await a.node.mail!.receipt('f20001');
    expect([state, story.at(-1)!.reason]).toEqual(['refused', expect.stringMatching(/^QUEUE_FULL: /)]);
    expect(await a.store.inner.count(receipts)).toBe(1_000);
    const [row] = await a.store.inner.read(inbox, { limit: 1 });
    expect(row!.expiresAt! - world.runtime.now()).toBeLessThanOrEqual(30 * 86_400_000);
    expect(link.closed).toBe(false);
    await world.until(() => knows(b, 'ann', a));
    for (const to of ['ann', 'amy']) await world.settled(bob.send(at(to, a), `to ${to}`, { durable: true }));
    await world.until(() => heard.includes('to ann'));
    expect(await a.store.inner.count(inbox)).toBe(20_001);
  });

  it('cannot fill the memory with mail that waits to be written [T-F4]', async () => {
    a.node.agent({ id: 'amy', tier: 0 }).leave();
    const payload = 'x'.repeat(1_000_000);
    const large = (n: number) => mail(n, `large ${n}`, { recipient: 'amy', payload });
    for (let n = 1; n <= 60; n++) link.give(large(n));
    await world.runtime.advance(100);
    const taken = await a.store.inner.count(inbox);
    expect(taken).toBeGreaterThan(10);
    expect(taken).toBeLessThan(30);
    // The rest was not acknowledged, so an honest node sends it again.
    for (let n = taken + 1; n <= 60; n++) {
      link.give(large(n));
      await world.runtime.advance(10);
    }
    expect(await a.store.inner.count(inbox)).toBe(60);
  });

  it('cannot send under another name, nor for an agent it has not announced', async () => {
    const senders = ['ann', 'nobody', at('bob', b), at('evil', b), at('ann', a)];
    for (const [index, sender] of senders.entries()) link.give(mail(index + 1, `forged${index}`, { sender }));
    await world.runtime.advance(100);
    expect(heard).toEqual([]);
    for (const index of senders.keys()) {
      const { state, story } = await a.node.mail!.receipt(`forged${index}`);
      expect({ state, reason: story.at(-1)!.reason }).toMatchObject({
        state: 'refused',
        reason: expect.stringMatching(/^SENDER_REFUSED: /),
      });
    }
    expect(await world.rows(a, inbox)).toEqual([]);
    expect(a.events.filter(({ code, type }) => type === 'security' && code === 'SENDER_REFUSED')).toHaveLength(5);
  });

  it('cannot claim another tier or sandbox than its card has', async () => {
    link.give(mail(1, 'm1', { metadata: { durable: true, tier: 1 } }));
    link.give(mail(2, 'm2', { metadata: { durable: true, sandboxId: 'x' } }));
    await world.runtime.advance(100);
    expect(heard).toEqual([]);
    for (const id of ['m1', 'm2']) expect((await a.node.mail!.receipt(id)).state).toBe('refused');
  });

  it('cannot send to agents that this node never had', async () => {
    link.give(mail(1, 'm1', { recipient: 'nobody' }), mail(2, 'm2', { recipient: '*' }));
    await world.runtime.advance(100);
    expect((await a.node.mail!.receipt('m1')).story.at(-1)!.reason).toMatch(/^AGENT_NOT_FOUND: /);
    expect((await a.node.mail!.receipt('m2')).state).toBe('refused');
  });

  const message = (fields: unknown[]) => ['s', 'store', 0, [fields]];
  const news = (piece: unknown) => ['t', 0, 0, [piece]];
  const packed = (id: unknown) => [SCHEMA_VERSION, id, 'evil', 'ann', 'notification', 1, 1, null, { durable: true }];
  it.each<[string, unknown[]]>([
    ['mail without anything', ['s']],
    ['mail without a list', ['s', 'store', 0]],
    ['mail without an envelope', message([1, 1, null])],
    ['mail with too much', message([1, 1, null, packed('m'), 1])],
    ['a store without a name', ['s', '', 0, [[1, 1, null, packed('m')]]]],
    ['a store with an endless name', ['s', 'x'.repeat(129), 0, [[1, 1, null, packed('m')]]]],
    ['a store that is a number', ['s', 1, 0, [[1, 1, null, packed('m')]]]],
    ['something before it that is no number', ['s', 'store', null, [[1, 1, null, packed('m')]]]],
    ['number 0', message([0, 1, null, packed('m')])],
    ['a negative number', message([-1, 1, null, packed('m')])],
    ['half a number', message([1.5, 1, null, packed('m')])],
    ['a number too large to count', message([2 ** 53, 1, null, packed('m')])],
    ['a time that is text', message([1, 'now', null, packed('m')])],
    ['an end that is text', message([1, 1, 'never', packed('m')])],
    ['an envelope that is an object', message([1, 1, null, { id: 'm' }])],
    ['an empty envelope', message([1, 1, null, []])],
    ['an envelope without an id', message([1, 1, null, packed('')])],
    ['an envelope whose id is a number', message([1, 1, null, packed(7)])],
    ['an envelope whose id cannot be stored', message([1, 1, null, packed('\ud800')])],
    ['too much mail', ['s', 'store', 0, Array(1_001).fill([1, 1, null, packed('m')])]],
    ['news that is none', ['t']],
    ['news that is text', ['t', 0, 0, 'm']],
    ['news without numbers', ['t', null, null, []]],
    ['news of nothing', news('m')],
    ['news of no state', news(['m', [['lost', 1, null]]])],
    ['news of a state of objects', news(['m', [['toString', 1, null]]])],
    ['news without a time', news(['m', [['done', null, null]]])],
    ['news without a reason', news(['m', [['done', 1]]])],
    ['news with an endless reason', news(['m', [['done', 1, 'x'.repeat(4_097)]]])],
    ['an endless story', news(['m', Array(13).fill(['done', 1, null])])],
    ['news of what cannot be stored', news(['\ud800', [['done', 1, null]]])],
    ['too much news', ['t', 0, 0, Array(1_001).fill(['m', [['done', 1, null]]])]],
    ['a hearing that is none', ['u']],
    ['a hearing of half a number', ['u', 0.5]],
    ['a hearing of less than nothing', ['u', -1]],
    ['a hearing of too much', ['u', 1, 2]],
  ])('that says %s is cut off, once, and nothing else happens', async (_what, item) => {
    link.give(item);
    await world.runtime.advance(100);
    const security = a.events.filter(({ type }) => type === 'security');
    expect(security).toHaveLength(1);
    expect(['INVALID_FRAME', 'INVALID_ENVELOPE']).toContain(security[0]!.code);
    expect(link.closed).toBe(true);
    expect(heard).toEqual([]);
    expect(await world.rows(a, receipts)).toEqual([]);
    // Others are served.
    const id = await sendDurably('still here');
    await over(a, id);
  });

  it('that sends malformed items has no effect', async () => {
    link.give(['s', 'store', 0, []], ['t', 0, 0, []], ['t', 0, 7, [['unknown', [['done', 1, 'x']]]]], ['u', 7]);
    link.give(news(['unknown', []]), news(['unknown', [['done', 1, '\udfff']]]), ['u', 0]);
    link.give(['s', 'store', 5, [[6, 1, null, packed('too early')]]]);
    await world.runtime.advance(100);
    expect(link.closed).toBe(false);
    expect(await world.rows(a, receipts)).toEqual([]);
    expect(a.events.filter(({ type }) => type === 'security')).toEqual([]);
  });

  it('cannot change the receipt of a message to another node [DM12]', async () => {
    world.crash(b);
    const id = await sendDurably(1);
    link.give(news([id, [['arrived', 1, null]]]), news([id, [['done', 2, 'says the rogue']]]), ['u', 1]);
    await world.runtime.advance(100);
    expect(await statesOf(a, id)).toEqual(['stored']);
    expect(await world.rows(a, outbox)).toHaveLength(1);
    heard = [];
    await revive('b');
    await over(a, id);
    await atRest();
    await expectSameStory(id, ['stored', 'arrived', 'read', 'done']);
  });

  it('cannot change the receipt of a message between two agents of the node', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    amy.leave();
    const { messageId } = await world.settled(ann.send('amy', 1, { durable: true }));
    link.give(news([messageId, [['done', 2, null]]]), ['u', 1]);
    await world.runtime.advance(100);
    expect(await statesOf(a, messageId!)).toEqual(['stored', 'arrived']);
    expect(await world.rows(a, inbox)).toHaveLength(1);
  });

  it('cannot make the node drop unacknowledged receipt updates', async () => {
    const { messageId } = await world.settled(bob.send(at('ann', a), 1, { durable: true }));
    await world.until(() => heard.includes(1));
    world.crash(b);
    await sendDurably('for later');
    const before = await world.untold(a);
    link.give(['u', 1], ['u', 10_000], ['u', Number.MAX_SAFE_INTEGER]);
    await world.runtime.advance(5_000);
    expect(await world.untold(a)).toEqual(before);
    await revive('b');
    await atRest();
    await expectSameStory(messageId!, ['stored', 'arrived', 'read', 'done']);
  });

  it('cannot overwrite another’s mail by using its id', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    amy.leave();
    const { messageId: local } = await world.settled(ann.send('amy', 'ann’s', { durable: true }));
    await world.until(() => knows(b, 'ann', a));
    const { messageId: remote } = await world.settled(bob.send(at('amy', a), 'bob’s', { durable: true }));
    await world.runtime.advance(1_000);
    link.give(
      mail(1, local!, { recipient: 'amy', payload: 'evil 1' }),
      mail(2, remote!, { recipient: 'amy', payload: 'evil 2' }),
    );
    await world.runtime.advance(100);
    expect(await world.rows(a, inbox)).toHaveLength(4);
    listen(a.node.agent({ id: 'amy', tier: 0 }));
    await world.until(() => heard.length === 4);
    expect([...heard].sort()).toEqual(['ann’s', 'bob’s', 'evil 1', 'evil 2']);
    await atRest();
    await expectSameStory(remote!, ['stored', 'arrived', 'read', 'done']);
  });

  it('cannot replace the receipt of another message by using its id', async () => {
    world.crash(b);
    const id = await sendDurably(1);
    link.give(mail(1, id, { recipient: 'nobody', storedAt: 1 }));
    await world.runtime.advance(100);
    expect(await statesOf(a, id)).toEqual(['stored']);
  });

  it('cannot block receipt updates by using the id of a message', async () => {
    world.crash(b);
    const id = await sendDurably(1);
    link.give(mail(1, id, { payload: 'evil', storedAt: world.runtime.now() + 1_000 }));
    await world.runtime.advance(100);
    await revive('b');
    await world.until(() => heard.includes(1));
    await world.runtime.advance(5_000);
    expect(await statesOf(a, id)).toEqual(['stored', 'arrived', 'read', 'done']);
  });

  it('cannot say what the recipient did with the mail that it sent', async () => {
    const amy = a.node.agent({ id: 'amy', tier: 0 });
    amy.leave();
    link.give(mail(1, 'm1', { recipient: 'amy' }));
    await world.runtime.advance(100);
    link.give(news(['m1', [['read', 1, null]]]), news(['m1', [['replied', 2, 'says the rogue']]]));
    await world.runtime.advance(100);
    expect(await statesOf(a, 'm1')).toEqual(['stored', 'arrived']);
  });

  it('cannot keep a decision out of the journal by an id that cannot be stored', async () => {
    link.give(['m', SCHEMA_VERSION, '\ud800', 'evil', 'ann', 'notification', 1, 'bad', null]);
    await world.runtime.advance(0);
    await world.settled(ann.send(at('bob', b), 'remember this'));
    await world.runtime.advance(5_000);
    const rows = await a.node.records!.journal.search({});
    expect(rows.map(({ recipient }) => recipient)).toContain(at('bob', b));
  });

  /** A durable message as it says it. */
  function mail(number: number, id: string, changes: MailChanges = {}): unknown[] {
    const { sender = 'evil', recipient = 'ann', payload = id, metadata = { durable: true }, storedAt } = changes;
    const envelope = [SCHEMA_VERSION, id, sender, recipient, 'notification', 1, payload, null, metadata];
    return ['s', 'rogue-store', 0, [[number, storedAt ?? world.runtime.now(), null, envelope]]];
  }
});

interface MailChanges {
  sender?: string;
  recipient?: string;
  payload?: unknown;
  metadata?: object;
  storedAt?: number;
}

/** An agent adds up the numbers that it is sent, once each; its sender keeps the answers. Returns the faults. */
async function ledger(side: 'a' | 'b', call: number, fate: Fate): Promise<string[]> {
  const own = new World();
  try {
    const [first, second] = (await own.mesh(2)) as [Life, Life];
    const sender = keeper(first.node.agent({ id: 'ann', tier: 0 }), 'answers');
    counter(second.node.agent({ id: 'bob', tier: 0 }));
    const address = `bob@${second.station.key}`;
    await own.until(() => first.node.registry.getById(address) !== undefined);
    const victim = side === 'a' ? first : second;
    const from = victim.store.calls;
    victim.store.fate = (number) => (number === from + call ? fate : 'pass');
    const acknowledged: number[] = [];
    for (const n of [1, 2, 3, 4]) {
      void sender.send(address, n, { durable: true }).then(() => acknowledged.push(n));
      if (n === 2) await own.runtime.advance(20);
    }
    await own.runtime.advance(500);
    victim.store.fate = () => 'pass';
    if (victim.ended) {
      const { node } = await own.start(victim.station);
      if (side === 'a') keeper(node.agent({ id: 'ann', tier: 0 }), 'answers');
      else counter(node.agent({ id: 'bob', tier: 0 }));
    }
    await own.runtime.advance(30_000);
    const [one, other] = own.stations.map(({ life }) => life!) as [Life, Life];
    const counted = ((await other.node.agentById('bob').kept<number[]>('log')) ?? []) as number[];
    const answered = ((await one.node.agentById('ann').kept<number[]>('answers')) ?? []) as number[];
    const faults: string[] = [];
    const inOrder = [...new Set(counted)].sort((x, y) => x - y);
    if (JSON.stringify(counted) !== JSON.stringify(inOrder)) faults.push(`took effect as ${counted}`);
    const lost = acknowledged.filter((n) => !counted.includes(n));
    if (lost.length > 0) faults.push(`acknowledged and lost: ${lost}`);
    if (JSON.stringify(answered) !== JSON.stringify(counted)) faults.push(`${counted} answered as ${answered}`);
    for (const life of [one, other]) {
      for (const table of [outbox, inbox]) {
        const left = (await own.rows(life, table)).length;
        if (left > 0) faults.push(`${left} left in the ${table.name} of ${life.name}`);
      }
      const untold = await own.untold(life);
      if (untold.length > 0) faults.push(`${life.name} has ${untold.length} to tell`);
      faults.push(...life.errors);
    }
    return faults;
  } finally {
    await own.end();
  }
}

/** How many calls to its disk each side makes in such a run without a crash. */
async function countCalls(): Promise<{ a: number; b: number }> {
  const counts = { a: 0, b: 0 };
  for (const side of ['a', 'b'] as const) {
    const seen: number[] = [];
    const own = new World();
    const [first, second] = (await own.mesh(2)) as [Life, Life];
    const sender = keeper(first.node.agent({ id: 'ann', tier: 0 }), 'answers');
    counter(second.node.agent({ id: 'bob', tier: 0 }));
    const address = `bob@${second.station.key}`;
    await own.until(() => first.node.registry.getById(address) !== undefined);
    const watched = side === 'a' ? first : second;
    const from = watched.store.calls;
    watched.store.fate = (number) => {
      seen.push(number);
      return 'pass';
    };
    for (const n of [1, 2, 3, 4]) void sender.send(address, n, { durable: true });
    await own.runtime.advance(500);
    counts[side] = seen.at(-1)! - from;
    await own.end();
  }
  return counts;
}

function counter(agent: Agent): Agent {
  return agent.onNotification(async (message) => {
    const log = ((await agent.kept<number[]>('log')) ?? []).concat(message.payload as number);
    await message.commit({ keep: { log }, send: [{ to: message.from, payload: message.payload }] });
  });
}

function keeper(agent: Agent, name: string): Agent {
  return agent.onNotification(async (message) => {
    const log = ((await agent.kept<unknown[]>(name)) ?? []).concat(message.payload);
    await message.commit({ keep: { [name]: log } });
  });
}

function listen(agent: Agent): void {
  agent.onNotification(({ payload }) => void heard.push(payload));
}

function at(id: string, life: Life): string {
  return `${id}@${life.station.key}`;
}

function knows(viewer: Life, id: string, other: Life): boolean {
  return viewer.node.registry.getById(at(id, other)) !== undefined;
}

async function sendDurably(payload: unknown, options: { ttlMs?: number; readWithinMs?: number } = {}): Promise<string> {
  const { stored, messageId } = await world.settled(ann.send(at('bob', b), payload, { durable: true, ...options }));
  expect(stored).toBe(true);
  return messageId!;
}

/** Starts a node again on the disk that its last process left, with its agent. */
async function revive(name: 'a' | 'b', setUp: (agent: Agent, life: Life) => void = listen): Promise<void> {
  const life = await world.start(world.stations.find((station) => station.name === name)!);
  const agent = life.node.agent({ id: name === 'a' ? 'ann' : 'bob', tier: 0 });
  setUp(agent, life);
  if (name === 'a') [a, ann] = [life, agent];
  else [b, bob] = [life, agent];
}

async function restart(name: 'a' | 'b'): Promise<void> {
  world.crash(name === 'a' ? a : b);
  await revive(name);
}

/** Waits until the story of a message is over. */
async function over(life: Life, id: string): Promise<void> {
  for (let tries = 0; tries < 3_000; tries++) {
    const receipt = await life.node.mail!.receipt(id).catch(() => undefined);
    if (receipt?.over) return;
    await world.runtime.advance(20);
  }
  throw new Error(`the story of ${id} is not over: ${JSON.stringify(await life.node.mail!.receipt(id))}`);
}

/** Waits until nothing is on its way, nothing waits for an agent, and everybody has heard everything. */
async function atRest(): Promise<void> {
  const left = async () => {
    const found: unknown[] = [];
    for (const { life } of world.stations) {
      if (!life) continue;
      found.push(...(await world.rows(life, outbox)), ...(await world.rows(life, inbox)));
      found.push(...(await world.untold(life)).filter(({ node }) => node !== rogueKey()));
    }
    return found;
  };
  for (let tries = 0; tries < 3_000; tries++) {
    if ((await left()).length === 0) return;
    await world.runtime.advance(20);
  }
  throw new Error(`not at rest: ${JSON.stringify(await left())}`);
}

/** A rogue acknowledges nothing that it is told. */
function rogueKey(): string | undefined {
  const known = new Set(world.stations.map(({ key }) => key));
  return a.node.network.list().find(({ node }) => !known.has(node))?.node;
}

async function statesOf({ node }: Life, id: string): Promise<string[]> {
  return (await node.mail!.receipt(id)).story.map(({ state }) => state);
}

async function expectSameStory(id: string, states: readonly string[]): Promise<void> {
  const [here, there] = [await a.node.mail!.receipt(id), await b.node.mail!.receipt(id)];
  expect(here.story.map(({ state }) => state)).toEqual(states);
  expect(here).toEqual(there);
  expect(here.over).toBe(true);
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return world.settled(promise).then(() => 'no error', codeOfError);
}

function codeOfError(error: EclipticError): string {
  return error.code;
}

function touches(writes: readonly Write[] | undefined, table: Table): boolean {
  return writes?.some((write) => write.table === table) === true;
}

/** Lets one write to a table fail. */
function failOnce(life: Life, table: Table, kind: 'insert' | 'delete' = 'insert'): void {
  let done = false;
  life.store.fate = (_call, writes) => {
    if (done || !writes?.some((write) => write.kind === kind && write.table === table)) return 'pass';
    done = true;
    return 'fail';
  };
}

/** Restarts node a with that many messages for a node that never comes. */
async function fillOutbox(node: string, count: number): Promise<void> {
  world.crash(a);
  const store = new MemoryStore(world.stations[0]!.disk);
  const row = { node, envelope: '[1,"x","ann"]', storedAt: 1, expiresAt: null };
  for (let from = 1; from <= count; from += 10_000) {
    const numbers = Array.from({ length: Math.min(10_000, count - from + 1) }, (_, index) => from + index);
    await store.write(numbers.map((number): Write => outbox.insert({ ...row, id: `x${number}`, number })));
  }
  world.stations[0]!.disk = store.snapshot();
  await revive('a');
}

/** Runs a task and returns the unhandled rejections meanwhile. */
async function withoutUncaught(run: () => Promise<void>): Promise<unknown[]> {
  const listeners = process.listeners('unhandledRejection');
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', note);
  try {
    await run();
    return uncaught;
  } finally {
    process.off('unhandledRejection', note);
    for (const listener of listeners) process.on('unhandledRejection', listener);
  }
}

function circular(): object {
  const self: Record<string, unknown> = {};
  self.self = self;
  return self;
}

type Code = 'TIER_VIOLATION' | 'SANDBOX_VIOLATION' | 'ESCALATION_REQUIRED';

/** Somebody who wants what one rule can forbid. */
async function forbidden(code: Code): Promise<{ sender: Agent; type: 'notification' | 'task-proposal' }> {
  const sandbox = code === 'SANDBOX_VIOLATION' ? 'cell' : undefined;
  const sender = a.node.agent({ id: 'low', tier: 3, sandbox });
  await world.until(() => knows(b, 'low', a));
  return { sender, type: code === 'ESCALATION_REQUIRED' ? 'task-proposal' : 'notification' };
}

function forbid(life: Life, code: Code): void {
  rule(life, code === 'TIER_VIOLATION' ? [1, 2, 3] : [0, 1, 2, 3], code === 'ESCALATION_REQUIRED');
  life.node.router.setSandboxConfig({ enforced: code === 'SANDBOX_VIOLATION' });
}

function allow(life: Life, _code: Code): void {
  rule(life, [0, 1, 2, 3], false);
  life.node.router.setSandboxConfig({ enforced: false });
}

function rule(life: Life, allowedTargetTiers: (0 | 1 | 2 | 3)[], requiresEscalationJustification: boolean): void {
  life.node.router.setTierConfig({ rules: [{ sourceTier: 3, allowedTargetTiers, requiresEscalationJustification }] });
}
