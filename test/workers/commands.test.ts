import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { inCluster } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';

describe('the commands of a node without workers', () => {
  it(
    'say that a delivered message has no reader, and that a plan has no worker [WK.S5]',
    inCluster(async (cluster) => {
      const node = await cluster.start('bare', { args: ['--no-dht'] });
      const sent = await node.run('send', '--as', 'sun', '--to', 'venus', '{"x":1}');
      expect(sent.stdout).toBe(
        'delivered to venus (local); it has no worker that would read it. To staff it: ecliptic staff\n',
      );
      const made = await node.run('plan', 'make', 'Add a login page');
      expect(made).toMatchObject({ code: 1, stderr: expect.stringMatching(/^NO_WORKER: .*ecliptic staff/) });
    }),
    60_000,
  );

  it(
    'show every message of a conversation that does not fit into one answer',
    inCluster(async (cluster) => {
      const node = await cluster.start('talker', { args: ['--no-dht'] });
      for (const n of [1, 2, 3, 4]) {
        const input = JSON.stringify({ n, text: 'w'.repeat(800_000) });
        const words = ['send', '--as', 'sun', '--to', 'mars', '--thread', 'long', '-', '--data', node.data];
        expect(spawnSync(process.execPath, [BIN, ...words], { input }).status).toBe(0);
      }
      const shown = await node.json<{ payload: { n: number } }[]>('thread', 'long');
      expect(shown.map(({ payload }) => payload.n)).toEqual([1, 2, 3, 4]);
    }),
    60_000,
  );
});
