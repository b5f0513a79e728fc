import { execFileSync } from 'node:child_process';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../../test/coding-agents-fixture.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Git } from '../../system/git/git.js';
import { Children } from '../../system/process/children.js';
import { gitIdentity, normalRemote } from './repository.js';

function git(folder: string, ...args: string[]): void {
  const author = ['-c', 'user.name=n', '-c', 'user.email=e@example.com'];
  execFileSync('git', [...author, '-C', folder, ...args], { stdio: 'ignore' });
}

async function identity(nodeKey: string) {
  const runtime = systemRuntime();
  const children = await Children.open(runtime, { folder: join(temporaryFolder(), 'children') });
  onTestFinished(() => children.close({ graceMs: 0 }));
  const git = new Git({ runtime, children }, { folder: join(temporaryFolder(), 'git') });
  return gitIdentity(git, nodeKey);
}

describe('the normal form of a remote', () => {
  it.each([
    'git@example.com:team/it.git',
    'https://example.com/team/it',
    'https://user:token@EXAMPLE.com/Team/it.git/',
    'ssh://git@example.com:2222/team/it.git',
    'git+ssh://example.com/team/it',
  ])('is one thing however it is written: %s', (url) => {
    expect(normalRemote(url)).toBe('example.com/team/it');
  });

  it('leaves a local folder unchanged', () => {
    expect(normalRemote('/srv/it.git')).toBe('/srv/it');
    expect(normalRemote('C:\\work\\it')).toBe('c:\\work\\it');
  });
});

describe('a repository', () => {
  it('has the same id in every checkout, folder and worktree, on every node, and reveals no address [ON13.7]', async () => {
    const folder = realpathSync(temporaryFolder());
    const [one, two, tree] = [join(folder, 'one'), join(folder, 'two'), join(folder, 'tree')];
    mkdirSync(one);
    git(one, 'init');
    writeFileSync(join(one, 'a'), 'a');
    git(one, 'add', '.');
    git(one, 'commit', '-m', 'first');
    git(folder, 'clone', one, two);
    git(one, 'worktree', 'add', tree);
    git(one, 'remote', 'add', 'origin', 'git@example.com:team/it.git');
    git(two, 'remote', 'set-url', 'origin', 'https://me:secret@example.com/team/it');
    git(two, 'commit', '--allow-empty', '-m', 'second');
    mkdirSync(join(two, 'deep', 'er'), { recursive: true });
    const [here, there] = [await identity('node-1'), await identity('node-2')];
    const first = await here(one);
    const id = expect.stringMatching(/^[0-9a-f]{32}$/);
    expect(first).toEqual({ id, formerId: id, name: 'it', root: one });
    expect(await here(tree)).toEqual({ ...first, root: tree });
    expect(await there(join(two, 'deep', 'er'))).toEqual({ ...first, root: two });
    git(two, 'remote', 'set-url', 'origin', 'https://example.com/other/it');
    expect((await (await identity('node-2'))(two)).id).not.toBe(first.id);
  });

  it('is the same in a shallow clone of a folder or of a host [ON13.7]', async () => {
    const folder = realpathSync(temporaryFolder());
    const [origin, full, shallow] = ['origin', 'full', 'shallow'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    mkdirSync(origin);
    git(origin, 'init');
    git(origin, 'commit', '--allow-empty', '-m', 'first');
    git(origin, 'commit', '--allow-empty', '-m', 'second');
    git(folder, 'clone', `file://${origin}`, full);
    git(folder, 'clone', '--depth', '1', `file://${origin}`, shallow);
    const local = await identity('node-1');
    expect((await local(shallow)).id).toBe((await local(full)).id);
    for (const clone of [full, shallow]) git(clone, 'remote', 'set-url', 'origin', 'git@example.com:team/it.git');
    const remote = await identity('node-1');
    expect((await remote(shallow)).id).toBe((await remote(full)).id);
    // What an earlier version stored is found again.
    expect((await remote(full)).formerId).toBeDefined();
  });

  it('without git is one folder of one node', async () => {
    const folder = realpathSync(temporaryFolder());
    const [here, there] = [await identity('node-1'), await identity('node-2')];
    const found = await here(folder);
    expect(found.root).toBe(folder);
    expect((await there(folder)).id).not.toBe(found.id);
    expect((await here(join(folder, '.'))).id).toBe(found.id);
  });
});
