import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { Config } from '../../src/node/config/schema.js';
import type { Flight, Memory, Order, Progress } from './agents/witness.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, type Transport, until, untilConnected } from './cluster.js';
import { FAULTS, type Fault, FaultyWay, onlyThroughProxy } from './faulty-way.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** A silent peer is suspected within this time. */
const SUSPICION_MS = 3_000;
const EVERY_MS = 20;
const TRANSPORTS: [Transport][] = [['websocket'], ['hyperswarm'], ['nats']];

// These tests wait most of the time, so several run at once.

describe.concurrent('a connection between two nodes that fails again and again', () => {
  const cycles = SOAK ? 10 : 3;

  it(
    'loses and duplicates no message and keeps the order; every promise settles [R3.7 RS1]',
    inCluster(async (cluster) => {
      const { a, b, proxy } = await pairThroughProxy(cluster);
      await order(b, { do: 'begin', to: `witness@${a.key}`, everyMs: SOAK ? 100 : EVERY_MS });
      for (let cycle = 0; cycle < cycles; cycle++) {
        const fault = FAULTS[cycle % FAULTS.length]!;
        proxy.fault = fault;
        const healsAt = Date.now() + lengthOf(fault);
        // Whoever still hears the other has nothing to notice.
        if (fault !== 'stall-forth') {
          await until(async () => (await report(b)).status === 'reconnecting', `b notices: ${fault}`);
        }
        await delay(Math.max(0, healsAt - Date.now()));
        proxy.fault = undefined;
        await until(async () => (await report(b)).status === 'open', `the channel is open after: ${fault}`);
        await messagesFlow(b);
        // A channel carries one message at a time; its queue must not grow from fault to fault.
        await until(async () => (await report(b)).waiting <= 1, 'the channel has caught up');
      }
      const flight = await finished(b);
      expect(flight.statuses.filter((status) => status === 'closed')).toEqual([]);
      expect(new Set(flight.channelled)).toEqual(new Set(['delivered']));
      expect(new Set(flight.sent)).toEqual(new Set(['delivered', 'AGENT_UNAVAILABLE']));
      await expectExact(flight, a);
    }),
    SOAK ? 900_000 : 90_000,
  );

  it(
    'closes a channel after its reconnect time, and fails its waiting messages [RS1]',
    inCluster(async (cluster) => {
      const limits = { channels: { reconnectMs: 700 }, peers: { suspectMs: 1_000, heartbeatMs: 250 } };
      const { a, b, proxy } = await pairThroughProxy(cluster, limits);
      await order(b, { do: 'begin', to: `witness@${a.key}`, everyMs: EVERY_MS });
      await messagesFlow(b);
      proxy.fault = 'stall';
      await until(async () => (await report(b)).status === 'closed', 'the channel is closed');
      proxy.fault = undefined;
      await messagesFlow(b);
      const flight = await finished(b);
      expect(flight.statuses.slice(-2)).toEqual(['reconnecting', 'closed']);
      expect(flight.channelled).toContain('CHANNEL_CLOSED');
      await expectExact(flight, a);
    }),
  );
});

describe.concurrent.each(TRANSPORTS)('over %s, a node', (transport) => {
  it(
    'that is paused is suspected, and messages in flight arrive when it resumes [R3.7 RS1]',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster, transport);
      const statuses = await followPeers(cluster, a);
      await order(a, { do: 'begin', to: `witness@${b.key}`, everyMs: EVERY_MS });
      await messagesFlow(a);
      const stoppedAt = Date.now();
      b.signal('SIGSTOP');
      const { timestamp } = await until(() => statuses.find(isOf(b, stoppedAt, 'suspected')), 'b is suspected');
      expect(timestamp - stoppedAt).toBeLessThanOrEqual(SUSPICION_MS);
      expect(await a.stateOf(b)).toBe('suspected');
      expect((await a.agents()).find(({ node }) => node === b.key)).toMatchObject({ state: 'unreachable' });
      expect((await report(a)).status).toBe('reconnecting');
      await expect(a.call('send', { as: 'asker', to: `witness@${b.key}`, payload: -1 })).rejects.toMatchObject({
        code: 'AGENT_UNAVAILABLE',
      });
      b.signal('SIGCONT');
      await until(async () => (await a.stateOf(b)) === 'connected', 'b is connected again');
      await messagesFlow(a);
      const flight = await finished(a);
      expect(flight.statuses.slice(-2)).toEqual(['reconnecting', 'open']);
      expect(flight.transport).toBe(transport);
      expect(new Set(flight.channelled)).toEqual(new Set(['delivered']));
      await expectExact(flight, b);
    }),
  );

  it(
    'that is killed is suspected soon, and reconnects when it is started again [RS1]',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster, transport);
      const statuses = await followPeers(cluster, a);
      await order(a, { do: 'begin', to: `witness@${b.key}`, everyMs: EVERY_MS });
      await messagesFlow(a);
      const killedAt = Date.now();
      await b.crash();
      const missed = await until(() => statuses.find(isOf(b, killedAt, 'suspected', 'away')), 'b is missed');
      expect(missed.timestamp - killedAt).toBeLessThanOrEqual(SUSPICION_MS);
      const key = b.key;
      await b.start();
      expect(b.key).toBe(key);
      await untilConnected([a, b]);
      // Messages in flight to the killed process have a known outcome; the channel to it is closed.
      const flight = await finished(a);
      expect(flight.sent).not.toContain('pending');
      expect(flight.statuses.at(-1)).toBe('closed');
      expect(await a.request('asker', `witness@${b.key}`, { do: 'recall' })).toMatchObject({ channelled: [] });
      expect(await b.request('asker', `witness@${a.key}`, { do: 'recall' })).toMatchObject({ channelled: [] });
      const { notified } = await recalled(b);
      await order(a, { do: 'begin', to: `witness@${b.key}`, everyMs: EVERY_MS });
      await until(async () => (await report(a)).sent >= 10, 'messages flow again');
      await expectExact(await finished(a), b, notified.length);
    }),
  );
});

