import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { RadarView } from '../../src/node/control/rows.js';
import type { WorktreeRow } from '../../src/providers/worktree/worktrees.js';
import { inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { Repository } from './repository.js';

let repository: Repository | undefined;

afterEach(() => {
  repository?.remove();
  repository = undefined;
});

/** Appends to the files that the task names, and stays at work. */
const EDIT = `for (const file of process.env.ECLIPTIC_TASK_TEXT.split(' ')) require('fs').appendFileSync(file, 'x\\n');
require('fs').writeFileSync('.done', '');
setInterval(() => {}, 1_000);`;

const coder = (cwd: string) => {
  const exec = { command: process.execPath, args: ['-e', EDIT], cwd };
  return {
    roster: false,
    agents: { sun: { tier: 0 as const }, coder: { tier: 2 as const, exec, workspace: { worktree: true } } },
  };
};

async function edit(node: ProcessNode, files: string): Promise<void> {
  await until(
    async () => (await node.agents()).find(({ id }) => id === 'coder')?.state === 'ready',
    'it has its worker',
  );
  void node.call('propose', { to: 'coder', description: files, as: 'sun' }).catch(() => {});
  await until(async () => {
    const [row] = await node.call<WorktreeRow[]>('workspaces');
    return row && existsSync(join(row.folder, '.done'));
  }, 'the agent has changed its files');
}

describe('the radar', () => {
  it(
    'shows the files that agents of two devices change, and the one that both do [RD.4]',
    inCluster(async (cluster) => {
      repository = Repository.create({ 'a.txt': 'a\n', 'b.txt': 'b\n', 'c.txt': 'c\n', '.gitignore': '.done\n' });
      const clones = ['one', 'two'].map((name) => join(repository!.home, name));
      for (const clone of clones) repository.git('clone', '--quiet', '.', clone);
      const listen = ['--no-dht', '--listen', '127.0.0.1:0'];
      const [desk, laptop] = await Promise.all(
        ['desk', 'laptop'].map((name, at) => cluster.start(name, { args: listen, config: coder(clones[at]!) })),
      );
      await desk!.admit(laptop!, { owner: true });
      await Promise.all([edit(desk!, 'a.txt b.txt'), edit(laptop!, 'b.txt c.txt')]);
      await until(async () => (await desk!.connected()) === 1, 'the devices are connected');
      const view = await desk!.json<RadarView>('radar');
      expect(view).toMatchObject({ missing: [], skipped: [] });
      expect(
        view.places
          .map(({ files }) => files)
          .filter((files) => files.length > 0)
          .sort(),
      ).toEqual([
        ['a.txt', 'b.txt'],
        ['b.txt', 'c.txt'],
      ]);
      expect(view.overlaps).toMatchObject([{ paths: ['b.txt'], places: [{}, {}] }]);
      expect(view.overlaps[0]!.places.map(({ device }) => device).sort()).toEqual([desk!.key, laptop!.key].sort());
      const { stdout } = await laptop!.run('radar');
      expect(stdout).toMatch(/^OVERLAP {2}b\.txt: changed by .*coder.* and by .*coder/);
      expect((await desk!.json<RadarView>('radar', '--local')).overlaps).toEqual([]);
    }),
    300_000,
  );
});
