import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createNode, type EclipticNode, openStore, type SharedDocument } from 'ecliptic';
import * as Y from 'yjs';
import { cpuRound, type Report } from './compare.js';
import { isRepeat, QUICK, series } from './settings.js';

const SUITE = 'documents';
const SIZES = QUICK ? [1_000] : [1_000, 10_000, 100_000];
/** The only size with floors. */
const LARGEST = SIZES.at(-1)!;
const KEYS = 5_000;
/** Operations that only warm up the code. */
const WARM_UP = QUICK ? 500 : 10_000;

/** Two replicas of one document, ours or bare ones. */
interface Pair {
  /** Writes with the first or the second replica. */
  write(replica: 0 | 1, key: string, value: string): void;
  /** Resolves when both replicas have everything. */
  settled(): Promise<void>;
  /** Opens a third replica, and resolves when it has everything. */
  join(): Promise<void>;
  close(): Promise<void>;
}

/** Where the two replicas are, and how a further pair of them is opened. */
interface Place {
  readonly name: string;
  open(): Promise<Pair>;
  end(): Promise<void>;
}

/**
 * Heap and CPU time of a growing document whose live keys stay the same, beside bare Yjs documents that hand each other
 * each update. `DOCUMENTS=nodes-100000` measures the matching ones only.
 */
export async function run(report: Report): Promise<void> {
  const wanted = new RegExp(`^(${process.env.DOCUMENTS ?? '.*'})$`);
  for (const makePlace of [() => oneNode(false), () => oneNode(true), () => twoNodes(false), () => twoNodes(true)]) {
    for (const writers of [1, 2] as const) {
      for (const size of isRepeat() ? [LARGEST] : SIZES) {
        const place = await makePlace();
        const name = `${place.name}${writers === 2 ? '-alternating' : ''}-${size}`;
        try {
          if (wanted.test(name)) await grow(report, name, place, size, writers);
        } finally {
          await place.end();
        }
      }
    }
  }
}

interface Grown {
  readonly micros: number;
  readonly ms: number;
  readonly heap: number;
  readonly bytes: number;
  readonly joinMicros: number;
  readonly joinMs: number;
}

async function grow(report: Report, name: string, place: Place, size: number, writers: 1 | 2): Promise<void> {
  const rounds = QUICK || series.runs > 1 ? 1 : size === LARGEST ? 3 : 5;
  const ours: Grown[] = [];
  const theirs: Grown[] = [];
  const [us, them] = [() => place.open(), async () => new BarePair()];
  for (const open of [us, them]) await grown(open, WARM_UP, writers);
  for (let round = 0; round < rounds; round++) {
    ours.push(await grown(us, size, writers));
    theirs.push(await grown(them, size, writers));
  }
  const compare = (what: string, unit: string, of: (grown: Grown) => number, measured?: 'cpu' | 'clock') => {
    const pairs = ours.map((one, index) => [of(one), of(theirs[index]!)] as const);
    pairs.sort(([a, b], [c, d]) => a / b - c / d);
    const [one, other] = pairs[pairs.length >> 1]!;
    const spread = [pairs[0]!, pairs.at(-1)!].map(([a, b]) => rounded(a / b)) as [number, number];
    report.comparison({
      suite: SUITE,
      name: `${name}/${what}`,
      ours: rounded(one),
      theirs: rounded(other),
      ratio: rounded(one / other),
      spread,
      unit,
      lowerIsBetter: true,
      ...(measured ? { measured } : {}),
    });
  };
  compare('yjs-cpu', 'µs CPU', ({ micros }) => micros / size, 'cpu');
  compare('yjs-clock', 'µs', ({ ms }) => (ms * 1_000) / size, 'clock');
  compare('yjs-heap', 'KiB heap', ({ heap }) => heap / 1_024);
  compare('yjs-memory', 'KiB', ({ bytes }) => bytes / 1_024);
  compare('yjs-join-cpu', 'ms CPU', ({ joinMicros }) => joinMicros / 1_000, 'cpu');
  compare('yjs-join', 'ms', ({ joinMs }) => joinMs, 'clock');
}

async function grown(open: () => Promise<Pair>, size: number, writers: 1 | 2): Promise<Grown> {
  const before = await memory();
  const pair = await open();
  const work = async () => {
    for (let i = 0; i < size; i++) {
      pair.write(writers === 2 && i % 2 === 1 ? 1 : 0, `key-${i % KEYS}`, `value ${i}`);
      await turn();
    }
    await pair.settled();
  };
  const { micros, ms } = await cpuRound(work, size);
  const after = await memory();
  const { micros: joinMicros, ms: joinMs } = await cpuRound(() => pair.join(), 1);
  await pair.close();
  return { micros, ms, heap: after.heap - before.heap, bytes: after.bytes - before.bytes, joinMicros, joinMs };
}

