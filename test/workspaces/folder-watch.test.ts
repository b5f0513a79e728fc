import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { MAX_WATCHED, type WatchBudget } from '../../src/coding-agents/radar/folder-watch.js';
import { PlaceWatch } from '../../src/coding-agents/radar/place-watch.js';
import { until } from '../nodes/cluster.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

const FILES = {
  'a.txt': 'a\n',
  'src/b.txt': 'b\n',
  'deep/er/c.txt': 'c\n',
  'kept/d.log': 'd\n',
  '.gitignore': 'out/\n',
};

async function watched(
  test: (watch: PlaceWatch, repository: Repository, bench: Workbench) => Promise<void>,
  budget: WatchBudget = { left: MAX_WATCHED },
): Promise<void> {
  const bench = await Workbench.create(Repository.create(FILES));
  const { runtime, git, repository } = bench;
  const { folder } = repository;
  const init = { folder, place: { folder }, active: true, onChange: () => {} };
  const watch = new PlaceWatch({ runtime, git, budget }, init);
  try {
    await watch.settled();
    await test(watch, repository, bench);
  } finally {
    watch.close();
    expect(budget.left === MAX_WATCHED || watch.mode === 'polled').toBe(true);
    await bench.close();
  }
}

/** Waits until exactly these files are known to be changed. */
async function changed(watch: PlaceWatch, ...files: string[]): Promise<void> {
  const wanted = JSON.stringify(files);
  await until(() => JSON.stringify(watch.dirty?.files) === wanted, `${wanted} and not ${watch.dirty?.files}`);
}

describe('a watched worktree', () => {
  it(
    'notices files in new, moved, removed and replaced folders, and no ignored ones [RD.8]',
    () =>
      watched(async (watch, repository, { git }) => {
        const { folder } = repository;
        expect([watch.mode, watch.dirty]).toEqual(['watched', { branch: 'main', files: [], more: 0 }]);
        repository.write({ 'src/b.txt': 'changed\n' });
        await changed(watch, 'src/b.txt');
        repository.write({ 'new/one/two/x.txt': 'x\n' });
        await changed(watch, 'new/one/two/x.txt', 'src/b.txt');
        // An empty folder that fills later.
        mkdirSync(join(folder, 'empty'));
        repository.write({ 'new/one/two/y.txt': 'y\n', 'src/b.txt': 'b\n' });
        await changed(watch, 'new/one/two/x.txt', 'new/one/two/y.txt');
        repository.write({ 'empty/z.txt': 'z\n' });
        await changed(watch, 'empty/z.txt', 'new/one/two/x.txt', 'new/one/two/y.txt');
        renameSync(join(folder, 'new'), join(folder, 'newer'));
        await changed(watch, 'empty/z.txt', 'newer/one/two/x.txt', 'newer/one/two/y.txt');
        repository.write({ 'newer/one/w.txt': 'w\n' });
        rmSync(join(folder, 'empty'), { recursive: true });
        await changed(watch, 'newer/one/two/x.txt', 'newer/one/two/y.txt', 'newer/one/w.txt');
        rmSync(join(folder, 'newer'), { recursive: true });
        await changed(watch);
        // Replaced between two looks.
        rmSync(join(folder, 'deep'), { recursive: true });
        repository.write({ 'deep/er/c.txt': 'c\n', 'deep/er/new.txt': 'n\n' });
        await changed(watch, 'deep/er/new.txt');
        repository.write({ 'deep/er/c.txt': 'changed\n' });
        await changed(watch, 'deep/er/c.txt', 'deep/er/new.txt');

        repository.write({ 'out/first': 'o\n' });
        await watch.settled();
        const asked = vi.spyOn(git, 'run');
        repository.write({ 'out/deep/x': 'o\n' });
        repository.write({ 'a.txt': 'changed\n' });
        await changed(watch, 'a.txt', 'deep/er/c.txt', 'deep/er/new.txt');
        expect(asked.mock.calls.map(([, args]) => args.slice(args.indexOf('--') + 1))).toEqual([['a.txt']]);
      }),
    120_000,
  );

  it(
    'notices what git changes: commits, branches, resets, rules of what is ignored [RD.8]',
    () =>
      watched(async (watch, repository) => {
        repository.write({ 'a.txt': 'changed\n', 'src/new.txt': 'n\n' });
        await changed(watch, 'a.txt', 'src/new.txt');
        repository.git('add', 'a.txt');
        repository.git('commit', '--quiet', '-m', 'a');
        await changed(watch, 'src/new.txt');
        repository.git('reset', '--quiet', '--soft', 'HEAD~1');
        await changed(watch, 'a.txt', 'src/new.txt');
        repository.git('checkout', '--quiet', '-b', 'topic');
        await until(() => watch.dirty?.branch === 'topic', 'it is another branch');
        repository.git('stash', '--include-untracked');
        await changed(watch);
        repository.write({ '.gitignore': 'out/\nkept/\n', 'kept/ignored.log': 'x\n' });
        await changed(watch, '.gitignore');
        // Ignored, but tracked.
        repository.write({ 'kept/d.log': 'changed\n' });
        await changed(watch, '.gitignore', 'kept/d.log');
      }),
    120_000,
  );

  it(
    'that has too many folders is read from time to time [RD.8]',
    () =>
      watched(
        async (watch, repository) => {
          expect([watch.mode, watch.dirty?.files]).toEqual(['polled', []]);
          repository.write({ 'src/b.txt': 'changed\n' });
          await until(async () => {
            await watch.settled();
            return watch.dirty?.files[0] === 'src/b.txt';
          }, 'it is read when it is asked for');
        },
        { left: 2 },
      ),
    120_000,
  );

  it('may be no repository, or be gone', async () => {
    const bench = await Workbench.create();
    const { runtime, git } = bench;
    const folder = join(bench.data, 'gone');
    const init = { folder, place: { folder }, active: true, onChange: () => {} };
    const watch = new PlaceWatch({ runtime, git, budget: { left: 10 } }, init);
    await watch.settled();
    expect([watch.dirty, watch.failure]).toEqual([undefined, expect.stringContaining('git status failed')]);
    watch.close();
    await bench.close();
  });
});
