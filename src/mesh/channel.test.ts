import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbJson } from '../../test/generators.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { A2AChannel } from './channel.js';
import {
  type ChannelEvent,
  type ChannelRules,
  type ChannelState,
  type ChannelStatus,
  CONNECTING,
  stepChannel,
} from './channel-machine.js';
import { ChannelManager, type ChannelManagerInit } from './channel-manager.js';
import { EnvelopeFactory, type EnvelopeInit, type ValidEnvelope } from './envelope.js';
import { A2AObservability } from './observability.js';
import { Policy } from './policy.js';
import type { ChannelTransport } from './ports.js';
import { AgentRegistry } from './registry.js';
import { A2ARouter } from './router.js';
import type { A2AEnvelope, A2ALogEvent, AgentCard } from './schemas.js';
import { ThreadTable } from './thread-table.js';

type LifecycleEvent = Extract<ChannelEvent['type'], 'acknowledged' | 'disconnected' | 'reconnected' | 'closed'>;

const RULES: ChannelRules = { queueCapacity: 1_000, retries: 3, retryDelayMs: 100 };

describe('opening a channel', () => {
  it('creates it as connecting, under an id of its own, until both sides have acknowledged [R3.1 P10]', async () => {
    const { channels } = mesh();
    const decision = deferred<boolean>();
    channels.onChannel('bob', () => decision.promise);
    const first = channels.openChannel('alice', 'bob');
    const second = channels.openChannel('alice', 'bob');
    const pending = channels.listChannels();
    expect(pending.map((channel) => channel.status)).toEqual(['connecting', 'connecting']);
    expect(new Set(pending.map((channel) => channel.id)).size).toBe(2);
    decision.resolve(true);
    await Promise.all([first, second]);
    expect(pending.map((channel) => channel.status)).toEqual(['open', 'open']);
  });

  it('makes it open at both ends once acknowledged, with messages both ways [R3.2 P10]', async () => {
    const { near, far, heardNear, heardFar, say } = await openPair();
    expect([near.status, far.status]).toEqual(['open', 'open']);
    expect([near.localAgentId, near.remoteAgentId, near.transport]).toEqual(['alice', 'bob', 'local']);
    expect(far.id).toBe(near.id);
    await near.send(say('alice', 'bob', 'ping'));
    await far.send(say('bob', 'alice', 'pong'));
    expect(heardFar).toEqual(['ping']);
    expect(heardNear).toEqual(['pong']);
  });

  it('finds the open channel by its id [R3.1]', async () => {
    const { channels, near } = await openPair();
    expect(channels.getChannel(near.id)).toBe(near);
    expect(channels.listChannels()).toEqual([near]);
    expect(channels.getChannel('another')).toBeUndefined();
  });

  it('emits the status of both ends [R3.1 R3.2 R3.3]', async () => {
    const { events, near } = await openPair();
    await near.close();
    const statuses = (sender: string) =>
      events
        .filter((event) => event.type === 'channel-status' && event.sender === sender && event.channelId === near.id)
        .map((event) => event.channelStatus);
    expect(statuses('alice')).toEqual(['connecting', 'open', 'closed']);
    expect(statuses('bob')).toEqual(['connecting', 'open', 'closed']);
  });

  const unwilling: [string, (channels: ChannelManager) => void][] = [
    ['has no acceptor', () => {}],
    ['refuses', (channels) => channels.onChannel('bob', () => false)],
    ['refuses later', (channels) => channels.onChannel('bob', async () => false)],
    ['rejects', (channels) => channels.onChannel('bob', () => Promise.reject(new Error('no')))],
    ['takes too long', (channels) => channels.onChannel('bob', () => new Promise(() => {}))],
    ['withdrew its acceptor', (channels) => channels.onChannel('bob', () => true)()],
    [
      'throws',
      (channels) =>
        channels.onChannel('bob', () => {
          throw new Error('no');
        }),
    ],
    [
      'closes it while deciding',
      (channels) =>
        channels.onChannel('bob', async (channel) => {
          await channel.close();
          return true;
        }),
    ],
    [
      'closes it as soon as it opens',
      (channels) =>
        channels.onChannel('bob', (channel) => {
          channel.onStatus((status) => {
            if (status === 'open') void channel.close();
          });
          return true;
        }),
    ],
  ];
  it.each(unwilling)('fails as CHANNEL_CLOSED and leaves nothing when the other side %s [R3.2]', async (_, prepare) => {
    const { channels, runtime } = mesh();
    prepare(channels);
    const opening = outcome(channels.openChannel('alice', 'bob'));
    await runtime.advance(10_000);
    expect(await opening).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(channels.listChannels()).toEqual([]);
    expect(runtime.pending).toBe(0);
  });

  it('waits exactly as long as configured for the acknowledgement', async () => {
    const { channels, runtime } = mesh({ acknowledgeMs: 250 });
    channels.onChannel('bob', () => new Promise(() => {}));
    const opening = outcome(channels.openChannel('alice', 'bob'));
    await runtime.advance(249);
    expect(channels.listChannels()).toHaveLength(1);
    await runtime.advance(1);
    expect(channels.listChannels()).toEqual([]);
    expect(await opening).toMatchObject({ code: 'CHANNEL_CLOSED' });
  });

  it('stays closed when the acknowledgement comes too late', async () => {
    const { channels, runtime } = mesh();
    const decision = deferred<boolean>();
    let far: A2AChannel | undefined;
    channels.onChannel('bob', (channel) => {
      far = channel;
      return decision.promise;
    });
    const opening = outcome(channels.openChannel('alice', 'bob'));
    await runtime.advance(10_000);
    decision.resolve(true);
    await runtime.advance(0);
    expect(await opening).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(far?.status).toBe('closed');
  });

  it('delivers what the other side said before it acknowledged, in order [R3.4]', async () => {
    const { channels, runtime, say } = mesh();
    const sends: Promise<Outcome<void>>[] = [];
    channels.onChannel('bob', (channel) => {
      for (const word of ['one', 'two', 'three']) sends.push(outcome(channel.send(say('bob', 'alice', word))));
      return true;
    });
    const near = await channels.openChannel('alice', 'bob');
    const heard = listen(near);
    await runtime.advance(100);
    expect(heard).toEqual(['one', 'two', 'three']);
    expect(await Promise.all(sends)).toEqual([{}, {}, {}]);
  });

  it('asks the latest acceptor only, and an earlier one cannot withdraw it', async () => {
    const { channels } = mesh();
    const withdrawFirst = channels.onChannel('bob', () => false);
    channels.onChannel('bob', () => true);
    withdrawFirst();
    expect((await channels.openChannel('alice', 'bob')).status).toBe('open');
  });

  it('refuses agents that are unknown or on another node', async () => {
    const { channels, registry } = mesh();
    registry.mergeRemote(card('rhea', { origin: 'remote', node: 'elsewhere' }), 'elsewhere');
    expect(await outcome(channels.openChannel('alice', 'nobody'))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await outcome(channels.openChannel('nobody', 'bob'))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await outcome(channels.openChannel('alice', 'rhea'))).toMatchObject({ code: 'AGENT_UNAVAILABLE' });
    expect(() => channels.onChannel('nobody', () => true)).toThrow(coded('AGENT_NOT_FOUND'));
    expect(channels.listChannels()).toEqual([]);
  });
});

