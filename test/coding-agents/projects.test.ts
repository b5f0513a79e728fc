import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { ProjectRow } from '../../src/node/projects/projects.js';
import { type Cluster, inCluster, until } from '../nodes/cluster.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 120_000 });

/** Writes down that it ran, and says so. */
const REVIEW = `require('node:fs').appendFileSync('ran', 'x'); console.log('reviewed');`;

async function working(cluster: Cluster, data: string, as: string, cwd: string): Promise<CodingAgent> {
  const agent = await CodingAgent.start(cluster, ['--as', as, '--data', data], {}, undefined, cwd);
  await agent.call('mesh_peers');
  return agent;
}

describe('a project with agents of its own', () => {
  it(
    'is asked about, runs for clients in it only, and is asked about again when it changes [BG.4 BG.5]',
    inCluster(async (cluster) => {
      const [data, site, other] = ['state', 'site', 'other'].map((name) => join(cluster.folder, name)) as [
        string,
        string,
        string,
      ];
      for (const folder of [join(site, 'src'), other, join(cluster.folder, '.config', 'ecliptic')]) {
        mkdirSync(folder, { recursive: true });
      }
      const own = '{ "roster": false, "network": { "dht": false }, "policy": [{ "action": "*", "decision": "ask" }] }';
      writeFileSync(join(cluster.folder, '.config', 'ecliptic', 'ecliptic.json'), own);
      const file = join(site, 'ecliptic.json');
      const review = { exec: { command: process.execPath, args: ['review.cjs'] }, capabilities: ['review'] };
      const config = { data: './elsewhere', agents: { reviewer: review, other: { module: './setup.mjs' } } };
      writeFileSync(file, JSON.stringify(config));
      writeFileSync(join(site, 'review.cjs'), REVIEW);
      writeFileSync(
        join(site, 'setup.mjs'),
        "import { writeFileSync } from 'node:fs'; writeFileSync('ran', 'module');",
      );
      cluster.onEnd(async () => void (await cluster.run(['down', '--data', data])));
      const json = async <T>(...words: string[]) => {
        const { stdout, stderr, code } = await cluster.run([...words, '--data', data, '--json']);
        expect(code, stderr).toBe(0);
        return JSON.parse(stdout) as T;
      };
      const project = async () => (await json<ProjectRow[]>('project', 'list'))[0];
      const state = (wanted: ProjectRow['state']) =>
        until(async () => (await project())?.state === wanted, `the project is ${wanted}`);

      // Nothing runs before the owner has seen it.
      const alice = await working(cluster, data, 'alice', join(site, 'src'));
      const bob = await working(cluster, data, 'bob', other);
      await state('asked');
      const [question, ...more] = await json<{ id: string; summary: string; details: object }[]>('approval', 'list');
      expect(more).toEqual([]);
      expect(question).toMatchObject({
        summary: expect.stringContaining(site),
        details: { folder: site, 'not used': ['data'], 'names these files': ['review.cjs', 'setup.mjs'] },
      });
      expect(JSON.stringify(question!.details)).toContain('review.cjs');
      expect(await alice.call('mesh_peers')).not.toContain('reviewer');
      await json('waiting', 'answer', `approval:${question!.id}`, 'allow-always');
      await state('running');
      const { agents, reason } = (await project())!;
      expect(agents).toEqual([expect.stringMatching(/^reviewer-site-[0-9a-f]{4}$/)]);
      expect(reason).toMatch(/^other: a module runs only in a node of the project’s own/);
      const reviewer = agents[0]!;

      // It works for its project, and does not exist for anyone else.
      expect(await alice.call('mesh_peers')).toContain(reviewer);
      await alice.call('mesh_task', { action: 'offer', to: 'review', title: 'Look at it' });
      await until(
        async () => (await alice.call('mesh_task', { action: 'list' })).includes('reviewed'),
        'it is reviewed',
      );
      expect(existsSync(join(site, 'ran'))).toBe(true);
      expect(await bob.call('mesh_peers')).not.toContain('reviewer');
      for (const to of [reviewer, 'review']) {
        const refused = await bob.try('mesh_task', { action: 'offer', to, title: 'Look at it' });
        expect(refused).toMatchObject({ isError: true });
        expect(refused!.content[0]!.text).toMatch(/^Error AGENT_NOT_FOUND/);
      }
      const sent = await bob.try('mesh_send', { to: reviewer, text: 'hello' });
      expect(sent!.content[0]!.text).toMatch(/^Error AGENT_NOT_FOUND/);
      expect(readFileSync(join(site, 'ran'), 'utf8')).toBe('x');

      // A script that it names has changed: what runs was allowed for another one.
      writeFileSync(join(site, 'review.cjs'), `${REVIEW} console.log('and more');`);
      await alice.try('mesh_task', { action: 'offer', to: 'review', title: 'Look again' });
      await state('asked');
      expect(readFileSync(join(site, 'ran'), 'utf8')).toBe('x');
      const carol = await working(cluster, data, 'carol', site);
      await state('asked');
      expect(await carol.call('mesh_peers')).not.toContain('reviewer');
      const [again] = await json<{ id: string }[]>('approval', 'list');
      await json('waiting', 'answer', `approval:${again!.id}`, 'deny');
      await state('denied');

      // What was decided holds for its content, also after a restart.
      writeFileSync(join(site, 'review.cjs'), REVIEW);
      await json('down');
      const dave = await working(cluster, data, 'dave', site);
      await state('running');
      expect(await dave.call('mesh_peers')).toContain(reviewer);
      expect(await json('approval', 'list')).toEqual([]);
      await json('project', 'forget', site);
      expect(await dave.call('mesh_peers')).not.toContain('reviewer');
      expect((await project())!.agents).toEqual([]);
      // The permission is forgotten, too: the next client leads to the question.
      await working(cluster, data, 'erin', site);
      await state('asked');
      expect(await dave.call('mesh_peers')).not.toContain('reviewer');
    }),
  );
});