/** The JavaScript heap, and with it the buffers outside of it. */
async function memory(): Promise<{ heap: number; bytes: number }> {
  // Closed documents are in timers and messages for a moment.
  for (let pass = 0; pass < 3; pass++) {
    await delay(100);
    globalThis.gc!();
  }
  const { heapUsed: heap, arrayBuffers } = process.memoryUsage();
  return { heap, bytes: heap + arrayBuffers };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

class BarePair implements Pair {
  readonly #docs = [new Y.Doc(), new Y.Doc()] as const;

  constructor() {
    for (const [index, doc] of this.#docs.entries()) {
      const other = this.#docs[1 - index]!;
      doc.on('update', (update: Uint8Array, origin: unknown) => {
        if (origin !== other) Y.applyUpdate(other, update, doc);
      });
    }
  }

  write(replica: 0 | 1, key: string, value: string): void {
    this.#docs[replica].getMap('plan').set(key, value);
  }

  async settled(): Promise<void> {
    if (this.#docs[0].getMap('plan').size !== this.#docs[1].getMap('plan').size) throw new Error('it did not arrive');
  }

  async join(): Promise<void> {
    const joiner = new Y.Doc();
    Y.applyUpdate(joiner, Y.encodeStateAsUpdate(this.#docs[0]));
    if (joiner.getMap('plan').size !== this.#docs[1].getMap('plan').size) throw new Error('it did not arrive');
  }

  async close(): Promise<void> {}
}

async function oneNode(stored: boolean): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const node = await createNode(stored ? { store: await openStore(folder) } : {});
  return placeOf(stored ? 'stored' : 'plain', [node, node, node], [folder]);
}

async function twoNodes(stored: boolean): Promise<Place> {
  const folders: string[] = [];
  const start = async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
    folders.push(folder);
    const store = stored ? { store: await openStore(folder) } : {};
    return await createNode({ ...store, network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
  };
  const nodes = [await start(), await start(), await start()] as const;
  for (const newcomer of nodes.slice(1)) {
    const { code } = await nodes[0].network!.invite();
    await newcomer.network!.join(code);
  }
  return placeOf(stored ? 'nodes-stored' : 'nodes', nodes, folders);
}

type Nodes = readonly [EclipticNode, EclipticNode, EclipticNode];

/** The nodes of the two writers, and of the late joiner. */
function placeOf(name: string, nodes: Nodes, folders: readonly string[]): Place {
  const agents = nodes.slice(0, 2).map((node, index) => node.agent({ id: `writer-${index}` }));
  const joining = nodes[2].agent({ id: 'joiner' });
  let opened = 0;
  return {
    name,
    open: async () => {
      const document = `bench-${opened++}`;
      const documents = agents.map((agent) => agent.state(document)) as [SharedDocument, SharedDocument];
      await Promise.all(documents.map((one) => until(one, () => one.members.size > 0)));
      const maps = documents.map((one) => one.map('plan'));
      const vectors = () => documents.map(({ vector }) => Object.values(vector).reduce((sum, count) => sum + count, 0));
      return {
        write: (replica, key, value) => maps[replica]!.set(key, value),
        settled: async () => {
          await Promise.all(documents.map((one) => one.synced()));
          const [one, other] = documents;
          const alike = () => new Set(vectors()).size === 1;
          await Promise.race([until(one, alike), until(other, alike)]);
          if (maps[0]!.size !== maps[1]!.size) throw new Error('it did not arrive');
        },
        join: async () => {
          // Another agent, so that nothing is in its store.
          const joiner = joining.state(document);
          if (!(await joiner.caughtUp(120_000))) throw new Error('it did not catch up');
          if (joiner.map('plan').size !== maps[0]!.size) throw new Error('it did not arrive');
          await joiner.synced();
          await joiner.close();
        },
        close: async () => {
          await Promise.all(documents.map((one) => one.close()));
        },
      };
    },
    end: async () => {
      for (const node of new Set(nodes)) await node.stop();
      for (const folder of folders) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Waits, by the document's own events, until something is so. */
function until(document: SharedDocument, condition: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (!condition()) return;
      for (const stop of stops) stop();
      resolve();
    };
    const stops = [document.onMember(check), document.onChange(check)];
    check();
  });
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
