import { describe, expect, it, vi } from 'vitest';
import { inCluster } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 60_000 });

describe('a misconfigured hook', () => {
  it(
    'reports its error and blocks neither a client, to which exit code 2 is a denial, nor a commit [ON13]',
    inCluster(async (cluster) => {
      const wrong: [string[], number][] = [
        [['hook'], 1],
        [['hook', '--clinet', 'codex', '--event', 'Stop'], 1],
        [['hook', '--client', 'codex', '--event', 'Stop', 'more'], 1],
        [['hook', '--client', 'nobody', '--event', 'Stop'], 1],
        [['hook', '--client', 'codex', '--event', 'Began'], 1],
        [['guard'], 1],
        [['guard', '--client'], 1],
        [['guard', '--client', 'codex', '--strict'], 1],
        [['guard', '--client', 'nobody'], 1],
        [['guard', '--pre-commit', '--strict'], 0],
      ];
      const ended = await Promise.all(wrong.map(([words]) => cluster.run(words)));
      expect(ended.map(({ code }) => code)).toEqual(wrong.map(([, code]) => code));
      for (const { stdout, stderr } of ended) {
        expect(stdout).toBe('');
        expect(stderr).toMatch(/^USAGE: .+/);
      }
    }),
  );
});
