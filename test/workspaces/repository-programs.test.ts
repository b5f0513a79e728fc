import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { dirtyFiles } from '../../src/coding-agents/radar/dirty-files.js';
import { WorktreeGit } from '../../src/system/git/worktree-git.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

async function workbench(files?: Record<string, string>) {
  const bench = await Workbench.create(Repository.create(files));
  onTestFinished(() => bench.close());
  const proof = join(bench.repository.home, 'ran');
  const evil = (program: string) => `echo ${program} >> '${proof}'; cat`;
  const set = (name: string, value: string) => bench.repository.git('config', name, value);
  return { ...bench, bench, repository: bench.repository, proof, evil, set };
}

/** Makes git read the content of a file again. */
function touch(...path: string[]): void {
  utimesSync(join(...path), new Date(1), new Date(1));
}

it('no filter, diff or merge driver that a repository names runs, however it is called [WT.12 RD.5]', async () => {
  const attributes = ['a.txt filter=x merge=m diff=d', 'b.txt filter=a=b.c', 'p.txt filter=p', ''].join('\n');
  const files = { 'a.txt': 'a\n', 'b.txt': 'b\n', 'p.txt': 'p\n' };
  const { repository, bench, proof, evil, set } = await workbench({ ...files, '.gitattributes': attributes });
  const { folder } = repository;
  for (const name of ['x', 'a=b.c']) {
    for (const kind of ['clean', 'smudge']) set(`filter.${name}.${kind}`, evil(kind));
  }
  set('filter.p.process', evil('process'));
  set('merge.m.driver', evil('driver'));
  set('diff.d.command', evil('command'));
  set('diff.d.textconv', evil('textconv'));
  set('diff.external', evil('external'));
  // A file in the worktree may hold settings, too.
  repository.write({ settings: `[filter "x"]\n\tclean = ${evil('included')}\n` });
  set('include.path', '../settings');
  for (const file of Object.keys(files)) touch(folder, file);
  expect((await dirtyFiles(bench.git, { folder })).files).toEqual(['settings']);
  const { id, folder: tree, finish } = await bench.open();
  repository.write({ 'a.txt': 'theirs\n', 'b.txt': 'new\n', 'p.txt': 'new\n' }, tree);
  expect((await finish()).state).toBe('done');
  repository.write({ 'a.txt': 'ours\n' });
  await bench.git.run({ folder }, ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '--quiet', '-am', 'ours']);
  await bench.worktrees.show(id, { diff: true });
  await expect(bench.worktrees.merge(id)).rejects.toMatchObject({ code: 'MERGE_CONFLICT' });
  expect(existsSync(proof) ? readFileSync(proof, 'utf8') : '').toBe('');
});

it('the user’s own filter runs, and content is not stored without a filter that must run', async () => {
  const { repository, bench, proof, evil, set } = await workbench({ 'a.txt': 'a\n', '.gitattributes': '* filter=x\n' });
  const { folder } = repository;
  set('filter.x.clean', evil('theirs'));
  set('filter.x.required', 'true');
  touch(folder, 'a.txt');
  expect((await dirtyFiles(bench.git, { folder })).files).toEqual([]);
  const { gitDir } = await new WorktreeGit(bench.git).locate(folder);
  repository.write({ 'a.txt': 'secret\n' });
  const commit = (env?: Record<string, string>) =>
    bench.git.run({ gitDir, workTree: folder }, ['add', '--all'], env ? { env } : {});
  await expect(commit()).rejects.toThrow(/clean filter 'x' failed.*git config --global/s);
  const home = join(repository.home, 'own');
  repository.write({ '.gitconfig': `[filter "x"]\n\tclean = "echo a; cat"\n` }, home);
  await commit({ HOME: home });
  expect(repository.git('show', ':a.txt')).toBe('a\nsecret');
  expect(existsSync(proof)).toBe(false);
});
