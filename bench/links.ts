import { once } from 'node:events';
import { createNode, type EclipticNode } from 'ecliptic';
import DHT from 'hyperdht';
import { WebSocket } from 'ws';
import { compare, type Report, type Runner } from './compare.js';
import type { Bare } from './links-peer.js';
import { Peer } from './peer-process.js';

const SUITE = 'links';
/** 256 bytes of JSON. */
const PAYLOAD = { text: 'x'.repeat(245) };
const BYTES = Buffer.alloc(256, 120);
/** Messages in flight at once, on every path. */
const WINDOW = 4_096;
/** Messages that are sent in one go. */
const BURST = 256;
const SIZES = [2, 10, 30];

/** Two processes: our links, with acknowledgement, de-duplication and policy, beside the bare mechanism of each. */
export async function run(report: Report): Promise<void> {
  const dht = await Peer.start({ role: 'dht' });
  const { address: bootstrap } = dht.ready as Bare;
  try {
    await overWebsocket(report);
    await overHyperswarm(report, bootstrap);
    for (const size of SIZES) await growth(report, size, bootstrap);
  } finally {
    await dht.stop();
  }
}

async function overWebsocket(report: Report): Promise<void> {
  const ours = await meshOfTwo({ dht: false, listen: { host: '127.0.0.1', port: 0 } });
  const theirs = await Peer.start({ role: 'websocket' });
  const socket = new WebSocket((theirs.ready as Bare).address, { perMessageDeflate: false });
  await once(socket, 'open');
  const bare = bareRunners(
    (frame) => socket.send(frame),
    (listener) => socket.on('message', listener),
    () => {
      return new Promise((resolve) => socket.send(BYTES, () => resolve()));
    },
  );
  report.comparison(await compare(SUITE, 'websocket/bare-ws', ours.oneWay, bare.oneWay, 'msg/s'));
  report.comparison(await compare(SUITE, 'websocket-rtt/bare-ws', ours.roundTrip, bare.roundTrip, 'req/s'));
  socket.terminate();
  await theirs.stop();
  await ours.stop();
}

async function overHyperswarm(report: Report, bootstrap: string): Promise<void> {
  const ours = await meshOfTwo({ bootstrap: [bootstrap] });
  const theirs = await Peer.start({ role: 'hyperswarm', bootstrap });
  const dht = new DHT({ bootstrap: [bootstrap], host: '127.0.0.1' });
  const stream = dht.connect(Buffer.from((theirs.ready as Bare).address, 'hex'));
  await new Promise<void>((resolve) => stream.on('open', () => resolve()));
  const bare = bareRunners(
    (frame) => stream.write(frame),
    (listener) => stream.on('data', listener),
    async () => {
      if (!stream.write(BYTES)) await new Promise<void>((resolve) => stream.once('drain', () => resolve()));
    },
  );
  report.comparison(await compare(SUITE, 'hyperswarm/bare-stream', ours.oneWay, bare.oneWay, 'msg/s'));
  report.comparison(await compare(SUITE, 'hyperswarm-rtt/bare-stream', ours.roundTrip, bare.roundTrip, 'req/s'));
  stream.destroy();
  await dht.destroy();
  await theirs.stop();
  await ours.stop();
}

/** Time until every registry holds every card, and the memory of a node then. */
async function growth(report: Report, size: number, bootstrap: string): Promise<void> {
  const founder = await createNode({ network: { bootstrap: [bootstrap], dht: true } });
  for (let i = 0; i < 21; i++) founder.agent({ id: `agent-${i}` });
  const cards = size * 21;
  const codes = await Promise.all(Array.from({ length: size - 1 }, () => founder.network!.invite()));
  const started = performance.now();
  const peers = await Promise.all(
    codes.map(({ code }) => Peer.start({ role: 'member', code, bootstrap, agents: 21, cards })),
  );
  await until(() => founder.registry.size === cards);
  report.figure(SUITE, `${size} nodes, every card everywhere`, Math.round(performance.now() - started), 'ms');
  const weights = peers.map(({ ready }) => (ready as { bytes: number }).bytes).sort((a, b) => a - b);
  report.figure(SUITE, `${size} nodes, memory of one`, Math.round(weights[weights.length >> 1]! / 1_048_576), 'MiB');
  await Promise.all(peers.map((peer) => peer.stop()));
  await founder.stop();
}

async function meshOfTwo(network: NonNullable<Parameters<typeof createNode>[0]>['network']) {
  const node: EclipticNode = await createNode({ network });
  const sun = node.agent({ id: 'sun' });
  const { code } = await node.network!.invite();
  const peer = await Peer.start({ role: 'member', code, bootstrap: network?.bootstrap?.[0], agents: 1, cards: 2 });
  await until(() => node.registry.getById('agent-0') !== undefined);
  const to = 'agent-0';
  const oneWay: Runner = async (count) => {
    const underWay: Promise<unknown>[] = [];
    for (let sent = 0; sent < count; sent += BURST) {
      const burst = Math.min(BURST, count - sent);
      underWay.push(Promise.all(Array.from({ length: burst }, () => sun.send(to, PAYLOAD))));
      if (underWay.length >= WINDOW / BURST) await underWay.shift();
    }
    await Promise.all(underWay);
  };
  const roundTrip: Runner = async (count) => {
    for (let i = 0; i < count; i++) await sun.request(to, PAYLOAD);
  };
  const stop = async () => {
    await peer.stop();
    await node.stop();
  };
  return { oneWay, roundTrip, stop };
}

/** The bare mechanism: one message a frame; the other side says when it has counted them all, or echoes. */
function bareRunners(
  send: (frame: Uint8Array) => unknown,
  onFrame: (listener: (frame: Uint8Array) => void) => unknown,
  sendAndDrain: () => Promise<void>,
): { oneWay: Runner; roundTrip: Runner } {
  let heard: () => void = () => {};
  onFrame(() => heard());
  const answer = () =>
    new Promise<void>((resolve) => {
      heard = resolve;
    });
  const oneWay: Runner = async (count) => {
    const counted = answer();
    send(Buffer.from(`count ${count}`));
    for (let i = 1; i <= count; i++) {
      if (i % (WINDOW / 2) === 0) await sendAndDrain();
      else send(BYTES);
    }
    await counted;
  };
  const roundTrip: Runner = async (count) => {
    for (let i = 0; i < count; i++) {
      const echoed = answer();
      send(BYTES);
      await echoed;
    }
  };
  return { oneWay, roundTrip };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