describe.concurrent.each(TRANSPORTS)('over %s, a node that is gone for too long', (transport) => {
  it(
    'is lost with its agents, and comes back with them when it resumes [RS1]',
    inCluster(async (cluster) => {
      const limits = { peers: { suspectMs: 1_000, heartbeatMs: 250, graceMs: 2_500 } };
      const { a, b } = await pair(cluster, transport, limits);
      await order(a, { do: 'begin', to: `witness@${b.key}`, everyMs: EVERY_MS });
      await messagesFlow(a);
      b.signal('SIGSTOP');
      await until(async () => (await a.stateOf(b)) === 'lost', 'b is lost');
      expect((await a.agents()).map(({ origin }) => origin)).toEqual(['local', 'local']);
      await expect(a.request('asker', `witness@${b.key}`, 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
      const flight = await finished(a);
      expect(flight.statuses.slice(-2)).toEqual(['reconnecting', 'closed']);
      expect(flight.sent).toContain('DELIVERY_FAILED unknown');
      b.signal('SIGCONT');
      await untilConnected([a, b]);
      await until(
        async () => (await a.agents()).length === 4 && (await b.agents()).length === 4,
        'they know all agents',
      );
      await expectExact(flight, b);
      // A node that was silent for long may lose its first new link again.
      const recall = () => b.request('asker', `witness@${a.key}`, { do: 'recall' }).catch(() => undefined);
      expect(await until(recall, 'b reaches a')).toMatchObject({ notified: [] });
    }),
  );
});

describe.concurrent('over nats, the broker', () => {
  for (const [what, fault] of [
    ['is killed and started again', 'kill'],
    ['hangs for a while', 'pause'],
    ['is cut off from one node', 'cut'],
    ['and one node do not hear each other for a while', 'stall'],
  ] as const) {
    it(
      `${what}: no message is lost or duplicated, and the channel resumes [NX.6]`,
      inCluster(async (cluster) => {
        const server = await cluster.natsServer();
        const proxy = await FaultyWay.start(server.port);
        cluster.onEnd(() => proxy.stop());
        const config = configFor(cluster, {});
        const [a, b] = await Promise.all([
          cluster.start('a', { args: ['--nats', server.url], config }),
          cluster.start('b', { args: ['--nats', `nats://127.0.0.1:${proxy.port}`], config }),
        ]);
        await a.admit(b);
        await untilConnected([a, b]);
        await until(async () => (await b.agents()).length === 4, 'b knows all agents');
        await order(b, { do: 'begin', to: `witness@${a.key}`, everyMs: EVERY_MS });
        await messagesFlow(b);
        for (let cycle = 0; cycle < 2; cycle++) {
          if (fault === 'kill') await server.kill();
          else if (fault === 'pause') server.pause();
          else proxy.fault = fault;
          await until(async () => (await report(b)).status === 'reconnecting', `b notices: ${fault}`);
          if (fault === 'kill') await server.start();
          else if (fault === 'pause') server.resume();
          else proxy.fault = undefined;
          await until(async () => (await report(b)).status === 'open', `the channel is open after: ${fault}`);
          await messagesFlow(b);
        }
        const flight = await finished(b);
        expect(new Set(flight.channelled)).toEqual(new Set(['delivered']));
        await expectExact(flight, a);
      }),
    );
  }
});

describe.concurrent('a target', () => {
  it(
    'that is neither here nor on any peer is not found [RS2]',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster, 'websocket');
      for (const to of ['nobody', `nobody@${b.key}`]) {
        await expect(a.call('send', { as: 'asker', to, payload: 1 })).rejects.toMatchObject({
          code: 'AGENT_NOT_FOUND',
        });
        await expect(a.request('asker', to, 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
      }
      await b.stop();
      await until(async () => (await a.stateOf(b)) === 'away', 'b is gone');
      await expect(a.request('asker', `witness@${b.key}`, 1)).rejects.toMatchObject({ code: 'AGENT_UNAVAILABLE' });
      await expect(a.request('asker', 'nobody', 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    }),
  );
});

/** Two agents: one that asks, and one that sends and remembers. */
function configFor(cluster: Cluster, limits: Config['limits']): Config {
  return { roster: false, agents: { asker: { tier: 0 }, witness: { module: cluster.witness() } }, limits };
}

/** Two nodes that are connected. */
async function pair(
  cluster: Cluster,
  transport: Transport,
  limits: Config['limits'] = {},
): Promise<{ a: ProcessNode; b: ProcessNode }> {
  const settings = { args: await cluster.argsFor(transport), config: configFor(cluster, limits) };
  const [a, b] = await Promise.all([cluster.start('a', settings), cluster.start('b', settings)]);
  await a.admit(b);
  await untilConnected([a, b]);
  await until(async () => (await a.agents()).length === 4 && (await b.agents()).length === 4, 'they know all agents');
  return { a, b };
}

/** Two nodes between which a proxy is the only way. */
async function pairThroughProxy(
  cluster: Cluster,
  limits: Config['limits'] = {},
): Promise<{ a: ProcessNode; b: ProcessNode; proxy: FaultyWay }> {
  const config = configFor(cluster, limits);
  const { proxy, called, caller } = await onlyThroughProxy(cluster);
  const [a, b] = await Promise.all([
    cluster.start('a', { ...called, config }),
    cluster.start('b', { ...caller, config }),
  ]);
  await a.admit(b);
  await untilConnected([a, b]);
  await until(async () => (await a.agents()).length === 4 && (await b.agents()).length === 4, 'they know all agents');
  return { a, b, proxy };
}

/** Every change of a peer's state that a node speaks of from now on. */
async function followPeers(cluster: Cluster, node: ProcessNode): Promise<A2ALogEvent[]> {
  const events: A2ALogEvent[] = [];
  const stop = await node.follow((event) => events.push(event), { type: 'peer-status' });
  cluster.onEnd(async () => stop());
  return events;
}

function isOf({ key }: ProcessNode, since: number, ...statuses: string[]) {
  return ({ node, peerStatus, timestamp }: A2ALogEvent) =>
    node === key && timestamp >= since && statuses.includes(peerStatus!);
}

function order(node: ProcessNode, payload: Order): Promise<unknown> {
  return node.request('asker', 'witness', payload);
}

function report(node: ProcessNode): Promise<Progress> {
  return node.request('asker', 'witness', { do: 'report' });
}

/** Waits until something arrives that is sent from now on. */
async function messagesFlow(node: ProcessNode): Promise<void> {
  const { sent } = await report(node);
  await until(async () => (await report(node)).delivered >= sent, 'messages flow');
}

function recalled(node: ProcessNode): Promise<Memory> {
  return node.request('asker', 'witness', { do: 'recall' });
}

/** Stops sending, and returns the outcome of all messages once it is known. */
function finished(node: ProcessNode): Promise<Flight> {
  return node.request('asker', 'witness', { do: 'finish' }, 90_000);
}

/** The recipient has every delivered message, once and in order, and none that was certainly refused. */
async function expectExact(flight: Flight, recipient: ProcessNode, before = 0): Promise<void> {
  const { notified, channelled } = await recalled(recipient);
  expectExactly(notified.slice(before), flight.sent);
  expectExactly(channelled, flight.channelled);
}

function expectExactly(received: readonly unknown[], outcomes: readonly string[]): void {
  const possible = outcomes.flatMap((outcome, number) => (/^delivered$| unknown$/.test(outcome) ? [number] : []));
  const unknown = possible.filter((number) => outcomes[number] !== 'delivered' && !received.includes(number));
  expect(received).toEqual(possible.filter((number) => !unknown.includes(number)));
}

/**
 * How long a fault lasts. One that stops only one direction must be over before what is sent counts as never
 * acknowledged, which takes half a minute.
 */
function lengthOf(fault: Fault): number {
  if (!SOAK) return 3_500;
  const longest = fault === 'stall' || fault === 'cut' ? 30_000 : 15_000;
  return 5_000 + Math.random() * (longest - 5_000);
}