describe('the life of a channel', () => {
  /** What the specification allows, written apart from the code: an absent entry is an invalid step. */
  const lifecycle: Record<ChannelStatus, Partial<Record<LifecycleEvent, ChannelStatus>>> = {
    connecting: { acknowledged: 'open', closed: 'closed' },
    open: { disconnected: 'reconnecting', closed: 'closed' },
    reconnecting: { reconnected: 'open', closed: 'closed' },
    closed: {},
  };
  const lifecycleEvents: LifecycleEvent[] = ['acknowledged', 'disconnected', 'reconnected', 'closed'];
  const workEvents: ChannelEvent['type'][] = ['sent', 'sent', 'delivered', 'failed', 'retry-due'];
  const isLifecycle = (type: ChannelEvent['type']): type is LifecycleEvent =>
    (lifecycleEvents as ChannelEvent['type'][]).includes(type);

  /** Mostly livable histories, so that sequences do not all end in `closed` at once. */
  const arbEventType = () =>
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...workEvents) },
      { weight: 5, arbitrary: fc.constantFrom<LifecycleEvent>('acknowledged', 'disconnected', 'reconnected') },
      { weight: 1, arbitrary: fc.constant<LifecycleEvent>('closed') },
    );

  it('Feature: a2a-mcp-protocols, Property 10: Channel state machine validity [P10 R3.1 R3.2 R3.3]', () => {
    const rules: ChannelRules = { queueCapacity: 3, retries: 2, retryDelayMs: 10 };
    fc.assert(
      fc.property(fc.array(arbEventType(), { maxLength: 60 }), (types) => {
        let state: ChannelState = CONNECTING;
        let waiting = 0;
        for (const type of types) {
          const before = Object.freeze({ ...state });
          const step = stepChannel(before, { type }, rules);
          const expected = isLifecycle(type) ? lifecycle[before.status][type] : before.status;
          if (isLifecycle(type) && expected === undefined) {
            expect(step).toEqual({ ok: false, code: 'INVALID_TRANSITION' });
            continue;
          }
          if (type === 'sent' && before.status === 'closed') {
            expect(step).toEqual({ ok: false, code: 'CHANNEL_CLOSED' });
            continue;
          }
          if (type === 'sent' && waiting === rules.queueCapacity) {
            expect(step).toEqual({ ok: false, code: 'QUEUE_FULL' });
            continue;
          }
          if (!step.ok) throw new Error(`${type} was refused as ${step.code} while ${before.status}`);
          state = step.state;
          if (type === 'sent') waiting++;
          for (const effect of step.effects) {
            if (effect.type === 'settle-first') waiting--;
            if (effect.type === 'settle-all') waiting = 0;
            if (effect.type === 'attempt-first') expect(state.status).toBe('open');
          }
          expect(state.status).toBe(expected);
          expect(state.queued).toBe(waiting);
          const told = step.effects.filter((effect) => effect.type === 'status');
          expect(told).toEqual(isLifecycle(type) ? [{ type: 'status', status: expected }] : []);
          if (state.first === 'in-flight') expect([state.status, waiting > 0]).toEqual(['open', true]);
          if (state.status === 'open' && waiting > 0) expect(state.first).not.toBe('waiting');
        }
      }),
      { numRuns: 500 },
    );
  });

  it('of a channel are told to those who watch it, and no others happen [P10 R3.1 R3.2 R3.3]', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...lifecycleEvents), { maxLength: 20 }), (types) => {
        const { channel } = bareChannel(reliable([]), { opened: false });
        const told: ChannelStatus[] = [];
        const allowed: ChannelStatus[] = [];
        channel.onStatus((status) => told.push(status));
        for (const type of types) {
          const before = channel.status;
          const next = lifecycle[before][type];
          if (next === undefined) expect(() => channel.report({ type })).toThrow(coded('INVALID_TRANSITION'));
          else {
            channel.report({ type });
            allowed.push(next);
          }
          expect(channel.status).toBe(next ?? before);
        }
        expect(told).toEqual(allowed);
      }),
      { numRuns: 200 },
    );
  });

  it('stops telling a watcher that went, and survives one that throws', () => {
    const { channel } = bareChannel(reliable([]), { opened: false });
    const gone: ChannelStatus[] = [];
    const stayed: ChannelStatus[] = [];
    const stop = channel.onStatus((status) => gone.push(status));
    channel.onStatus(() => {
      throw new Error('careless');
    });
    channel.onStatus((status) => stayed.push(status));
    channel.report({ type: 'acknowledged' });
    stop();
    channel.report({ type: 'closed' });
    expect(gone).toEqual(['open']);
    expect(stayed).toEqual(['open', 'closed']);
  });

  it('lets a watcher close the channel at the moment it opens', async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown) => void unhandled.push(reason);
    process.on('unhandledRejection', onUnhandled);
    const { channel, say, runtime } = bareChannel(reliable([]), { opened: false });
    const sent = outcome(channel.send(say('alice', 'bob', 'too late')));
    channel.onStatus((status) => {
      if (status === 'open') void channel.close();
    });
    channel.report({ type: 'acknowledged' });
    await runtime.advance(0);
    process.off('unhandledRejection', onUnhandled);
    expect(channel.status).toBe('closed');
    expect(await sent).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(unhandled).toEqual([]);
  });
});

