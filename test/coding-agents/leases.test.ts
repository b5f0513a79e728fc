import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { ClientProcess, type Finished } from './client-process.js';

vi.setConfig({ testTimeout: 120_000 });

const AUTHOR = ['-c', 'user.name=n', '-c', 'user.email=e@example.com', '-c', 'init.defaultBranch=main'];

function git(folder: string, ...args: string[]): string {
  return execFileSync('git', [...AUTHOR, '-C', folder, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** Two checkouts of one repository, in places of their own. */
function checkouts({ folder }: Cluster): [string, string] {
  const [one, two] = [join(folder, 'one'), join(folder, 'two')];
  mkdirSync(one);
  git(one, 'init');
  writeFileSync(join(one, 'a.txt'), 'a');
  git(one, 'add', '.');
  git(one, 'commit', '-m', 'first');
  git(folder, 'clone', one, two);
  git(one, 'remote', 'add', 'origin', 'git@example.com:team/it.git');
  git(two, 'remote', 'set-url', 'origin', 'https://someone:secret@example.com/Team/it');
  mkdirSync(join(two, 'sub'));
  return [one, two];
}

async function twoNodes(cluster: Cluster): Promise<[ProcessNode, ProcessNode]> {
  const args = await cluster.argsFor('websocket');
  const desk = await cluster.start('desk', { args });
  const laptop = await cluster.start('laptop', { args });
  await desk.admit(laptop);
  return [desk, laptop];
}

describe('leases between processes', () => {
  it(
    'have one holder each, and outlive a node that is killed; a dead holder’s go to others at once [ON13]',
    inCluster(async (cluster) => {
      const [one, two] = checkouts(cluster);
      const [desk, laptop] = await twoNodes(cluster);
      const alice = new ClientProcess(cluster, desk, 'alice', 'scripted', one);
      const bob = new ClientProcess(cluster, laptop, 'bob', 'scripted', join(two, 'sub'));
      await until(async () => (await alice.call('mesh_peers')).includes('bob@laptop ['), 'they see each other');
      const rounds = SOAK ? 500 : 25;
      for (let round = 0; round < rounds; round++) {
        const paths = [`file-${round}.ts`];
        const won = await Promise.all([alice, bob].map((client) => client.lease({ action: 'take', paths })));
        expect(
          won.filter((text) => text.startsWith('Taken')),
          won.join('\n'),
        ).toHaveLength(1);
        expect(won.filter((text) => text.startsWith('Nothing was taken'))).toHaveLength(1);
        await Promise.all([alice, bob].map((client) => client.lease({ action: 'release' })));
      }
      expect(await bob.lease({ action: 'take', paths: ['src/**'], why: 'moving it' })).toContain('Taken: src');
      await laptop.crash();
      await laptop.start();
      const refused = await until(async () => {
        const text = await alice.lease({ action: 'take', paths: ['src/x.ts'] });
        return text.startsWith('Nothing was taken') && text;
      }, 'the keeper is there again');
      expect(refused).toContain('bob@laptop holds src until');
      expect(refused).toContain('moving it');
      await until(async () => !(await bob.lease({ action: 'check' })).includes('unconfirmed'), 'it is confirmed again');
      // Alice's unconfirmed lease is refused now.
      await until(async () => {
        const { stdout } = await cluster.run(['leases', '--json', '--data', desk.data]);
        const names = (JSON.parse(stdout) as { name: string }[]).map(({ name }) => name);
        return names.join() === 'bob@laptop';
      }, 'one holds it');
      const killedAt = Date.now();
      await bob.kill();
      await until(
        async () => (await alice.lease({ action: 'take', paths: ['src/x.ts'] })).startsWith('Taken'),
        'it is taken from the dead',
      );
      expect(Date.now() - killedAt).toBeLessThan(15_000);
      const { stdout } = await cluster.run(['leases', '--data', desk.data]);
      expect(stdout).toContain('alice holds src/x.ts in it until');
      const [, id] = /^(\S+)/.exec(stdout)!;
      expect((await cluster.run(['leases', 'release', id!.slice(-8), '--data', desk.data])).stdout).toContain(
        'no longer holds',
      );
      expect(await alice.call('mesh_inbox')).toContain('your user took it back');
    }),
  );

  it(
    'are guarded through each client’s own hooks; the holder may edit, and a failing guard blocks no edit [ON13.6]',
    inCluster(async (cluster) => {
      const [one, two] = checkouts(cluster);
      const desk = await cluster.start('desk');
      const holder = new ClientProcess(cluster, desk, 'holder', 'claude-code', one);
      const other = new ClientProcess(cluster, desk, 'other', 'claude-code', two);
      expect(await holder.lease({ action: 'take', paths: ['src'] })).toContain('advisory');
      await other.call('mesh_peers');
      const hooks = {
        'claude-code': { tool_name: 'Edit', tool_input: { file_path: join(two, 'src/x.ts') }, cwd: two },
        codex: {
          tool_name: 'apply_patch',
          tool_input: { command: '*** Begin Patch\n*** Update File: src/x.ts\n' },
          cwd: two,
        },
        gemini: { tool_name: 'write_file', tool_input: { file_path: join(two, 'src/x.ts') }, cwd: two },
        opencode: { tool_name: 'edit', tool_input: { filePath: join(two, 'src/x.ts') }, cwd: two },
        cursor: { tool_name: 'Write', tool_input: { file_path: join(two, 'src/x.ts') }, workspace_roots: [two] },
      };
      const answers: Record<string, Finished> = {};
      for (const [client, hook] of Object.entries(hooks)) {
        answers[client] = await other.run(['guard', '--client', client], JSON.stringify(hook), true);
        const said = answers[client].stdout + answers[client].stderr;
        expect(said, client).toContain('holder holds src until');
        expect(said, client).toContain('mesh_send');
        const free = JSON.stringify(hook).replaceAll('src/x.ts', 'free.ts');
        expect((await other.run(['guard', '--client', client], free)).code).toBe(0);
      }
      expect(JSON.parse(answers['claude-code']!.stdout)).toMatchObject({
        hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'deny' },
      });
      expect(answers.codex).toMatchObject({ code: 2, stdout: '' });
      expect(answers.opencode).toMatchObject({ code: 2, stdout: '' });
      expect(JSON.parse(answers.gemini!.stdout)).toMatchObject({ decision: 'deny' });
      expect(JSON.parse(answers.cursor!.stdout)).toMatchObject({ permission: 'deny' });
      const own = { tool_name: 'Write', tool_input: { file_path: join(one, 'src/x.ts') }, cwd: one };
      expect(await holder.run(['guard', '--client', 'claude-code'], JSON.stringify(own))).toEqual({
        stdout: '',
        stderr: '',
        code: 0,
      });
      // Both guards have spoken now.
      expect(await holder.lease({ action: 'renew' })).toContain('guarded');

      mkdirSync(join(two, 'src'));
      writeFileSync(join(two, 'src', 'new.ts'), 'x');
      writeFileSync(join(two, 'free.ts'), 'x');
      git(two, 'add', 'free.ts');
      const commit = async () => other.run(['guard', '--pre-commit']);
      expect((await commit()).code).toBe(0);
      git(two, 'add', '.');
      const stopped = await commit();
      expect(stopped).toMatchObject({ code: 1, stdout: '' });
      expect(stopped.stderr).toContain('src/new.ts: holder holds src until');

      const claude = ['guard', '--client', 'claude-code'];
      for (const garbage of ['', 'nonsense', '{"tool_name":"Edit","tool_input":[]}']) {
        expect(await other.run(claude, garbage)).toEqual({ stdout: '', stderr: '', code: 0 });
      }
      expect((await other.run(['guard', '--client', 'nobody'])).code).toBe(1);
      desk.signal('SIGSTOP');
      const startedAt = Date.now();
      expect(await other.run(claude, JSON.stringify(hooks['claude-code']))).toEqual({
        stdout: '',
        stderr: '',
        code: 0,
      });
      expect(Date.now() - startedAt).toBeLessThan(4_000);
      expect((await commit()).code).toBe(0);
      desk.signal('SIGCONT');
      await desk.stop();
      expect(await other.run(claude, JSON.stringify(hooks['claude-code']))).toEqual({
        stdout: '',
        stderr: '',
        code: 0,
      });
    }),
  );
});
