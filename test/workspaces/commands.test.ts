import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { WorktreeDetail, WorktreeRow } from '../../src/providers/worktree/worktrees.js';
import type { BranchReport } from '../../src/work/branch-report.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { Repository } from './repository.js';

let repository: Repository | undefined;

afterEach(() => {
  repository?.remove();
  repository = undefined;
});

/** Adds a line to the file that the task names, and prints what it did. */
const EDIT = `const fs = require('fs');
const file = process.env.ECLIPTIC_TASK_TEXT.split(' ').at(-1);
if (file === 'nothing') process.exit(0);
fs.appendFileSync(file, 'by ' + process.env.ECLIPTIC_TASK_TEXT.split(' ')[0] + '\\n');
if (file === 'broken') { console.error('no more ideas'); process.exit(3); }
if (file === 'endless') setInterval(() => {}, 1_000);
else console.log('edited ' + file);`;

const coder = (cwd: string, workspace: object = {}) => ({
  tier: 2 as const,
  exec: { command: process.execPath, args: ['-e', EDIT], cwd },
  workspace: { worktree: true, ...workspace },
});

async function staffed(node: ProcessNode, ...agents: string[]): Promise<void> {
  await until(async () => {
    const rows = await node.agents();
    return agents.every((id) => rows.find((row) => row.id === id)?.state === 'ready');
  }, 'the workers are ready');
}

const rowsOf = (node: ProcessNode) => node.json<WorktreeRow[]>('workspace', 'list');

/** The branch that the events of `proposal send --json` tell of. */
function branchOf(stdout: string): BranchReport {
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return events.map(({ value }) => value?.['ecliptic/branch']).find((branch) => branch !== undefined);
}

