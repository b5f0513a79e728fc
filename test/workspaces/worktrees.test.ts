import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Git } from '../../src/system/git/git.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

const benches: Workbench[] = [];

afterEach(async () => {
  await Promise.all(benches.splice(0).map((bench) => bench.close()));
});

async function workbench(repository?: Repository): Promise<Workbench> {
  const bench = await Workbench.create(repository);
  benches.push(bench);
  return bench;
}

describe('git worktrees of tasks', { timeout: 180_000 }, () => {
  it('continue in one conversation, one task after the other, with the commits of the earlier ones [WT.8]', async () => {
    const bench = await workbench();
    const first = await bench.open({}, { conversation: 'sun c1' });
    const waiting = bench.open({}, { conversation: 'sun c1' });
    const other = await bench.open({}, { conversation: 'sun c2' });
    expect(other.folder).not.toBe(first.folder);
    await other.finish();
    bench.repository.write({ 'a.txt': 'one\ntwo\n' }, first.folder);
    await first.finish();
    const second = await waiting;
    expect(second.id).toBe(first.id);
    bench.repository.write({ 'new.txt': 'three\n' }, second.folder);
    const report = await second.finish();
    expect(report).toMatchObject({ state: 'done', commitCount: 2, fileCount: 2, insertions: 2 });
    bench.restart();
    expect((await bench.open({}, { conversation: 'sun c1' })).id).toBe(first.id);
  });

  it('a task that is cancelled while it waits for its conversation leaves the worktree to the next one', async () => {
    const bench = await workbench();
    const first = await bench.open({}, { conversation: 'c' });
    const controller = new AbortController();
    const cancelled = bench.open({}, { conversation: 'c', signal: controller.signal });
    const next = bench.open({}, { conversation: 'c' });
    controller.abort(new Error('no longer wanted'));
    await expect(cancelled).rejects.toThrow('no longer wanted');
    await first.finish();
    expect((await next).id).toBe(first.id);
  });

  it('begin at a named base, and say what the base has that they do not [WT.9]', async () => {
    const bench = await workbench();
    const { repository } = bench;
    const old = repository.git('rev-parse', 'HEAD');
    repository.git('branch', 'release');
    repository.commit({ 'a.txt': 'newer\n' });
    repository.write({ 'a.txt': 'not committed\n' });
    const { folder, finish } = await bench.open({ base: 'release' });
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
    const report = await finish();
    expect(report).toMatchObject({ state: 'unchanged', base: { branch: 'release', commit: old } });
    expect(report.notes).toEqual([expect.stringContaining('1 changed file(s)')]);
    await expect(bench.open({ base: '--output=/tmp/x' })).rejects.toMatchObject({ code: 'GIT_FAILED' });
  });

  it('write a patch that git applies, and leave a merge that would touch changed files undone [WT.10]', async () => {
    const bench = await workbench();
    const { repository } = bench;
    const patching = await bench.open({ onSuccess: 'patch' });
    repository.write({ 'a.txt': 'patched\n' }, patching.folder);
    const { patch } = await patching.finish();
    expect(await patching.patch()).toContain('+patched');
    repository.git('am', '--quiet', patch!);
    expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('patched\n');

    const merging = await bench.open({ onSuccess: 'merge' });
    repository.write({ 'a.txt': 'merged\n' }, merging.folder);
    repository.write({ 'a.txt': 'being edited\n' });
    const report = await merging.finish();
    expect(report).toMatchObject({ state: 'kept', commitCount: 1, reason: expect.stringContaining('a.txt') });
    expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('being edited\n');
    repository.git('checkout', '--', 'a.txt');
    expect(await bench.worktrees.merge(report.id)).toMatchObject({ state: 'merged', mergedInto: 'main' });
    expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('merged\n');
  });

  it('merge beside a branch that is not checked out, also with commits on both sides', async () => {
    const bench = await workbench(Repository.create({ 'a.txt': 'a\n', 'b.txt': 'b\n' }));
    const { repository } = bench;
    const { id, folder, finish } = await bench.open();
    repository.write({ 'a.txt': 'changed\n' }, folder);
    await finish();
    repository.commit({ 'b.txt': 'changed\n' });
    repository.git('checkout', '--quiet', '--detach');
    await bench.worktrees.merge(id);
    expect(repository.git('show', 'main:a.txt')).toBe('changed');
    expect(repository.git('show', 'main:b.txt')).toBe('changed');
    expect(repository.git('log', '-1', '--format=%an %s', 'main')).toBe(`mars Merge ecliptic/mars/${id} into main`);
  });

  it('are limited for each agent; those that are merged or empty make room for new ones [WT.11]', async () => {
    const bench = await workbench();
    const keep = async () => {
      const { id, folder, finish } = await bench.open({ limit: 2 });
      bench.repository.write({ [`${id}.txt`]: 'work\n' }, folder);
      await finish();
      return id;
    };
    const empty = await bench.open({ limit: 2 });
    await empty.finish();
    const first = await keep();
    await keep();
    expect(bench.worktrees.rows.map(({ id }) => id)).not.toContain(empty.id);
    await expect(bench.open({ limit: 2 })).rejects.toMatchObject({ code: 'WORKSPACES_FULL' });
    await (await bench.open({ limit: 2 }, { agent: 'venus' })).finish();
    await bench.worktrees.merge(first);
    await (await bench.open({ limit: 2 })).finish();
    expect(bench.worktrees.rows.map(({ id }) => id)).not.toContain(first);
  });

  it('run no program that the repository or the agent names [WT.12]', async () => {
    const bench = await workbench();
    const { repository } = bench;
    const proof = join(repository.home, 'ran');
    const script = join(repository.home, 'evil');
    writeFileSync(script, `#!/bin/sh\necho "$0 $@" >> '${proof}'\n`);
    chmodSync(script, 0o755);
    for (const hook of ['post-checkout', 'pre-commit', 'post-commit', 'post-merge', 'reference-transaction']) {
      symlinkSync(script, join(repository.folder, '.git', 'hooks', hook));
    }
    const { id, folder, finish } = await bench.open();
    expect(existsSync(proof)).toBe(false);
    // An agent makes a repository in its folder, and replaces its worktree's link by a repository of its own.
    const evil = ['-c', 'init.defaultBranch=main', 'init', '--quiet'];
    execFileSync('git', [...evil, join(folder, 'nested')]);
    for (const [name, value] of Object.entries({ 'core.fsmonitor': script, 'core.hooksPath': repository.home })) {
      execFileSync('git', ['-C', join(folder, 'nested'), 'config', name, value]);
    }
    rmSync(join(folder, '.git'));
    execFileSync('git', [...evil, folder]);
    execFileSync('git', ['-C', folder, 'config', 'core.fsmonitor', script]);
    repository.write({ 'a.txt': 'changed\n', 'nested/b.txt': 'nested\n' }, folder);
    const report = await finish();
    expect(report).toMatchObject({ state: 'done', files: [{ path: 'a.txt' }] });
    expect(report.notes).toEqual([expect.stringContaining('"nested" is a repository of its own')]);
    await bench.worktrees.show(id, { diff: true });
    await bench.worktrees.merge(id);
    await bench.worktrees.drop(id, { force: true });
    expect(existsSync(proof) ? readFileSync(proof, 'utf8') : '').toBe('');
    expect(existsSync(folder)).toBe(false);
  });

  it('keep the work of an agent that left its branch, or left a conflict behind [WT.13]', async () => {
    const bench = await workbench();
    const { repository } = bench;
    const left = await bench.open();
    repository.gitIn(left.folder, 'checkout', '--quiet', '-b', 'elsewhere');
    repository.write({ 'a.txt': 'elsewhere\n' }, left.folder);
    expect(await left.finish()).toMatchObject({ state: 'kept', reason: expect.stringContaining('on elsewhere') });
    expect(readFileSync(join(left.folder, 'a.txt'), 'utf8')).toBe('elsewhere\n');
    await expect(bench.worktrees.drop(left.id)).rejects.toMatchObject({ code: 'WORKSPACE_REFUSED' });

    const locked = await bench.open();
    repository.write({ 'a.txt': 'locked\n' }, locked.folder);
    const lock = repository.gitIn(locked.folder, 'rev-parse', '--path-format=absolute', '--git-path', 'index.lock');
    writeFileSync(lock, '');
    expect(await locked.finish()).toMatchObject({ state: 'kept', reason: expect.stringContaining('lock behind') });
    expect(readFileSync(join(locked.folder, 'a.txt'), 'utf8')).toBe('locked\n');
  });

  it('work in a folder of a repository with odd names, and in bare, shallow and detached ones [WT.14]', async () => {
    const odd = await workbench(Repository.create({ 'sub dir/ü\n.txt': 'one\n' }, 'a project\nwith "odd" $(name)'));
    const cwd = join(odd.repository.folder, 'sub dir');
    const { folder, finish } = await odd.open({}, { cwd, title: '--all\nof it' });
    expect(folder.endsWith('/sub dir')).toBe(true);
    odd.repository.write({ 'ü\n.txt': 'two\n', '-f ': 'three\n' }, folder);
    const { files, commits } = await finish();
    expect(files.map(({ path }) => path).sort()).toEqual(['sub dir/-f ', 'sub dir/ü\n.txt']);
    expect(commits.map(({ subject }) => subject)).toEqual(['--all']);

    const bare = await workbench();
    bare.repository.git('clone', '--quiet', '--bare', '.', join(bare.repository.home, 'bare.git'));
    const inBare = await bare.open({ onSuccess: 'merge' }, { cwd: join(bare.repository.home, 'bare.git') });
    bare.repository.write({ 'a.txt': 'two\n' }, inBare.folder);
    expect(await inBare.finish()).toMatchObject({ state: 'merged', mergedInto: 'main' });

    const { repository } = bare;
    repository.commit({ 'a.txt': 'two\n' });
    repository.git('clone', '--quiet', '--depth', '1', `file://${repository.folder}`, join(repository.home, 'shallow'));
    const shallow = await bare.open({}, { cwd: join(repository.home, 'shallow') });
    bare.repository.write({ 'a.txt': 'three\n' }, shallow.folder);
    expect(await shallow.finish()).toMatchObject({ state: 'done', commitCount: 1 });

    repository.git('checkout', '--quiet', '--detach');
    const detached = await bare.open({ onSuccess: 'merge' });
    bare.repository.write({ 'a.txt': 'three\n' }, detached.folder);
    expect(await detached.finish()).toMatchObject({ state: 'kept', reason: expect.stringContaining('--into BRANCH') });
  });

  it('leave submodules empty, and never carry their changes', async () => {
    const library = Repository.create({ 'lib.txt': 'lib\n' });
    const bench = await workbench();
    try {
      const { repository } = bench;
      repository.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.folder, 'lib');
      repository.commit({});
      const { id, folder, finish } = await bench.open();
      bench.repository.write({ 'a.txt': 'two\n', 'lib/lib.txt': 'changed\n' }, folder);
      expect(await finish()).toMatchObject({ state: 'done', files: [{ path: 'a.txt' }] });
      await bench.worktrees.merge(id);
      await bench.worktrees.drop(id);
    } finally {
      library.remove();
    }
  });

  it('are refused with what to do where there is no git, no repository and no commit [WT.15]', async () => {
    const bench = await workbench(Repository.create({}));
    await expect(bench.open()).rejects.toMatchObject({
      code: 'GIT_FAILED',
      message: expect.stringMatching(/git commit --allow-empty/),
    });
    await expect(bench.open({}, { cwd: bench.data })).rejects.toMatchObject({
      message: expect.stringMatching(/git init/),
    });
    const { runtime, children, data } = bench;
    const without = new Git({ runtime, children }, { folder: join(data, 'git') }).run({ folder: data }, ['status'], {
      env: { PATH: data },
    });
    await expect(without).rejects.toMatchObject({
      code: 'GIT_REQUIRED',
      message: expect.stringMatching(/Install git/),
    });
    expect(bench.worktrees.rows).toEqual([]);
  });

  it('do not follow a link that an earlier task made of the working folder', async () => {
    const bench = await workbench(Repository.create({ 'sub/a.txt': 'one\n' }));
    const where = { cwd: join(bench.repository.folder, 'sub'), conversation: 'c' };
    const first = await bench.open({}, where);
    rmSync(first.folder, { recursive: true });
    symlinkSync(bench.data, first.folder);
    await first.finish();
    await expect(bench.open({}, where)).rejects.toMatchObject({ code: 'WORKSPACE_REFUSED' });
  });

  it('that a node left half made can be dropped', async () => {
    const bench = await workbench();
    const { id, folder } = await bench.open();
    bench.repository.write({ 'a.txt': 'two\n' }, folder);
    bench.restart();
    expect(bench.worktrees.rows).toMatchObject([
      { id, state: 'kept', reason: expect.stringMatching(/the node stopped/) },
    ]);
    await expect(bench.worktrees.drop(id)).rejects.toMatchObject({ message: expect.stringMatching(/1 file\(s\) in/) });
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    await bench.worktrees.drop(id, { force: true });
    expect(bench.repository.git('worktree', 'list').split('\n')).toHaveLength(1);
  });
});
