import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import type { ProposalEvent } from '../../src/node/control/rows.js';
import { BRANCH, type BranchReport, branchIn } from '../../src/work/branch-report.js';
import { acpAgent, ProcessHost } from '../providers/process-host.js';
import { until } from '../providers/processes.js';
import { ScriptedModel } from '../scripted-model.js';
import { Repository } from './repository.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const workspace = { worktree: true };

async function start(agents: (cwd: string) => Config['agents'], files?: Readonly<Record<string, string>>) {
  const repository = Repository.create(files);
  cleanups.push(() => repository.remove());
  const host = await ProcessHost.start(agents(repository.folder), { policy: [{ action: '*', decision: 'allow' }] });
  cleanups.push(() => host.stop());
  const propose = async (to: string, description: string) => {
    const branches: BranchReport[] = [];
    const take = (event: ProposalEvent) => {
      const branch = event.event === 'progress' && branchIn(event.value);
      if (branch) branches.push(branch);
    };
    const result = await host.control.call('propose', { to, description, as: 'sun' }, take);
    return { result, branch: branches.at(-1)! };
  };
  return { repository, host, propose };
}

/** A program over the line protocol that appends to a file in the folder of each piece of work. */
const LINES = `const { appendFileSync } = require('node:fs');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, id, input, folder } = JSON.parse(line);
  const say = (message) => process.stdout.write(JSON.stringify(message) + '\\n');
  if (type === 'hello') say({ type: 'ready', protocol: 1 });
  if (type === 'health') say({ type: 'health', id, state: 'healthy' });
  if (type !== 'execute') return;
  appendFileSync(require('node:path').join(folder, 'a.txt'), input + '\\n');
  say({ type: 'result', id, result: 'appended' });
});`;

describe('workers with worktrees', { timeout: 180_000 }, () => {
  it('coding agents over ACP, and programs that run on, work at once in one repository [WT.16]', async () => {
    const { repository, host, propose } = await start((cwd) => ({
      coder: { acp: { ...acpAgent(), cwd }, workspace },
      other: { acp: { ...acpAgent(), cwd }, workspace, jail: true },
      lines: { command: { command: process.execPath, args: ['-e', LINES], cwd }, workspace, jail: true },
    }));
    await host.ready('coder', 'other', 'lines');
    const [coder, again, other, lines] = await Promise.all([
      propose('coder', 'do:write a.txt coder'),
      propose('coder', 'do:run pwd'),
      propose('other', 'do:write a.txt other'),
      propose('lines', 'lines'),
    ]);
    expect([coder.result, other.result, lines.result]).toEqual(['written', 'written', 'appended']);
    const text = ({ branch }: BranchReport) => repository.git('show', `${branch}:a.txt`);
    expect([coder, other, lines].map(({ branch }) => text(branch))).toEqual(['coder', 'other', 'one\nlines']);
    expect(again).toMatchObject({ result: `0:${again.branch.folder}\n`, branch: { state: 'unchanged' } });
    expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('one\n');
  });

  it('a jailed program commits to its branch, and changes nothing else of the repository [WT.16 JL.9]', async () => {
    const script = [
      'echo jailed > "$ECLIPTIC_TASK_TEXT" && git add . && git -c user.name=c -c user.email=c@d commit -qm mine && git status --short',
      'try() { if (eval "$1") > /dev/null 2>&1; then echo "done: $1"; fi; }',
      'data=$(git rev-parse --git-common-dir); own=$(git rev-parse --git-dir)',
      'try "git branch evil"; try "git update-ref refs/heads/main HEAD"; try "git config a.b c"; try "echo > $data/hooks/pre-commit"',
      'try "echo > $own/commondir"; try "echo > $own/gitdir"; try "echo > $own/config.worktree"; try "echo > $(git rev-parse --show-toplevel)/.git"; try "mv $own $own-2"',
      'git log -1 --format=%s',
    ].join('\n');
    const { repository, host, propose } = await start(
      (cwd) => ({
        coder: { exec: { command: '/bin/sh', args: ['-c', script], cwd }, workspace, jail: true },
        inner: { exec: { command: '/bin/sh', args: ['-c', script], cwd: join(cwd, 'sub') }, workspace, jail: true },
      }),
      { 'a.txt': 'one\n', 'sub/b.txt': 'two\n' },
    );
    await host.ready('coder', 'inner');
    const [coder, inner] = await Promise.all([propose('coder', 'a.txt'), propose('inner', 'b.txt')]);
    expect([coder.result, inner.result]).toEqual(['mine', 'mine']);
    expect(repository.git('show', `${coder.branch.branch}:a.txt`)).toBe('jailed');
    expect(repository.git('show', `${inner.branch.branch}:sub/b.txt`)).toBe('jailed');
    expect(repository.git('show', 'main:a.txt')).toBe('one');
  });

  it('a model edits its own files, and a plan and an A2A task show the branch [WT.17]', async () => {
    const model = await ScriptedModel.start(({ messages }) =>
      messages.at(-1)!.role === 'tool'
        ? { text: '{"done":true}' }
        : { calls: [['write_file', { path: 'a.txt', content: 'by a model\n' }]] },
    );
    cleanups.push(() => model.stop());
    const { repository, host } = await start((cwd) => ({ writer: { model: { ...model.config, cwd }, workspace } }));
    await until(() => (host.host.node.registry.requireById('writer').status?.state ?? 'ready') === 'ready');

    const { url, tokens } = host.host.gateway;
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Write a.txt.' }] };
    const answer = await fetch(`${url}/a2a/rpc`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens.owners}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { tenant: 'writer', message } }),
    });
    const { task } = (
      (await answer.json()) as { result: { task: { artifacts: { name?: string; parts: object[] }[] } } }
    ).result;
    const artifact = task.artifacts.find(({ name }) => name === 'branch')!;
    expect(artifact.parts).toMatchObject([
      { text: expect.stringMatching(/^branch ecliptic\/writer\/\w+: 1 commit, 1 file changed, \+1 -1$/) },
      { data: { [BRANCH]: { commitCount: 1, files: [{ path: 'a.txt' }] } } },
    ]);
    expect(JSON.stringify(task.artifacts)).toContain('done');

    const schema = { type: 'object', required: ['done'] };
    const tasks = [{ id: 'write', description: 'Write a.txt.', agent: 'writer', validate: { schema } }];
    const text = JSON.stringify({ name: 'one', tasks });
    const { id } = await host.control.call('run.start', { text, file: 'plan.json', as: 'sun' });
    const view = () => host.control.call('run', { id });
    let [done] = (await view()).tasks;
    for (
      ;
      done?.phase === 'waiting' || done?.phase === 'running' || done?.phase === 'validating';
      [done] = (await view()).tasks
    )
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(done).toMatchObject({ phase: 'done', result: { done: true }, branch: { state: 'done', commitCount: 1 } });
    expect(repository.git('show', `${done!.branch!.branch}:a.txt`)).toBe('by a model');
  });
});
