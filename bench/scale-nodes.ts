import { writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import type { Report } from './compare.js';
import type { Bare } from './links-peer.js';
import { NatsServer } from './nats-server.js';
import { Peer } from './peer-process.js';
import type { Scaled, ScaleRole, Sent } from './scale-peer.js';
import { type Measured, picture } from './scale-picture.js';
import { QUICK, sized } from './settings.js';

const PROCESSES = sized(10, 2);
const SIZES = QUICK ? [4] : [10, 30, 60];
const SIZES_OVER_NATS = QUICK ? [4] : [10, 30, 100];
const MINUTE = 60_000;
const IDLE_MS = sized(20_000, 2_000);

/**
 * Larger and larger meshes, one agent a node: the time until every registry holds every card, and what a node costs. With
 * `--write`, the figures and their picture in the documentation are replaced.
 */
export async function nodes(report: Report, suite: string): Promise<void> {
  const measured: Measured[] = [];
  const loadBefore = loadavg()[0]!;
  const dht = await Peer.start({ role: 'dht' });
  try {
    const network = { bootstrap: [(dht.ready as Bare).address] };
    for (const size of SIZES) measured.push(await mesh(report, suite, 'p2p', size, network));
  } finally {
    await dht.stop();
  }
  const server = await NatsServer.start();
  try {
    for (const size of SIZES_OVER_NATS) {
      const nats = { servers: [server.url], mesh: `scale-${size}` };
      measured.push(await mesh(report, suite, 'nats', size, { nats }));
    }
  } finally {
    await server.stop();
  }
  if (process.argv.includes('--write')) write(measured, loadBefore);
}

function write(measured: readonly Measured[], loadBefore: number): void {
  // From the compiled folder, two levels up.
  const docs = new URL('../../docs/', import.meta.url);
  const machine = { cores: cpus().length, node: process.version, loadBefore: Math.round(loadBefore * 10) / 10 };
  writeFileSync(
    new URL('scale.json', docs),
    `${JSON.stringify({ machine, processes: PROCESSES, measured }, null, 2)}\n`,
  );
  writeFileSync(new URL('images/scale.svg', docs), picture(measured));
}

/** Nodes that are up and alone join one mesh at once. */
async function mesh(
  report: Report,
  suite: string,
  name: Measured['network'],
  total: number,
  network: object,
): Promise<Measured> {
  const role: ScaleRole = { nodes: total / PROCESSES, total, network };
  const modules = await moduleBytes({ ...role, nodes: 0 });
  const peers: Peer[] = [];
  try {
    while (peers.length < PROCESSES) peers.push(await Peer.start(role, './scale-peer.js'));
    const codes = await peers[0]!.ask<string[]>('invite');
    const started = Date.now();
    const answers = await Promise.all(
      peers.map((peer, index) => {
        // The first node of the first process has founded the mesh.
        const from = index * role.nodes + (index === 0 ? 1 : 0);
        return peer.ask<Scaled>({ join: codes.slice(from, (index + 1) * role.nodes) });
      }),
    );
    const sum = (of: (answer: Scaled) => number) => answers.reduce((all, answer) => all + of(answer), 0);
    const figure = (what: string, value: number, unit: string) => {
      const rounded = Math.round(value * 10) / 10;
      report.figure(suite, `${name}-${total}/${what}`, rounded, unit);
      return rounded;
    };
    const completeAt = Math.max(...answers.map((answer) => answer.completeAt));
    const everyCardMs = figure('every card everywhere', completeAt - started, 'ms');
    const cpuMs = figure('CPU of a node', sum((answer) => answer.cpuMs) / total, 'ms');
    const links = figure('links of a node', sum((answer) => answer.links) / total, 'links');
    const gained = sum(({ heapBytes }) => heapBytes) - PROCESSES * modules;
    const memoryKiB = figure('memory that a node gains', gained / total / 1_024, 'KiB');
    figure('memory of a process with its nodes', sum(({ rssBytes }) => rssBytes) / PROCESSES / 1_048_576, 'MiB');
    figure('frames of a node until then', sum(({ frames }) => frames) / total, 'frames');
    figure('sent by a node until then', sum(({ bytes }) => bytes) / total / 1_024, 'KiB');
    const idle = await Promise.all(peers.map((peer) => peer.ask<Sent>({ idleMs: IDLE_MS })));
    const ofIdle = (of: (sent: Sent) => number) =>
      (idle.reduce((all, sent) => all + of(sent), 0) / total) * (MINUTE / IDLE_MS);
    const idleFrames = figure(
      'frames of an idle node a minute',
      ofIdle(({ frames }) => frames),
      'frames',
    );
    const idleKiB = figure('sent by an idle node a minute', ofIdle(({ bytes }) => bytes) / 1_024, 'KiB');
    return { network: name, nodes: total, everyCardMs, cpuMs, memoryKiB, links, idleFrames, idleKiB };
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
  }
}

/** The memory that the modules of a network take in each process. */
async function moduleBytes(role: ScaleRole): Promise<number> {
  const peer = await Peer.start(role, './scale-peer.js');
  try {
    return await peer.ask<number>('modules');
  } finally {
    await peer.stop();
  }
}
