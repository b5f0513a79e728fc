import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { RunView } from '../../src/plans/run-news.js';
import { inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';

const KILLS = SOAK ? 50 : 3;
const WORKER = new URL('./agents/plan-worker.ts', import.meta.url).pathname;

/** Twenty tasks, each dependent on some earlier ones; some have validators, of every kind. */
const PLAN = {
  name: 'twenty',
  tasks: Array.from({ length: 20 }, (_, n) => ({
    id: `t${n}`,
    description: `Task ${n}.`,
    agent: `worker${n % 3}`,
    retries: 100,
    dependsOn: [n - 1, n - 3, n - 7].filter((other, index) => other >= 0 && (n + index) % 2 === 0).map((o) => `t${o}`),
    ...(n % 5 === 1 && { validate: { schema: { type: 'object', required: ['of'] } } }),
    ...(n % 5 === 2 && { validate: { agent: 'worker0' } }),
    ...(n % 10 === 3 && { validate: { command: [process.execPath, '-e', 'process.stdin.resume()'] } }),
  })),
};

describe.concurrent('a node that is killed at random moments of a plan of twenty tasks', () => {
  it(
    `finishes the plan after restarts, and repeats no finished task, over ${KILLS} kills [RL8]`,
    inCluster(async (cluster) => {
      const agents = Object.fromEntries([0, 1, 2].map((n) => [`worker${n}`, { module: WORKER }]));
      const config = { roster: false, agents: { sun: {}, ...agents }, hierarchy: { concurrency: 3, retryDelayMs: 50 } };
      const node = cluster.node('loop', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
      await node.start();
      let kills = 0;
      let plans = 0;
      while (kills < KILLS || plans === 0) {
        plans++;
        kills += await runOnce(node, KILLS - kills);
      }
      expect(kills).toBe(KILLS);
    }),
    60_000 + KILLS * 20_000,
  );

  it(
    'resumes a swarm in progress [RL8]',
    inCluster(async (cluster) => {
      const agents = Object.fromEntries(
        [0, 1].map((n) => [`worker${n}`, { module: WORKER, capabilities: [`part.${n}`] }]),
      );
      const config = { roster: false, agents: { sun: {}, ...agents } };
      const node = await cluster.start('loop', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
      const log = join(node.home, 'begun.log');
      writeFileSync(log, '');
      const swarm = {
        capabilities: ['part.0', 'part.1'],
        subTasks: [
          { id: 'first', requiredCapabilities: ['part.0'], input: { takesMs: 10 } },
          { id: 'second', requiredCapabilities: ['part.1'], input: { takesMs: 1_000 }, dependsOn: ['first'] },
        ],
      };
      const tasks = [{ id: 'together', description: 'Build it.', swarm }];
      const { id } = await node.call<RunView>('run.start', { text: JSON.stringify({ tasks }), file: '/plan.json' });
      await until(() => readFileSync(log, 'utf8').includes('second'), 'the second part has begun');
      await node.crash();
      await node.start();
      const view = await until(async () => {
        const now = await node.call<RunView>('run', { id });
        return now.status === 'running' ? undefined : now;
      }, 'the run has ended');
      expect(view.tasks[0]).toMatchObject({
        phase: 'done',
        attempt: 2,
        result: { first: { of: 'first', from: [] }, second: { of: 'second', from: ['first'] } },
      });
      // The same swarm: its result of the first part was not lost.
      expect(readFileSync(log, 'utf8').match(/first/g)).toHaveLength(1);
    }),
    120_000,
  );
});

/** Runs the plan again to its end, kills the node on the way, and returns the number of kills. */
async function runOnce(node: ProcessNode, most: number): Promise<number> {
  const log = join(node.home, 'begun.log');
  writeFileSync(log, '');
  const init = { text: JSON.stringify(PLAN), file: join(node.home, 'plan.json'), fresh: true };
  const { id } = await node.call<RunView>('run.start', init);
  let kills = 0;
  let shown = new Set<string>();
  for (let view = await node.call<RunView>('run', { id }); ; view = await node.call<RunView>('run', { id })) {
    const done = doneIn(view);
    // A task that was shown as done stays done.
    expect([...shown].filter((task) => !done.has(task))).toEqual([]);
    shown = done;
    if (view.status !== 'running') {
      expectOnce(view, log);
      return kills;
    }
    await delay(300 * Math.random());
    if (kills >= most) continue;
    kills++;
    await node.crash();
    await node.start();
  }
}

/** Attempts only grow: an attempt after the recorded one would mean that a finished task was repeated. */
function expectOnce(view: RunView, log: string): void {
  expect(view.status).toBe('done');
  const begun = readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as [task: string, attempt: number]);
  expect(new Set(begun.map((one) => one.join('.'))).size).toBe(begun.length);
  for (const { id, attempt, result } of view.tasks) {
    const attempts = begun.filter(([task]) => task === id).map(([, n]) => n);
    expect(Math.max(...attempts), `${id} was recorded at attempt ${attempt}`).toBe(attempt);
    const { dependsOn } = PLAN.tasks.find((task) => task.id === id)!;
    expect(result).toEqual({ of: id, from: dependsOn });
  }
}

function doneIn({ tasks }: RunView): Set<string> {
  return new Set(tasks.filter(({ phase }) => phase === 'done').map(({ id }) => id));
}