describe('the worktrees of a program’s tasks', () => {
  it(
    'are named in the answer to a plain request, and in that of a task for mesh_task [WT.19]',
    inCluster(async (cluster) => {
      repository = Repository.create({ 'a.txt': 'one\n', 'b.txt': 'two\n' });
      const config = { roster: false, agents: { sun: { tier: 0 as const }, coder: coder(repository.folder) } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config });
      await staffed(node, 'coder');
      const answer = await node.call<string>('request', { as: 'sun', to: 'coder', payload: 'Edit a.txt' });
      const [, branch] = /^edited a\.txt\n\nbranch (ecliptic\/coder\/\w{8}): 1 commit, 1 file changed, \+1 -0$/.exec(
        answer,
      )!;
      expect(repository.git('show', `${branch}:a.txt`)).toBe('one\nby Edit');
      // There is nothing to name where nothing was changed.
      expect(await node.call('request', { as: 'sun', to: 'coder', payload: 'Do nothing' })).toBe('');
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_task', { action: 'offer', to: 'coder', title: 'Alter b.txt' });
      let shown = '';
      await until(async () => {
        shown = await alice.call('mesh_task', { action: 'list' });
        return shown.includes('done');
      }, 'the task is done');
      expect(shown).toMatch(
        /to coder: done, branch ecliptic\/coder\/\w{8}: 1 commit, .*: Alter b\.txt\n[\s\S]*edited b\.txt/,
      );
    }),
  );

  it(
    'give a task a branch with a commit and a diff stat, which the commands list, show, merge and drop [WT.1 WT.2 WT.3]',
    inCluster(async (cluster) => {
      repository = Repository.create({ 'a.txt': 'one\n', 'b.txt': 'two\n' });
      const { folder } = repository;
      const config = { roster: false, agents: { sun: { tier: 0 as const }, coder: coder(folder) } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config });
      await staffed(node, 'coder');

      const said = await node.run('proposal', 'send', 'coder', 'Edit a.txt', '--as', 'sun');
      expect(said, said.stderr).toMatchObject({ code: 0, stdout: 'edited a.txt\n' });
      expect(said.stderr).toMatch(/branch ecliptic\/coder\/(\w{8}): 1 commit, 1 file changed, \+1 -0/);
      const [{ id, branch }] = (await node.json<WorktreeRow[]>('workspace', 'list')) as [WorktreeRow];
      // The user's own files and branch are as they were.
      expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
      expect(repository.git('status', '--porcelain')).toBe('');
      expect(repository.git('show', `${branch}:a.txt`)).toBe('one\nby Edit');
      expect(repository.git('log', '--format=%an|%s', `main..${branch}`)).toBe('coder|Edit a.txt');

      const detail = await node.json<WorktreeDetail>('workspace', 'show', id.slice(0, 5), '--diff');
      expect(detail).toMatchObject({
        ...{ id, agent: 'coder', state: 'done', commitCount: 1, fileCount: 1, insertions: 1, deletions: 0 },
        ...{ title: 'Edit a.txt', uncommitted: 0, base: { branch: 'main' }, files: [{ path: 'a.txt', insertions: 1 }] },
      });
      expect(detail.diff).toContain('+by Edit');
      const shown = await node.run('workspace', 'show', id);
      expect(shown.stdout).toContain('coder: Edit a.txt');

      const refused = await node.run('workspace', 'drop', id, '--yes');
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/^WORKSPACE_REFUSED: .*is not merged/) });
      const merged = await node.run('workspace', 'merge', id);
      expect(merged.stdout).toContain('merged into main');
      expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\nby Edit\n');
      const dropped = await node.run('workspace', 'drop', id, '--yes');
      expect(dropped, dropped.stderr).toMatchObject({ code: 0 });
      expect(existsSync(detail.folder)).toBe(false);
      expect(repository.git('branch', '--list', 'ecliptic/*')).toBe('');
      expect(repository.git('worktree', 'list').split('\n')).toHaveLength(1);
      expect((await node.run('workspace', 'show', id)).stderr).toMatch(/^WORKSPACE_NOT_FOUND/);
    }),
    120_000,
  );

  it(
    'keep two agents apart in one repository, keep failed work, report a conflict, and survive the node [WT.4 WT.5 WT.6 WT.7]',
    inCluster(async (cluster) => {
      repository = Repository.create({ 'a.txt': 'one\n' });
      const { folder } = repository;
      const merging = coder(folder, { onSuccess: 'merge' });
      const agents = { sun: { tier: 0 as const }, left: merging, right: coder(folder) };
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
      await staffed(node, 'left', 'right');
      const propose = (agent: string, text: string) =>
        node.run('proposal', 'send', agent, text, '--as', 'sun', '--json');

      const [left, right] = await Promise.all([propose('left', 'Left a.txt'), propose('right', 'Right a.txt')]);
      const [mine, other] = [branchOf(left.stdout), branchOf(right.stdout)];
      expect([mine.state, other.state]).toEqual(['merged', 'done']);
      expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\nby Left\n');
      expect(repository.git('show', `${other.branch}:a.txt`)).toBe('one\nby Right');

      const conflict = await node.run('workspace', 'merge', other.id);
      expect(conflict.stderr).toMatch(/^MERGE_CONFLICT: the branch conflicts with main in "a.txt"/);
      expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\nby Left\n');
      expect(repository.git('status', '--porcelain')).toBe('');

      const failed = await propose('right', 'Right broken');
      expect(failed.code).toBe(1);
      const kept = branchOf(failed.stdout);
      expect(kept).toMatchObject({ state: 'kept', commitCount: 0, reason: expect.stringContaining('no more ideas') });
      expect(readFileSync(join(kept.folder, 'broken'), 'utf8')).toBe('by Right\n');
      const idle = await propose('right', 'Right nothing');
      expect(branchOf(idle.stdout)).toMatchObject({ state: 'unchanged', commitCount: 0 });

      const endless = propose('right', 'Right endless');
      const working = await until(
        async () =>
          (await rowsOf(node)).find(({ state, folder }) => state === 'working' && existsSync(join(folder, 'endless'))),
        'the program has written its file',
      );
      expect((await node.run('workspace', 'drop', working.id, '--force', '--yes')).stderr).toMatch(
        /^WORKSPACE_REFUSED/,
      );
      await node.crash();
      await endless;
      await node.start(['--no-dht']);
      const rows = await rowsOf(node);
      expect(rows.find(({ id }) => id === working.id)).toMatchObject({
        state: 'kept',
        reason: expect.stringContaining('the node stopped'),
      });
      expect(rows.map(({ agent, state }) => `${agent} ${state}`).sort()).toEqual([
        'left merged',
        'right done',
        'right kept',
        'right kept',
        'right unchanged',
      ]);
    }),
    120_000,
  );
});
