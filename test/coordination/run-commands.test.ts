import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { RunNews, RunView } from '../../src/plans/run-news.js';
import { type Cluster, finish, inCluster, type ProcessNode } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';

vi.setConfig({ testTimeout: 120_000 });

const WORKER = new URL('./agents/plan-worker.ts', import.meta.url).pathname;
const PLAN = `name: two
tasks:
  - id: first
    description: Begin.
    agent: worker
    # Long enough for the command to follow the run before anything ends.
    input: { takesMs: 400 }
  - id: second
    description: Go on.
    agent: worker
    dependsOn: [first]
    input: { failures: FAILURES }
    retries: 1
`;

async function start(cluster: Cluster): Promise<ProcessNode> {
  const agents = { sun: {}, worker: { module: WORKER } };
  const config = { roster: false, agents, hierarchy: { retryDelayMs: 20 } };
  return cluster.start('node', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
}

function write(node: ProcessNode, failures: number, name = 'plan.yaml'): string {
  const file = join(node.home, name);
  writeFileSync(file, PLAN.replace('FAILURES', String(failures)));
  return file;
}

describe('the commands about plans [RL10]', () => {
  it(
    'run a plan, print its progress, and repeat no finished task',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      write(node, 1);
      const first = await node.run('run', 'plan.yaml');
      expect(first).toMatchObject({ code: 0, stderr: '' });
      const lines = first.stdout.trim().split('\n');
      expect(lines[0]).toMatch(/^two \(\w+\): /);
      expect(lines).toContain('first: done by worker');
      expect(lines.find((line) => line.startsWith('second: pausing'))).toContain('second is hard');
      expect(lines).toContain('second: done by worker, attempt 2');
      expect(lines.at(-1)).toMatch(/^done: 2 done in \d/);
      const again = await node.run('run', 'plan.yaml', '--json');
      const news = again.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RunNews);
      expect(news.map(({ event }) => event)).toEqual(['run', 'ended']);
      expect(again.code).toBe(0);
      const fresh = await node.run('run', 'plan.yaml', '--fresh', '--json', '--as', 'sun');
      const told = fresh.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RunNews);
      expect(told.at(-1)).toMatchObject({ event: 'ended', status: 'done', counts: { done: 2 } });
      const runs = await node.json<RunView[]>('runs');
      expect(runs.map(({ name, status }) => [name, status])).toEqual([
        ['two', 'done'],
        ['two', 'done'],
      ]);
      expect((await node.run('runs')).stdout).toMatch(/ID +PLAN +STATUS +AGENT +UPDATED\n\w+ +two +done +sun/);
      const shown = await node.run('run', 'show', runs[0]!.id);
      expect(shown.stdout).toContain('second: done by worker, attempt 2  {"of":"second","from":["first"]}');
      expect(await node.json<RunView>('run', 'show', runs[0]!.id)).toMatchObject({ id: runs[0]!.id, status: 'done' });
    }),
  );

  it(
    'fail when tasks are left undone, and print the state of each task',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      write(node, 2);
      const { code, stdout, stderr } = await node.run('run', 'plan.yaml');
      expect(code).toBe(1);
      expect(stdout).toMatch(
        /escalated: 1 done, 1 escalated in .*\n {2}second: escalated, attempt 2 \(.*second is hard/,
      );
      expect(stderr).toMatch(/^RUN_INCOMPLETE: run \w+ is escalated/);
      // The third attempt succeeds, and the first task is not done again.
      expect(await node.run('run', 'plan.yaml')).toMatchObject({ code: 0 });
      const begun = readFileSync(join(node.home, 'begun.log'), 'utf8').trim().split('\n');
      expect(begun).toEqual(['["first",1]', '["second",1]', '["second",2]', '["second",3]']);
      expect(await node.run('run', 'show', 'nothing')).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^RUN_NOT_FOUND/),
      });
    }),
  );

  it(
    'report every fault of a plan with its line, and print the published schema',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const file = join(node.home, 'bad.yaml');
      writeFileSync(file, 'tasks:\n  - id: a\n    description: x\n    agent: vulcan\n    dependsOn: [b]\n');
      const { code, stdout, stderr } = await node.run('run', 'bad.yaml');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^INVALID_PLAN: the plan has faults:\n/);
      expect(stderr).toContain(`${file}:4:12: tasks.0.agent: `);
      expect(stderr).toContain(`${file}:5:17: tasks.0.dependsOn.0: there is no task "b"`);
      expect((await node.run('run', 'missing.yaml')).stderr).toMatch(/^INVALID_PLAN: there is no file .*missing\.yaml/);
      expect(await node.run('run')).toMatchObject({ code: 2 });
      const published = readFileSync(join(ROOT, 'schema/plan.schema.json'), 'utf8');
      expect(JSON.parse((await node.run('run', '--schema')).stdout)).toEqual(JSON.parse(published));
    }),
  );

  it(
    'run the example plan by the tools of the roster, without a worker, and write what they found [RT.4]',
    inCluster(async (cluster) => {
      const node = await cluster.start('planets', { args: ['--no-dht'] });
      writeFileSync(join(node.home, 'key.js'), `export const key = 'ghp_${'aB3kQ7xZ1mN5pR2sT8vW4yU6cE0dF3gHjKl9'}';\n`);
      writeFileSync(join(node.home, 'a.js'), "import './b.js';\nimport './gone.js';\n");
      writeFileSync(join(node.home, 'b.js'), "import './a.js';\n");
      const example = join(ROOT, 'examples', 'plan.yaml');
      const { code, stdout } = await node.run('run', example, '--json', '--out', 'results');
      const news = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RunNews);
      expect(news.find(({ event }) => event === 'ended')).toMatchObject({ status: 'done', counts: { done: 6 } });
      expect(code).toBe(0);
      const { id } = news[0] as RunView;
      const { tasks } = await node.call<RunView>('run', { id });
      expect(tasks.map(({ by }) => by)).toEqual(['enceladus', 'jupiter', 'neptune', 'mercury', 'saturn', 'uranus']);
      const review = readFileSync(join(node.home, 'results', 'review.md'), 'utf8');
      expect(review).toContain('`key.js:1` a token of GitHub');
      expect(review).toContain('`a.js:1` import cycle');
      expect(review).toContain('`a.js:2` it imports ./gone.js');
      expect(review).not.toContain('aB3kQ7xZ1mN5');
    }),
  );

  it(
    'leave a run to the node when they are interrupted, and stop it on request',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const tasks = Array.from({ length: 200 }, (_, n) => ({ id: `t${n}`, description: 'x', agent: 'worker' }));
      writeFileSync(join(node.home, 'long.json'), JSON.stringify({ concurrency: 1, tasks }));
      const child = cluster.launch(['run', 'long.json', '--data', node.data], node.home);
      const ended = finish(child);
      await new Promise<void>((resolve) => {
        child.stdout!.on('data', (data) => {
          if (String(data).includes('done by worker')) resolve();
        });
      });
      child.kill('SIGINT');
      const { code, stderr } = await ended;
      expect(code).toBe(1);
      const [, id] = /plan show (\w+) --follow/.exec(stderr)!;
      expect(await node.call('run', { id })).toMatchObject({ status: 'running' });
      expect(await node.json('run', 'stop', id!)).toMatchObject({ status: 'stopped' });
      expect((await node.run('run', 'show', id!)).stdout).toContain('long: stopped');
    }),
  );
});
