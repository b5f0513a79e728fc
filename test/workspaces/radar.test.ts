import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { RadarView } from '../../src/node/control/rows.js';
import type { WorktreeRow } from '../../src/providers/worktree/worktrees.js';
import { ClientProcess } from '../coding-agents/client-process.js';
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

  it(
    'warns both sides once when a file is saved that another agent has changed, and stops agents before they collide [RD.6 RD.7 RD.11]',
    inCluster(async (cluster) => {
      repository = Repository.create({ 'a.txt': 'a\n', 'src/b.txt': 'b\n', '.gitignore': 'out/\n' });
      const [one, two] = ['one', 'two'].map((name) => join(repository!.home, name)) as [string, string];
      for (const clone of [one, two]) repository.git('clone', '--quiet', repository.folder, clone);
      const args = ['--no-dht', '--listen', '127.0.0.1:0'];
      const [desk, laptop] = (await Promise.all(
        ['desk', 'laptop'].map((name) => cluster.start(name, { args, config: { roster: false } })),
      )) as [ProcessNode, ProcessNode];
      await desk.admit(laptop, { owner: true, tiers: [0, 1, 2, 3] });
      const alice = new ClientProcess(cluster, desk, 'alice', 'claude-code', one);
      const bob = new ClientProcess(cluster, laptop, 'bob', 'claude-code', two);
      await until(async () => (await alice.call('mesh_peers')).includes('bob@laptop ['), 'they see each other');
      const heard: Record<string, A2ALogEvent[]> = { desk: [], laptop: [] };
      for (const node of [desk, laptop]) {
        await node.follow((event) => event.type === 'radar' && heard[node.name]!.push(event));
        await until(async () => (await node.json<RadarView>('radar', '--local')).places.length === 1, 'it is watched');
      }
      const guard = async (client: ClientProcess, folder: string, tool_name: string, tool_input: object) => {
        const hook = JSON.stringify({ tool_name, tool_input, cwd: folder });
        const { stdout } = await client.run(['guard', '--client', 'claude-code'], hook);
        const denied = stdout === '' ? undefined : JSON.parse(stdout).hookSpecificOutput;
        return denied?.permissionDecisionReason as string | undefined;
      };
      const edit = (client: ClientProcess, folder: string, file: string) =>
        guard(client, folder, 'Edit', { file_path: join(folder, file) });

      // What git ignores is no change.
      expect(await edit(alice, one, 'src/b.txt')).toBeUndefined();
      repository.write({ 'src/b.txt': 'mine\n', 'new/deep/c.txt': 'c\n', 'out/x': 'x\n' }, one);
      const files = ['new/deep/c.txt', 'src/b.txt'];
      await until(async () => {
        const { places } = await laptop.json<RadarView>('radar');
        return JSON.stringify(places.find(({ device }) => device === desk.key)?.files) === JSON.stringify(files);
      }, 'the laptop knows the files');
      expect(await edit(bob, two, 'src/b.txt')).toContain('src/b.txt: changed by alice@desk on main');
      expect(await edit(bob, two, 'a.txt')).toBeUndefined();
      expect(await edit(alice, one, 'src/b.txt')).toBeUndefined();
      expect(await bob.lease({ action: 'check', paths: ['src/**'] })).toContain(
        'src/b.txt: changed by alice@desk on main, not committed',
      );
      expect(await bob.call('mesh_peers')).toContain('has changed new/deep/c.txt, src/b.txt (project, branch main)');

      // One overlap, which each side hears of once.
      repository.write({ 'src/b.txt': 'mine too\n', 'a.txt': 'only bob\n' }, two);
      await until(() => heard.desk!.length > 0 && heard.laptop!.length > 0, 'both are warned');
      for (const name of ['desk', 'laptop']) {
        expect(heard[name]).toMatchObject([{ topic: 'radar.overlap', details: { paths: ['src/b.txt'] } }]);
      }
      const notice = await alice.call('mesh_inbox', { wait_s: 20 });
      expect(notice).toContain('src/b.txt changed in your folder, and also by bob@laptop on main');
      expect(notice).toMatch(/ from your node \(.*origin: node\)/);
      expect(await bob.call('mesh_inbox', { wait_s: 20 })).toContain(
        'src/b.txt changed in your folder, and also by alice@desk on main',
      );
      expect((await desk.run('radar')).stdout).toMatch(/^OVERLAP {2}src\/b\.txt: changed by /);

      // A commit ends it; a lease on a file that another has changed is an overlap of its own.
      repository.gitIn(one, 'add', '--all');
      repository.gitIn(one, 'commit', '--quiet', '-m', 'alice');
      await until(() => heard.laptop!.some(({ topic }) => topic === 'radar.cleared'), 'it is over');
      expect(await alice.lease({ action: 'take', paths: ['a.txt'] })).toContain('a.txt: changed by bob@laptop on main');
      await until(() => heard.laptop!.some(({ details }) => details?.lease !== undefined), 'it is an overlap');
      expect(await bob.call('mesh_inbox', { wait_s: 20 })).toContain(
        'a.txt changed in your folder, but alice@desk holds a.txt',
      );
      expect(await edit(bob, two, 'a.txt')).toContain('a.txt: alice@desk holds a.txt until');

      // Agents that share a folder.
      const carol = new ClientProcess(cluster, desk, 'carol', 'claude-code', one);
      await carol.call('mesh_peers');
      await until(
        async () => (await desk.json<RadarView>('radar', '--local')).places[0]?.agents.length === 2,
        'both are known to work there',
      );
      const shell = (client: ClientProcess, command: string) => guard(client, one, 'Bash', { command });
      expect(await shell(carol, 'npm test && git checkout -b topic')).toContain(
        `git checkout -b topic: alice works in ${one}, and would lose its HEAD and index`,
      );
      // The agent that would have lost its HEAD is told, once.
      const told = await alice.call('mesh_inbox', { wait_s: 20 });
      expect(told).toContain(`carol was stopped before "git checkout -b topic" in ${one}, where you work`);
      await shell(carol, 'git checkout -b topic');
      const operations = () => heard.desk!.filter(({ topic }) => topic === 'radar.operation');
      await until(() => operations().length > 0, 'it is an event');
      const stopped = { by: `carol@${desk.key}`, others: [`alice@${desk.key}`], command: 'git checkout -b topic' };
      expect(operations()).toMatchObject([{ details: { ...stopped, folder: one, paths: [] } }]);
      expect(await shell(carol, 'git status && git log')).toBeUndefined();
      expect(await shell(bob, `cd ${two} && git stash`)).toBeUndefined();
      expect(await edit(alice, one, 'src/c.txt')).toBeUndefined();
      // Before alice has written it.
      expect(await edit(carol, one, 'src/c.txt')).toContain('src/c.txt: changed by alice on main');
      repository.write({ 'src/c.txt': 'alice again\n' }, one);
      await until(
        async () => (await desk.json<RadarView>('radar', '--local')).places[0]!.files.includes('src/c.txt'),
        'it is changed',
      );
      expect(await edit(carol, one, 'src/c.txt')).toContain('src/c.txt: changed by alice on main');
      expect(await shell(carol, 'git checkout -- src')).toContain('alice works in');
      expect(await shell(carol, 'git restore :/ && git checkout -- "src/*.txt"')).toContain('its changes in src/c.txt');
      expect(await shell(carol, '(cd /tmp && ls); git reset --hard')).toContain('alice works in');
      expect(await shell(carol, 'git restore docs/*.txt')).toBeUndefined();
      expect(await shell(alice, 'git checkout -- src')).toBeUndefined();
      const overlaps = [...heard.desk!, ...heard.laptop!].filter(({ topic }) => topic !== 'radar.operation');
      expect(overlaps.length, JSON.stringify(overlaps)).toBeLessThan(9);
    }),
    120_000,
  );
});
