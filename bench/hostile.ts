import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Report } from './compare.js';
import type { Attack, Invites, Order, Role } from './hostile-peer.js';
import { Peer } from './peer-process.js';
import { roundsOf, sized } from './settings.js';

const SUITE = 'hostile';
const PROGRAM = './hostile-peer.js';
const ATTACKS: readonly Attack[] = ['messages', 'mail', 'tools', 'document', 'handshakes'];
const SLICE_MS = sized(2_000, 800);
/** The flood has begun, or has ended, when a slice begins. */
const SETTLE_MS = sized(1_000, 600);

/**
 * Requests of an honest member to an agent of another node, with and without a hostile member of the mesh that floods that
 * node. Three processes; slices with and without the flood alternate, and the median of their ratios counts.
 */
export async function run(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-hostile-'));
  for (const name of ['victim', 'hostile']) mkdirSync(join(folder, name));
  const port = await freePort();
  const victim = await Peer.start<Role>({ role: 'victim', folder: join(folder, 'victim'), port }, PROGRAM);
  const { key, codes } = victim.ready as Invites;
  const honest = await Peer.start<Role>({ role: 'honest', code: codes[0], victim: key }, PROGRAM);
  const hostile = await Peer.start<Role>(
    { role: 'hostile', code: codes[1], victim: key, port, folder: join(folder, 'hostile') },
    PROGRAM,
  );
  const rate = async () => {
    const order: Order = { do: 'request', ms: SLICE_MS };
    return ((await honest.ask<{ count: number }>(order)).count / SLICE_MS) * 1_000;
  };
  try {
    for (const attack of ATTACKS) {
      const pairs: { none: number; flooded: number; ratio: number }[] = [];
      let done = 0;
      for (let round = 0; round < roundsOf(5, 1); round++) {
        const none = await rate();
        hostile.tell({ do: 'attack', attack } satisfies Order);
        await settled();
        const flooded = await rate();
        done += (await hostile.ask<{ done: number }>({ do: 'stop' } satisfies Order)).done;
        await settled();
        pairs.push({ none, flooded, ratio: flooded / none });
      }
      pairs.sort((a, b) => a.ratio - b.ratio);
      const { none, flooded, ratio } = pairs[Math.floor(pairs.length / 2)]!;
      const spread = [round2(pairs[0]!.ratio), round2(pairs.at(-1)!.ratio)] as const;
      const figures = { ours: Math.round(flooded), theirs: Math.round(none), ratio: round2(ratio), spread };
      report.comparison({ suite: SUITE, name: `${attack}/none`, ...figures, measured: 'clock', unit: '/s' });
      const seconds = (pairs.length * (SLICE_MS + SETTLE_MS)) / 1_000;
      report.figure(SUITE, `${attack} of the hostile member`, Math.round(done / seconds), '/s');
    }
  } finally {
    for (const peer of [hostile, honest, victim]) await peer.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
