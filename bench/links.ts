import { once } from 'node:events';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { createNode, type EclipticNode } from 'ecliptic';
import DHT from 'hyperdht';
import { WebSocket } from 'ws';
import { compareCpu, cpuRound, isWanted, type Report, type Round, type Runner } from './compare.js';
import { natsStream, PromisedSender, secured, webSocketStream } from './links-by-hand.js';
import type { Bare } from './links-peer.js';
import { NatsServer } from './nats-server.js';
import { Peer } from './peer-process.js';
import { sized } from './settings.js';

const SUITE = 'links';
/** 256 bytes of JSON, and 64 KiB of it. */
const PAYLOAD = { text: 'x'.repeat(245) };
const LARGE_PAYLOAD = { text: 'x'.repeat(65_525) };
const BYTES = Buffer.alloc(256, 120);
const LARGE_BYTES = Buffer.alloc(65_536, 120);
/** Messages in flight at once on every path, those that are sent in one go, and the same for large ones. */
const WINDOW = 4_096;
const BURST = 256;
const LARGE_WINDOW = 32;
const LARGE_BURST = 4;
/** Round trips under way at once. */
const LANES = 32;
/** CPU time of a round: by the clock, a round would be shorter on a busy machine, and its code not warm. */
const ROUND_MICROS = sized(600_000, 60_000);

/** What one side of a comparison does, and the CPU time of the processes that take part in it besides this one. */
interface Side {
  readonly oneWay: Runner;
  readonly large?: Runner;
  readonly stream?: Runner;
  readonly roundTrip?: Runner;
  readonly roundTrips?: Runner;
  readonly otherMicros: () => Promise<number>;
  readonly stop: () => Promise<void>;
}

/**
 * Two processes: our links, with envelopes, policy, encryption and acknowledgement, beside the bare mechanism of each, and
 * beside a small program that makes the same promises over it. The CPU time of all processes counts, also the broker's.
 */
export async function run(report: Report): Promise<void> {
  await overWebsocket(report);
  await overHyperswarm(report);
  await overNats(report);
}

async function overWebsocket(report: Report): Promise<void> {
  const ours = await meshOfTwo({ dht: false, listen: { host: '127.0.0.1', port: 0 } });
  const peer = await Peer.start({ role: 'websocket' });
  const open = async (path: string) => {
    const socket = new WebSocket(`${(peer.ready as Bare).address}${path}`, { perMessageDeflate: false });
    await once(socket, 'open');
    return socket;
  };
  const socket = await open('/bare');
  const otherMicros = () => microsOf(peer);
  const bare: Side = {
    ...bareRunners(
      (frame) => socket.send(frame),
      (listener) => socket.on('message', listener),
      (frame) => new Promise((resolve) => socket.send(frame, () => resolve())),
    ),
    otherMicros,
    stop: () => peer.stop(),
  };
  const promised = new PromisedSender(await secured(true, webSocketStream(await open('/promised'))));
  await compareAll(report, 'websocket', 'bare-ws', ours, bare, { oneWay: promisedRunner(promised), otherMicros });
}

async function overHyperswarm(report: Report): Promise<void> {
  const dht = await Peer.start({ role: 'dht' });
  const { address: bootstrap } = dht.ready as Bare;
  const ours = await meshOfTwo({ bootstrap: [bootstrap] });
  const peer = await Peer.start({ role: 'hyperswarm', bootstrap });
  const caller = new DHT({ bootstrap: [bootstrap], host: '127.0.0.1' });
  const open = async (key: string) => {
    const stream = caller.connect(Buffer.from(key, 'hex'));
    await new Promise<void>((resolve) => stream.on('open', () => resolve()));
    return stream;
  };
  const [bareKey, promisedKey] = (peer.ready as Bare).address.split(' ');
  const stream = await open(bareKey!);
  const otherMicros = () => microsOf(peer);
  const bare: Side = {
    ...bareRunners(
      (frame) => stream.write(frame),
      (listener) => stream.on('data', listener),
      async (frame) => {
        if (!stream.write(frame)) await new Promise<void>((resolve) => stream.once('drain', () => resolve()));
      },
    ),
    otherMicros,
    stop: async () => {
      stream.destroy();
      await caller.destroy();
      await peer.stop();
      await dht.stop();
    },
  };
  const promised = new PromisedSender(await open(promisedKey!));
  await compareAll(report, 'hyperswarm', 'bare-stream', ours, bare, { oneWay: promisedRunner(promised), otherMicros });
}

/** Beside one publish for each message. */
async function overNats(report: Report): Promise<void> {
  const server = await NatsServer.start();
  const ours = await meshOfTwo({ nats: { servers: [server.url] } }, () => server.cpuMicros());
  const peer = await Peer.start({ role: 'nats', url: server.url });
  const connection: NatsConnection = await connect({ servers: server.url });
  const otherMicros = async () => (await microsOf(peer)) + server.cpuMicros();
  const bare: Side = {
    ...bareRunners(
      (frame) => connection.publish('bare.there', frame),
      (listener) => connection.subscribe('bare.back', { callback: (_, { data }) => listener(data) }),
      async (frame) => {
        connection.publish('bare.there', frame);
        // The broker disconnects a reader for which 64 MiB wait, so a sender of large messages has to know what was read.
        if (frame === LARGE_BYTES) await connection.request('bare.read', undefined, { timeout: 30_000 });
        else await connection.flush();
      },
    ),
    otherMicros,
    stop: async () => {
      await connection.close();
      await peer.stop();
      await server.stop();
    },
  };
  await connection.flush();
  const promised = new PromisedSender(await secured(true, natsStream(connection, 'promised.there', 'promised.back')));
  await compareAll(report, 'nats', 'bare-publish', ours, bare, { oneWay: promisedRunner(promised), otherMicros });
}

