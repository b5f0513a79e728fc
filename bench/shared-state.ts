import { createNode, type SharedDocument } from 'ecliptic';
import { WebSocket } from 'ws';
import * as Y from 'yjs';
import { compareCpu, cpuRound, type Report } from './compare.js';
import { Peer } from './peer-process.js';
import { sized } from './settings.js';
import type { StateQuestion, StateReady, StateRole } from './shared-state-peer.js';
import { SyncedDoc } from './yjs-over-ws.js';

const SUITE = 'coordination';
const PROGRAM = './shared-state-peer.js';
const OPERATIONS = sized(10_000, 1_000);
const KEYS = 1_000;

/** One round, prepared: runs the operations until the other side has them all. */
type Round = () => void | Promise<void>;

/** Shared documents beside Yjs alone: map operations until the other side has them, in CPU time of all processes. */
export async function run(report: Report): Promise<void> {
  await locally(report);
  await overLink(report);
}

async function locally(report: Report): Promise<void> {
  const node = await createNode();
  const mars = node.agent({ id: 'mars' });
  const venus = node.agent({ id: 'venus' });
  let round = 0;
  const ours = () => {
    const name = `bench-${round++}`;
    const one = mars.state(name);
    const other = venus.state(name);
    return { one, other };
  };
  await measure(
    report,
    'crdt-local/yjs',
    async () => {
      const { one, other } = ours();
      await one.synced();
      return async () => {
        write((key, value) => one.map('plan').set(key, value));
        await one.synced();
        if (other.map('plan').get('last') !== true) throw new Error('it did not arrive');
      };
    },
    () => exchanged(write),
  );
  await measure(
    report,
    'crdt-local-turns/yjs',
    async () => {
      const { one, other } = ours();
      await one.synced();
      return async () => {
        await writeInTurns((key, value) => one.map('plan').set(key, value));
        await one.synced();
        if (other.map('plan').get('last') !== true) throw new Error('it did not arrive');
      };
    },
    () => exchanged(writeInTurns),
  );
  await node.stop();
}

/** Two bare documents that hand each other every update. */
async function exchanged(writer: (set: (key: string, value: unknown) => void) => void | Promise<void>): Promise<Round> {
  const [a, b] = [new Y.Doc(), new Y.Doc()];
  a.on('update', (update: Uint8Array) => Y.applyUpdate(b, update));
  return async () => {
    await writer((key, value) => a.getMap('plan').set(key, value));
    if (b.getMap('plan').get('last') !== true) throw new Error('it did not arrive');
  };
}

async function overLink(report: Report): Promise<void> {
  const node = await createNode({ network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
  const mars = node.agent({ id: 'mars' });
  const { code } = await node.network!.invite();
  const member = await Peer.start<StateRole>({ role: 'state-ours', code }, PROGRAM);
  const server = await Peer.start<StateRole>({ role: 'state-yjs' }, PROGRAM);
  const { port } = server.ready as StateReady;
  const otherMicros = async () => (await microsOf(member)) + (await microsOf(server));
  let round = 0;
  await measure(
    report,
    'crdt-link/y-websocket',
    async () => {
      const name = `bench-${round++}`;
      await member.ask({ open: name } satisfies StateQuestion);
      const document = mars.state(name);
      await met(document);
      return async () => {
        write((key, value) => document.map('plan').set(key, value));
        await until(
          (seen) => document.onChange(seen),
          () => document.map('answer').get('done') === true,
        );
      };
    },
    async () => {
      const name = `bench-${round++}`;
      const doc = new Y.Doc();
      const socket = new WebSocket(`ws://127.0.0.1:${port}/${name}`);
      const synced = new SyncedDoc(doc, socket);
      await synced.ready;
      return async () => {
        write((key, value) => doc.getMap('plan').set(key, value));
        await until(
          (seen) => {
            doc.on('update', seen);
            return () => doc.off('update', seen);
          },
          () => doc.getMap('answer').get('done') === true,
        );
        socket.close();
      };
    },
    otherMicros,
  );
  await server.stop();
  await member.stop();
  await node.stop();
}

function write(set: (key: string, value: unknown) => void): void {
  for (let i = 1; i < OPERATIONS; i++) set(`key-${i % KEYS}`, `value ${i}`);
  set('last', true);
}

/** Each operation in a turn of its own. */
async function writeInTurns(set: (key: string, value: unknown) => void): Promise<void> {
  for (let i = 1; i < OPERATIONS; i++) {
    set(`key-${i % KEYS}`, `value ${i}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
  set('last', true);
}

function until(watch: (seen: () => void) => () => void, condition: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const stop = watch(() => {
      if (!condition()) return;
      stop();
      resolve();
    });
  });
}

/** Whether another member is in the document, with equal content. */
function met(document: SharedDocument): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (document.members.size === 0) return;
      stop();
      resolve();
    };
    const stop = document.onMember(check);
    check();
  });
}

/** CPU time for an operation of both, in alternating rounds. What prepares a round does not count. */
async function measure(
  report: Report,
  name: string,
  ours: () => Promise<Round>,
  theirs: () => Promise<Round>,
  otherMicros?: () => Promise<number>,
): Promise<void> {
  const measured = (prepare: () => Promise<Round>) => async () => {
    const round = await prepare();
    return cpuRound(round, OPERATIONS, otherMicros);
  };
  const [us, them] = [measured(ours), measured(theirs)];
  // The first of each only warms up.
  await us();
  await them();
  report.comparison(await compareCpu(SUITE, name, us, them));
}

async function microsOf(peer: Peer): Promise<number> {
  const { user, system } = await peer.ask<NodeJS.CpuUsage>('cpu' satisfies StateQuestion);
  return user + system;
}