describe('sending on an open channel', () => {
  it('Feature: a2a-mcp-protocols, Property 11: Channel message ordering [P11 R3.4]', async () => {
    const arbMessage = fc.record({
      payload: arbJson(),
      failures: fc.nat(3),
      rejects: fc.boolean(),
      pauseMs: fc.constantFrom(0, 0, 0, 50, 300),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(arbMessage, { minLength: 1, maxLength: 15 }), async (messages) => {
        const received: ValidEnvelope[] = [];
        const failuresLeft = new Map<string, { count: number; rejects: boolean }>();
        const { channel, say, runtime } = bareChannel({
          kind: 'local',
          deliver(envelope) {
            const left = failuresLeft.get(envelope.id)!;
            if (left.count-- > 0) {
              if (left.rejects) return Promise.reject(new Error('lost'));
              throw new Error('lost');
            }
            received.push(envelope);
            return left.rejects ? Promise.resolve() : undefined;
          },
          close() {},
        });
        const sent: ValidEnvelope[] = [];
        const sends: Promise<Outcome<void>>[] = [];
        for (const { payload, failures, rejects, pauseMs } of messages) {
          const envelope = say('alice', 'bob', payload);
          failuresLeft.set(envelope.id, { count: failures, rejects });
          sent.push(envelope);
          sends.push(outcome(channel.send(envelope)));
          if (pauseMs > 0) await runtime.advance(pauseMs);
        }
        await runtime.runUntilIdle();
        expect(await Promise.all(sends)).toEqual(messages.map(() => ({})));
        expect(received.map((envelope) => envelope.id)).toEqual(sent.map((envelope) => envelope.id));
        expect(received.map((envelope) => envelope.payload)).toEqual(messages.map(({ payload }) => payload));
      }),
      { numRuns: 100 },
    );
  });

  it('keeps a thousand concurrent messages each way whole and in order [P11 R3.4]', async () => {
    const { near, far, heardNear, heardFar, say } = await openPair();
    const numbers = Array.from({ length: 1_000 }, (_, n) => n);
    await Promise.all(
      numbers.flatMap((n) => [near.send(say('alice', 'bob', n)), far.send(say('bob', 'alice', -n - 1))]),
    );
    expect(heardFar).toEqual(numbers);
    expect(heardNear).toEqual(numbers.map((n) => -n - 1));
  });

  it('Feature: a2a-mcp-protocols, Property 12: Channel retry on failure [P12 R3.5 E.DELIVERY_FAILED]', async () => {
    const arbCase = fc.record({ failures: fc.nat(6), retryDelayMs: fc.integer({ min: 1, max: 1_000 }) });
    await fc.assert(
      fc.asyncProperty(arbCase, async ({ failures, retryDelayMs }) => {
        const attempts: number[] = [];
        const { channel, say, runtime, events } = bareChannel(
          {
            kind: 'local',
            deliver() {
              attempts.push(runtime.now());
              if (attempts.length <= failures) throw new Error('lost');
            },
            close() {},
          },
          { rules: { ...RULES, retryDelayMs } },
        );
        const envelope = say('alice', 'bob', null);
        const sent = outcome(channel.send(envelope));
        await runtime.runUntilIdle();
        const gaps = attempts.slice(1).map((at, index) => at - attempts[index]!);
        expect(gaps).toEqual([1, 2, 4].slice(0, Math.min(failures, 3)).map((factor) => factor * retryDelayMs));
        const failureEvents = events.filter((event) => event.type === 'delivery-failure');
        if (failures <= 3) {
          expect(await sent).toEqual({});
          expect(failureEvents).toEqual([]);
        } else {
          expect(await sent).toMatchObject({ code: 'DELIVERY_FAILED', details: { envelopeId: envelope.id } });
          expect(failureEvents).toMatchObject([
            { envelopeId: envelope.id, code: 'DELIVERY_FAILED', channelId: channel.id },
          ]);
        }
        expect(runtime.pending).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    [99, 100],
    [101, 300],
    [301, 700],
  ])(
    'tries by default after 100, 200 and 400 ms: a listener at %i ms hears at %i [R3.5 P12]',
    async (listensAt, hearsAt) => {
      const { near, far, runtime, say } = await openPair({ listen: false });
      const start = runtime.now();
      const sent = outcome(near.send(say('alice', 'bob', 'hello')));
      await runtime.advance(listensAt);
      const heardAt: number[] = [];
      far.onMessage(() => heardAt.push(runtime.now() - start));
      await runtime.advance(1_000);
      expect(heardAt).toEqual([hearsAt]);
      expect(await sent).toEqual({});
    },
  );

  it('gives up at 700 ms by default, once, with one failure event [R3.5 P12 E.DELIVERY_FAILED]', async () => {
    const { near, runtime, say, events } = await openPair({ listen: false });
    const seen: Outcome<void>[] = [];
    const envelope = say('alice', 'bob', 'hello');
    void outcome(near.send(envelope)).then((result) => seen.push(result));
    await runtime.advance(699);
    expect(seen).toEqual([]);
    await runtime.advance(1);
    expect(seen).toMatchObject([{ code: 'DELIVERY_FAILED', details: { outcome: 'not-delivered' } }]);
    await runtime.advance(10_000);
    expect(events.filter((event) => event.type === 'delivery-failure')).toMatchObject([
      { envelopeId: envelope.id, sender: 'alice', recipient: 'bob', code: 'DELIVERY_FAILED' },
    ]);
    expect(near.status).toBe('open');
  });

  it('goes on in order after a message that could not be delivered [R3.4 R3.5]', async () => {
    const received: unknown[] = [];
    const { channel, say, runtime } = bareChannel({
      kind: 'local',
      deliver({ payload }) {
        if (payload === 'doomed') throw new Error('lost');
        received.push(payload);
      },
      close() {},
    });
    const sends = ['one', 'doomed', 'two', 'three'].map((word) => outcome(channel.send(say('alice', 'bob', word))));
    await runtime.advance(699);
    expect(received).toEqual(['one']);
    await runtime.advance(1);
    expect(received).toEqual(['one', 'two', 'three']);
    expect((await Promise.all(sends)).map(({ code }) => code)).toEqual([
      undefined,
      'DELIVERY_FAILED',
      undefined,
      undefined,
    ]);
  });

  it('gives each message its own allowance of retries [R3.5]', async () => {
    let calls = 0;
    const received: unknown[] = [];
    const { channel, say, runtime } = bareChannel({
      kind: 'local',
      deliver({ payload }) {
        if (++calls % 4 !== 0) throw new Error('lost');
        received.push(payload);
      },
      close() {},
    });
    const sends = [1, 2, 3].map((n) => outcome(channel.send(say('alice', 'bob', n))));
    await runtime.advance(3 * 700);
    expect(received).toEqual([1, 2, 3]);
    expect(await Promise.all(sends)).toEqual([{}, {}, {}]);
  });

  it('refuses envelopes beyond its queue with QUEUE_FULL, and loses none that it accepted', async () => {
    const { near, far, runtime, say } = await openPair({ listen: false, limits: { queueCapacity: 2 } });
    const sends = [1, 2, 3].map((n) => outcome(near.send(say('alice', 'bob', n))));
    expect(await sends[2]).toMatchObject({ code: 'QUEUE_FULL' });
    const heard = listen(far);
    await runtime.advance(100);
    expect(heard).toEqual([1, 2]);
    await near.send(say('alice', 'bob', 4));
    expect(heard).toEqual([1, 2, 4]);
    expect((await Promise.all(sends)).map(({ code }) => code)).toEqual([undefined, undefined, 'QUEUE_FULL']);
  });

  it('refuses envelopes that are not from this end to the other as SENDER_REFUSED', async () => {
    const { near, far, heardFar, heardNear, say } = await openPair();
    for (const envelope of [say('bob', 'alice', 1), say('carol', 'bob', 1), say('alice', 'carol', 1)]) {
      expect(await outcome(near.send(envelope))).toMatchObject({ code: 'SENDER_REFUSED' });
    }
    expect(await outcome(far.send(say('alice', 'bob', 1)))).toMatchObject({ code: 'SENDER_REFUSED' });
    expect([...heardFar, ...heardNear]).toEqual([]);
  });

  it('refuses values that are not envelopes', async () => {
    const { near, heardFar, say } = await openPair();
    const real = say('alice', 'bob', 1);
    expect(await outcome(near.send({ ...real, payload: () => {} }))).toMatchObject({ code: 'INVALID_ENVELOPE' });
    expect(await outcome(near.send({ ...real, schemaVersion: 2 } as unknown as A2AEnvelope))).toMatchObject({
      code: 'SCHEMA_VERSION_MISMATCH',
    });
    expect(heardFar).toEqual([]);
  });

  it('does not deliver a message whose time to live ran out while it waited', async () => {
    const { near, far, runtime, say } = await openPair({ listen: false });
    const sent = outcome(near.send(say('alice', 'bob', 'stale', { metadata: { ttlMs: 50 } })));
    const heard = listen(far);
    await runtime.advance(700);
    expect(heard).toEqual([]);
    expect(await sent).toMatchObject({ code: 'EXPIRED' });
  });
});

describe('receiving on a channel', () => {
  it('goes on when a handler throws: the others hear it, the sender is not told, the next message comes [R3.4]', async () => {
    const { near, far, say, events } = await openPair({ listen: false });
    far.onMessage(() => {
      throw new Error('careless');
    });
    const heard = listen(far);
    await near.send(say('alice', 'bob', 1));
    await near.send(say('alice', 'bob', 2));
    expect(heard).toEqual([1, 2]);
    expect(events.filter((event) => event.type === 'delivery-failure')).toEqual([]);
  });

  it('calls a handler no more once it was taken off', async () => {
    const { near, far, say } = await openPair({ listen: false });
    const first: unknown[] = [];
    const stop = far.onMessage((envelope) => first.push(envelope.payload));
    const second = listen(far);
    await near.send(say('alice', 'bob', 1));
    stop();
    await near.send(say('alice', 'bob', 2));
    expect(first).toEqual([1]);
    expect(second).toEqual([1, 2]);
  });

  it('lets a handler answer on the channel at once [R3.2]', async () => {
    const { near, far, say } = await openPair({ listen: false });
    const answers = listen(near);
    far.onMessage((envelope) => void far.send(say('bob', 'alice', `re: ${envelope.payload}`)));
    await Promise.all([1, 2, 3].map((n) => near.send(say('alice', 'bob', n))));
    expect(answers).toEqual(['re: 1', 're: 2', 're: 3']);
  });
});

describe('a channel whose transport went away', () => {
  it('keeps its queue and resumes in order, the interrupted message first', async () => {
    const received: unknown[] = [];
    let connected = true;
    const { channel, say, runtime } = bareChannel({
      kind: 'websocket',
      deliver({ payload }) {
        if (!connected) return new Promise<void>(() => {});
        received.push(payload);
        return undefined;
      },
      close() {},
    });
    connected = false;
    const sends = [outcome(channel.send(say('alice', 'bob', 1)))];
    channel.report({ type: 'disconnected' });
    sends.push(outcome(channel.send(say('alice', 'bob', 2))));
    await runtime.advance(59_999);
    expect([channel.status, received]).toEqual(['reconnecting', []]);
    connected = true;
    channel.report({ type: 'reconnected' });
    sends.push(outcome(channel.send(say('alice', 'bob', 3))));
    await runtime.advance(0);
    expect(received).toEqual([1, 2, 3]);
    expect(await Promise.all(sends)).toEqual([{}, {}, {}]);
  });

  it('ignores the late outcome of an attempt from before the disconnection', async () => {
    const attempts: { resolve: (value: undefined) => void }[] = [];
    const { channel, say, runtime } = bareChannel({
      kind: 'websocket',
      deliver() {
        const attempt = deferred<undefined>();
        attempts.push(attempt);
        return attempt.promise.then(() => {});
      },
      close() {},
    });
    const seen: Outcome<void>[] = [];
    void outcome(channel.send(say('alice', 'bob', 1))).then((result) => seen.push(result));
    channel.report({ type: 'disconnected' });
    channel.report({ type: 'reconnected' });
    expect(attempts).toHaveLength(2);
    attempts[0]!.resolve(undefined);
    await runtime.advance(0);
    expect(seen).toEqual([]);
    attempts[1]!.resolve(undefined);
    await runtime.advance(0);
    expect(seen).toEqual([{}]);
  });

  it('makes no attempt and spends no retry until it is back', async () => {
    let attempts = 0;
    const { channel, say, runtime } = bareChannel({
      kind: 'websocket',
      deliver() {
        attempts++;
        throw new Error('lost');
      },
      close() {},
    });
    const sent = outcome(channel.send(say('alice', 'bob', 1)));
    await runtime.advance(50);
    channel.report({ type: 'disconnected' });
    await runtime.advance(10_000);
    expect(attempts).toBe(1);
    channel.report({ type: 'reconnected' });
    await runtime.advance(10_000);
    expect(attempts).toBe(4);
    expect(await sent).toMatchObject({ code: 'DELIVERY_FAILED' });
  });

  it('closes when it was away too long, and fails each message it kept with one event [E.DELIVERY_FAILED]', async () => {
    const { channel, say, runtime, events } = bareChannel(reliable([]), { reconnectMs: 5_000 });
    channel.report({ type: 'disconnected' });
    const sends = [1, 2].map((n) => outcome(channel.send(say('alice', 'bob', n))));
    await runtime.advance(4_999);
    expect(channel.status).toBe('reconnecting');
    await runtime.advance(1);
    expect(channel.status).toBe('closed');
    expect((await Promise.all(sends)).map(({ code }) => code)).toEqual(['DELIVERY_FAILED', 'DELIVERY_FAILED']);
    expect(events.filter((event) => event.type === 'delivery-failure').map((event) => event.code)).toEqual([
      'DELIVERY_FAILED',
      'DELIVERY_FAILED',
    ]);
    expect(() => channel.report({ type: 'reconnected' })).toThrow(coded('INVALID_TRANSITION'));
    expect(runtime.pending).toBe(0);
  });

  it('says of an interrupted message that its outcome is unknown, and of a waiting one that it was not delivered', async () => {
    const { channel, say, runtime } = bareChannel({
      kind: 'websocket',
      deliver: () => new Promise<void>(() => {}),
      close() {},
    });
    const interrupted = outcome(channel.send(say('alice', 'bob', 1)));
    const waiting = outcome(channel.send(say('alice', 'bob', 2)));
    channel.report({ type: 'disconnected' });
    await runtime.advance(60_000);
    expect(await waiting).toMatchObject({ code: 'DELIVERY_FAILED', details: { outcome: 'not-delivered' } });
    expect(await interrupted).toMatchObject({ code: 'DELIVERY_FAILED', details: { outcome: 'unknown' } });
  });

  it('does not close after it came back in time', async () => {
    const { channel, runtime } = bareChannel(reliable([]));
    channel.report({ type: 'disconnected' });
    await runtime.advance(59_999);
    channel.report({ type: 'reconnected' });
    expect(runtime.pending).toBe(0);
    await runtime.advance(60_000);
    expect(channel.status).toBe('open');
  });

  it.each(['near', 'far'] as const)('closes both ends when its %s end was away too long [R3.3]', async (end) => {
    const { near, far, channels, runtime } = await openPair();
    (end === 'near' ? near : far).report({ type: 'disconnected' });
    await runtime.advance(60_000);
    expect([near.status, far.status]).toEqual(['closed', 'closed']);
    expect(channels.listChannels()).toEqual([]);
  });
});

describe('closing a channel', () => {
  it.each(['near', 'far'] as const)('from its %s end closes both and releases it [R3.3 P10]', async (end) => {
    const { near, far, channels, runtime } = await openPair();
    await (end === 'near' ? near : far).close();
    expect([near.status, far.status]).toEqual(['closed', 'closed']);
    expect(channels.getChannel(near.id)).toBeUndefined();
    expect(channels.listChannels()).toEqual([]);
    expect(runtime.pending).toBe(0);
  });

  it('makes every later send fail as CHANNEL_CLOSED, at both ends [E.CHANNEL_CLOSED]', async () => {
    const { near, far, heardFar, heardNear, say } = await openPair();
    await near.close();
    expect(await outcome(near.send(say('alice', 'bob', 1)))).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(await outcome(far.send(say('bob', 'alice', 1)))).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect([...heardFar, ...heardNear]).toEqual([]);
  });

  it('is done once, however often it is asked for', async () => {
    let closings = 0;
    const { channel, events } = bareChannel({ ...reliable([]), close: () => void closings++ });
    await Promise.all([channel.close(), channel.close()]);
    await channel.close();
    expect(closings).toBe(1);
    expect(events.filter((event) => event.channelStatus === 'closed')).toHaveLength(1);
  });

  it.each(['near', 'far'] as const)(
    'from its %s end fails what waits as CHANNEL_CLOSED, with one event each, and stops retrying [R3.3 E.CHANNEL_CLOSED]',
    async (end) => {
      const { near, far, runtime, say, events } = await openPair({ listen: false });
      const sends = [1, 2].map((n) => outcome(near.send(say('alice', 'bob', n))));
      await runtime.advance(50);
      await (end === 'near' ? near : far).close();
      expect((await Promise.all(sends)).map(({ code }) => code)).toEqual(['CHANNEL_CLOSED', 'CHANNEL_CLOSED']);
      expect(events.filter((event) => event.type === 'delivery-failure').map((event) => event.code)).toEqual([
        'CHANNEL_CLOSED',
        'CHANNEL_CLOSED',
      ]);
      expect(runtime.pending).toBe(0);
    },
  );

  it('from the other end fails what waits as CHANNEL_CLOSED, whatever went wrong and was mended before [E.CHANNEL_CLOSED]', async () => {
    let failing = true;
    const { channel, say, runtime } = bareChannel({
      kind: 'websocket',
      deliver({ payload }) {
        if (payload === 'never') return new Promise<void>(() => {});
        if (failing) throw new Error('lost');
        return undefined;
      },
      close() {},
    });
    const first = outcome(channel.send(say('alice', 'bob', 'mended')));
    await runtime.advance(50);
    failing = false;
    await runtime.advance(50);
    expect(await first).toEqual({});
    const second = outcome(channel.send(say('alice', 'bob', 'never')));
    await runtime.advance(0);
    channel.report({ type: 'closed' });
    expect(await second).toMatchObject({ code: 'CHANNEL_CLOSED' });
  });

  it('from a handler never tells the sender that the message it heard was not delivered', async () => {
    const { near, far, say } = await openPair({ listen: false });
    const heard: unknown[] = [];
    far.onMessage((envelope) => {
      heard.push(envelope.payload);
      void far.close();
    });
    const sent = await outcome(near.send(say('alice', 'bob', 'goodbye')));
    expect(heard).toEqual(['goodbye']);
    expect(sent.details?.outcome).not.toBe('not-delivered');
  });

  it('closes all of them at once', async () => {
    const { channels } = mesh();
    channels.onChannel('bob', () => true);
    const open = await Promise.all([1, 2, 3].map(() => channels.openChannel('alice', 'bob')));
    await channels.closeAll();
    expect(open.map((channel) => channel.status)).toEqual(['closed', 'closed', 'closed']);
    expect(channels.listChannels()).toEqual([]);
  });

  it('a thousand times after opening leaves no channel and no timer [R3.3]', async () => {
    const { channels, runtime, say } = mesh();
    let far: A2AChannel | undefined;
    channels.onChannel('bob', (channel) => {
      far = channel;
      return true;
    });
    for (let n = 0; n < 1_000; n++) {
      const near = await channels.openChannel('alice', 'bob');
      const sent = outcome(near.send(say('alice', 'bob', n)));
      if (n % 3 === 0) far!.report({ type: 'disconnected' });
      await (n % 2 === 0 ? near : far!).close();
      expect((await sent).code).toBeDefined();
    }
    expect(channels.listChannels()).toEqual([]);
    expect(runtime.pending).toBe(0);
  });
});

describe('policy on a channel', () => {
  it('keeps a tier from opening one to a tier it may not address, with one security event [E.TIER_VIOLATION R4.5]', async () => {
    const { channels, events } = mesh();
    let asked = false;
    channels.onChannel('bob', () => {
      asked = true;
      return true;
    });
    expect(await outcome(channels.openChannel('earth', 'bob'))).toMatchObject({ code: 'TIER_VIOLATION' });
    expect(security(events)).toEqual(['TIER_VIOLATION']);
    expect([asked, channels.listChannels()]).toEqual([false, []]);
  });

  it('keeps a sandboxed agent from opening one out of its sandbox, with one security event [E.SANDBOX_VIOLATION R10.1 R10.2]', async () => {
    const { channels, events } = mesh();
    channels.onChannel('bob', () => true);
    expect(await outcome(channels.openChannel('boxed', 'bob'))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(security(events)).toEqual(['SANDBOX_VIOLATION']);
    expect(channels.listChannels()).toEqual([]);
  });

  it('tells a sandboxed agent the same of an agent outside and of none, and reports both [T-F14]', async () => {
    const { channels, events } = mesh();
    const told = async (to: string) => {
      const error = await channels.openChannel('boxed', to).catch((thrown: EclipticError) => thrown);
      return JSON.parse(JSON.stringify(error).replaceAll(to, 'NAME'));
    };
    expect(await told('nowhere')).toEqual(await told('bob'));
    expect(security(events)).toEqual(['SANDBOX_VIOLATION', 'SANDBOX_VIOLATION']);
    expect(await outcome(channels.openChannel('alice', 'nowhere'))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
  });

  it('lets a sandboxed agent open one to whom its sandbox allows [R10.1]', async () => {
    const { channels, policy } = mesh();
    policy.setSandboxConfig({ enforced: true, allow: { box: ['bob'] } });
    channels.onChannel('bob', () => true);
    expect((await channels.openChannel('boxed', 'bob')).status).toBe('open');
  });

  it('judges each message: the accepting end may still not open conversations upwards or downwards [E.TIER_VIOLATION R4.5]', async () => {
    const { near, far, heardNear, events, say } = await openPair({ ends: ['alice', 'earth'] });
    await near.send(say('alice', 'earth', 'hello'));
    expect(await outcome(far.send(say('earth', 'alice', 'do this')))).toMatchObject({ code: 'TIER_VIOLATION' });
    expect(security(events)).toEqual(['TIER_VIOLATION']);
    expect(heardNear).toEqual([]);
  });

  it('judges each message: a sandboxed end says nothing out of its sandbox, not even in reply [E.SANDBOX_VIOLATION R10.1 R10.2]', async () => {
    const { near, far, heardNear, heardFar, events, say } = await openPair({ ends: ['alice', 'boxed'] });
    await near.send(say('alice', 'boxed', 'question', { type: 'request', correlationId: 'thread' }));
    const reply = say('boxed', 'alice', 'answer', { type: 'response', correlationId: 'thread' });
    expect(await outcome(far.send(reply))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(security(events)).toEqual(['SANDBOX_VIOLATION']);
    expect([heardFar, heardNear]).toEqual([['question'], []]);
  });

  it('lets a reply through by its thread, and only by it [R2.4]', async () => {
    const { near, far, heardNear, events, say } = await openPair({ ends: ['alice', 'earth'] });
    await near.send(say('alice', 'earth', 'question', { type: 'request', correlationId: 'thread' }));
    await far.send(say('earth', 'alice', 'answer', { type: 'response', correlationId: 'thread' }));
    expect(heardNear).toEqual(['answer']);
    expect(security(events)).toEqual([]);
    const forged = say('earth', 'alice', 'forged', { type: 'response', correlationId: 'another' });
    expect(await outcome(far.send(forged))).toMatchObject({ code: 'TIER_VIOLATION' });
    const notAReply = say('earth', 'alice', 'more', { type: 'request', correlationId: 'thread' });
    expect(await outcome(far.send(notAReply))).toMatchObject({ code: 'TIER_VIOLATION' });
    expect(heardNear).toEqual(['answer']);
  });

  it('shares its threads with routed messages: a routed question may be answered on a channel [R2.4]', async () => {
    const { far, heardNear, router, say } = await openPair({ ends: ['alice', 'earth'] });
    router.onReceive('earth', () => {});
    await router.send(say('alice', 'earth', 'question', { type: 'request', correlationId: 'thread' }));
    await far.send(say('earth', 'alice', 'answer', { type: 'response', correlationId: 'thread' }));
    expect(heardNear).toEqual(['answer']);
  });

  it('demands the justification of a proposal upwards [E.ESCALATION_REQUIRED R11.2]', async () => {
    const { near, heardFar, events, say } = await openPair({ ends: ['alice', 'earth'] });
    const bare = say('alice', 'earth', 'plan', { type: 'task-proposal' });
    expect(await outcome(near.send(bare))).toMatchObject({ code: 'ESCALATION_REQUIRED' });
    expect(security(events)).toEqual(['ESCALATION_REQUIRED']);
    const metadata = { escalationJustification: 'the deadline moved' };
    await near.send(say('alice', 'earth', 'plan', { type: 'task-proposal', metadata }));
    expect(heardFar).toEqual(['plan']);
  });

  it('refuses an envelope that contradicts its sender’s card as SENDER_REFUSED, with one security event', async () => {
    const { near, heardFar, events, say } = await openPair();
    const boast = say('alice', 'bob', 1, { metadata: { tier: 0 } });
    expect(await outcome(near.send(boast))).toMatchObject({ code: 'SENDER_REFUSED' });
    expect(security(events)).toEqual(['SENDER_REFUSED']);
    expect(heardFar).toEqual([]);
  });

  it('follows the card as it is now, not as it was when the channel opened [R10.1]', async () => {
    const { near, heardFar, registry, say } = await openPair();
    await near.send(say('alice', 'bob', 'before'));
    registry.register(card('alice', { sandboxId: 'box' }));
    expect(await outcome(near.send(say('alice', 'bob', 'after')))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(heardFar).toEqual(['before']);
  });
});

describe('what the mesh sees of a channel', () => {
  it('counts and reports its messages exactly as routed ones [R12.1 R12.3 R12.4 R11.4]', async () => {
    const message = { type: 'request', correlationId: 'thread' } as const;
    const routed = mesh();
    routed.router.onReceive('earth', () => {});
    await routed.router.send(routed.say('alice', 'earth', 'question', message));
    const channelled = await openPair({ ends: ['alice', 'earth'] });
    await channelled.near.send(channelled.say('alice', 'earth', 'question', message));

    const told = ({ events }: { events: A2ALogEvent[] }) =>
      events
        .filter((event) => event.type !== 'channel-status')
        .map(
          ({ type, sender, recipient, messageType, correlationId, routingPath, success, sourceTier, targetTier }) => ({
            ...{ type, sender, recipient, messageType, correlationId },
            ...{ routingPath, success, sourceTier, targetTier },
          }),
        );
    expect(told(channelled).map(({ type }) => type)).toEqual([
      'message-sent',
      'routing-decision',
      'tier-audit',
      'message-received',
    ]);
    expect(told(channelled)).toEqual(told(routed));
    expect(channelled.observability.getMetrics()).toEqual(routed.observability.getMetrics());
    expect(channelled.observability.getMetrics()).toMatchObject({ totalMessagesSent: 1, totalMessagesReceived: 1 });
    expect(channelled.threads.get('thread').map((envelope) => envelope.payload)).toEqual(['question']);
  });

  it('counts a refused and an undelivered message as an error, not as sent [R12.4]', async () => {
    const { near, far, observability, runtime, say } = await openPair({ ends: ['alice', 'earth'], listen: false });
    expect(await outcome(far.send(say('earth', 'alice', 1)))).toMatchObject({ code: 'TIER_VIOLATION' });
    const undelivered = outcome(near.send(say('alice', 'earth', 1)));
    await runtime.advance(700);
    expect(await undelivered).toMatchObject({ code: 'DELIVERY_FAILED' });
    expect(observability.getMetrics()).toMatchObject({
      totalMessagesSent: 0,
      totalMessagesReceived: 0,
      errorCount: 2,
      errorsByCode: { TIER_VIOLATION: 1, DELIVERY_FAILED: 1 },
    });
  });
});

interface Outcome<T> {
  value?: T;
  code?: string;
  details?: Readonly<Record<string, unknown>>;
}

/** How a promise ended, without anything left unhandled while the clock stands still. */
function outcome<T>(promise: Promise<T>): Promise<Outcome<T>> {
  return promise.then(
    (value) => (value === undefined ? {} : { value }),
    (error: unknown) => {
      if (!(error instanceof EclipticError)) throw error;
      return { code: error.code, details: error.details };
    },
  );
}

function coded(code: string) {
  return expect.objectContaining({ code });
}

function deferred<T>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function security(events: readonly A2ALogEvent[]) {
  return events.filter((event) => event.type === 'security').map((event) => event.code);
}

/** Everything heard on one end, from now on. */
function listen(channel: A2AChannel): unknown[] {
  const heard: unknown[] = [];
  channel.onMessage((envelope) => heard.push(envelope.payload));
  return heard;
}

function card(id: string, changes: Partial<AgentCard> = {}): AgentCard {
  return {
    id,
    name: id.toUpperCase(),
    version: '1.0.0',
    description: '',
    tier: 3,
    protocols: [],
    endpoints: [],
    capabilities: [],
    revision: 0,
    origin: 'local',
    lastSeenAt: 0,
    ...changes,
  };
}

/** A mesh without links: alice, bob and carol at L3, earth at L1, boxed at L3 in sandbox "box". */
function mesh(limits: ChannelManagerInit = {}) {
  const runtime = new SimulatedRuntime();
  const policy = new Policy();
  const registry = new AgentRegistry({ policy, nodeKey: 'home' });
  const observability = new A2AObservability();
  const threads = new ThreadTable(runtime);
  const factory = new EnvelopeFactory(runtime);
  const router = new A2ARouter({ runtime, registry, policy, observability, threads });
  const channels = new ChannelManager({ runtime, factory, registry, router, observability }, limits);
  for (const id of ['alice', 'bob', 'carol']) registry.register(card(id));
  registry.register(card('earth', { tier: 1 }));
  registry.register(card('boxed', { sandboxId: 'box' }));
  const events: A2ALogEvent[] = [];
  observability.subscribe((event) => events.push(event));
  const say = (sender: string, recipient: string, payload: unknown, init: Partial<EnvelopeInit> = {}) =>
    factory.create({ sender, recipient, type: 'notification', payload, ...init });
  return { runtime, policy, registry, observability, threads, router, channels, events, say };
}

/** Both ends of an open channel, and the envelopes that each receives. */
async function openPair(init: { ends?: [string, string]; listen?: boolean; limits?: ChannelManagerInit } = {}) {
  const [opener, acceptor] = init.ends ?? ['alice', 'bob'];
  const parts = mesh(init.limits);
  const accepted = deferred<A2AChannel>();
  parts.channels.onChannel(acceptor, (channel) => {
    accepted.resolve(channel);
    return true;
  });
  const near = await parts.channels.openChannel(opener, acceptor);
  const far = await accepted.promise;
  const silent = init.listen === false;
  return { ...parts, near, far, heardNear: silent ? [] : listen(near), heardFar: silent ? [] : listen(far) };
}

/** One end of a channel from alice to bob, on the given transport. Open unless told otherwise. */
function bareChannel(
  transport: ChannelTransport,
  init: { rules?: ChannelRules; reconnectMs?: number; opened?: boolean } = {},
) {
  const parts = mesh();
  const { runtime, observability, router } = parts;
  const channel = new A2AChannel(
    { runtime, observability, transport, admit: (envelope) => router.admit(envelope) },
    {
      id: runtime.id(),
      localAgentId: 'alice',
      remoteAgentId: 'bob',
      rules: init.rules ?? RULES,
      reconnectMs: init.reconnectMs ?? 60_000,
    },
  );
  if (init.opened !== false) channel.report({ type: 'acknowledged' });
  return { ...parts, channel };
}

function reliable(received: unknown[]): ChannelTransport {
  return { kind: 'websocket', deliver: ({ payload }) => void received.push(payload), close() {} };
}