async function compareAll(
  report: Report,
  link: string,
  mechanism: string,
  ours: Side,
  bare: Side,
  promised: Pick<Side, 'oneWay' | 'otherMicros'>,
): Promise<void> {
  const compared = async (
    name: string,
    [our, their]: readonly (Runner | undefined)[],
    theirs: Pick<Side, 'otherMicros'>,
  ) => {
    if (!isWanted(SUITE, name)) return;
    const rounds = [await roundsOf(our!, ours.otherMicros), await roundsOf(their!, theirs.otherMicros)] as const;
    report.comparison(await compareCpu(SUITE, name, ...rounds));
  };
  await compared(`${link}/${mechanism}`, [ours.oneWay, bare.oneWay], bare);
  await compared(`${link}/same-promises`, [ours.oneWay, promised.oneWay], promised);
  await compared(`${link}-64k/${mechanism}`, [ours.large, bare.large], bare);
  await compared(`${link}-stream/${mechanism}`, [ours.stream, bare.oneWay], bare);
  await compared(`${link}-rtt/${mechanism}`, [ours.roundTrip, bare.roundTrip], bare);
  await compared(`${link}-rtt-${LANES}/${mechanism}`, [ours.roundTrips, bare.roundTrips], bare);
  await ours.stop();
  await bare.stop();
}

/** Rounds with about the same CPU time on any path, once the code is warm. */
async function roundsOf(runner: Runner, otherMicros: () => Promise<number>): Promise<() => Promise<Round>> {
  let count = 100;
  for (;;) {
    const { micros } = await cpuRound(runner, count, otherMicros);
    if (micros >= ROUND_MICROS / 2) break;
    count = Math.ceil(count * Math.min(10, Math.max(1.2, ROUND_MICROS / micros)));
  }
  return () => cpuRound(runner, count, otherMicros);
}

async function microsOf(peer: Peer): Promise<number> {
  const { user, system } = await peer.ask<NodeJS.CpuUsage>();
  return user + system;
}

async function meshOfTwo(
  network: NonNullable<Parameters<typeof createNode>[0]>['network'],
  brokerMicros = () => 0,
): Promise<Side> {
  const node: EclipticNode = await createNode({ network });
  const sun = node.agent({ id: 'sun' });
  const { code } = await node.network!.invite();
  const [bootstrap, nats] = [network?.bootstrap?.[0], network?.nats?.servers[0]];
  const peer = await Peer.start({ role: 'member', code, bootstrap, nats });
  await until(() => node.registry.getById('agent-0') !== undefined);
  const to = 'agent-0';
  const roundTrip: Runner = async (count) => {
    for (let i = 0; i < count; i++) await sun.request(to, PAYLOAD);
  };
  return {
    oneWay: inBursts(() => sun.send(to, PAYLOAD), WINDOW, BURST),
    large: inBursts(() => sun.send(to, LARGE_PAYLOAD), LARGE_WINDOW, LARGE_BURST),
    stream: (count) => sun.sendStream(to, items(count)),
    roundTrip,
    roundTrips: inLanes(() => sun.request(to, PAYLOAD)),
    otherMicros: async () => (await microsOf(peer)) + brokerMicros(),
    stop: async () => {
      await peer.stop();
      await node.stop();
    },
  };
}

function promisedRunner(sender: PromisedSender): Runner {
  return inBursts(() => sender.send('agent-0', PAYLOAD), WINDOW, BURST);
}

function* items(count: number) {
  for (let i = 0; i < count; i++) yield PAYLOAD;
}

/** Sends in bursts; a window of messages is not acknowledged yet. */
function inBursts(send: () => Promise<unknown>, window: number, size: number): Runner {
  return async (count) => {
    const underWay: Promise<unknown>[] = [];
    for (let sent = 0; sent < count; sent += size) {
      const burst = Math.min(size, count - sent);
      underWay.push(Promise.all(Array.from({ length: burst }, send)));
      if (underWay.length >= window / size) await underWay.shift();
    }
    await Promise.all(underWay);
  };
}

function inLanes(one: () => Promise<unknown>): Runner {
  return async (count) => {
    let left = count;
    const lane = async () => {
      while (left-- > 0) await one();
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  };
}

/** The bare mechanism: one message a frame; the other side says when it has counted them all, or echoes. */
function bareRunners(
  send: (frame: Uint8Array) => unknown,
  onFrame: (listener: (frame: Uint8Array) => void) => unknown,
  sendAndDrain: (frame: Uint8Array) => Promise<void>,
): Pick<Side, 'oneWay' | 'large' | 'roundTrip' | 'roundTrips'> {
  const waiting: (() => void)[] = [];
  onFrame(() => waiting.shift()?.());
  const answer = () => new Promise<void>((resolve) => void waiting.push(resolve));
  const counting =
    (frame: Uint8Array, drainEach: number): Runner =>
    async (count) => {
      const counted = answer();
      send(Buffer.from(`count ${count}`));
      for (let i = 1; i <= count; i++) {
        if (i % drainEach === 0) await sendAndDrain(frame);
        else send(frame);
      }
      await counted;
    };
  const echo = () => {
    const echoed = answer();
    send(BYTES);
    return echoed;
  };
  const roundTrip: Runner = async (count) => {
    for (let i = 0; i < count; i++) await echo();
  };
  return {
    oneWay: counting(BYTES, WINDOW / 2),
    large: counting(LARGE_BYTES, LARGE_WINDOW / 2),
    roundTrip,
    roundTrips: inLanes(echo),
  };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
