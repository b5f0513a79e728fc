import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dirtyFiles, MAX_DIRTY_FILES, readStatus } from '../../src/coding-agents/radar/dirty-files.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

describe('the changed files of a worktree', () => {
  it('are changed, staged, new, deleted and conflicting ones, whatever their names [RD.5]', async () => {
    const bench = await Workbench.create(
      Repository.create({
        'a b.txt': 'a\n',
        'deleted.txt': 'd\n',
        'moved.txt': 'm\n',
        'both.txt': 'b\n',
        '.gitignore': 'no\n',
      }),
    );
    const { repository, git } = bench;
    try {
      repository.git('checkout', '--quiet', '-b', 'side');
      repository.commit({ 'both.txt': 'side\n' });
      repository.git('checkout', '--quiet', 'main');
      repository.commit({ 'both.txt': 'main\n' });
      expect(() => repository.git('merge', 'side')).toThrow('merge side');
      repository.write({ 'a b.txt': 'changed\n', 'sub/new\n".txt': 'n\n', 'sub/ü': 'u\n', no: 'ignored\n' });
      repository.git('mv', 'moved.txt', 'to.txt');
      rmSync(join(repository.folder, 'deleted.txt'));
      const { branch, files, more } = await dirtyFiles(git, { folder: repository.folder });
      expect({ branch, more }).toEqual({ branch: 'main', more: 0 });
      const all = ['a b.txt', 'both.txt', 'deleted.txt', 'moved.txt', 'sub/new\n".txt', 'sub/ü', 'to.txt'];
      expect([...files].sort()).toEqual(all);
    } finally {
      await bench.close();
    }
  }, 120_000);

  it('are counted beyond the limit, and a detached HEAD is no branch', () => {
    const lines = Array.from({ length: MAX_DIRTY_FILES + 2 }, (_, n) => `? ${n}.txt`);
    const { branch, files, more } = readStatus(['# branch.head (detached)', ...lines, ''].join('\0'));
    expect([branch, files.length, files[0], more]).toEqual([undefined, MAX_DIRTY_FILES, '0.txt', 2]);
  });
});
