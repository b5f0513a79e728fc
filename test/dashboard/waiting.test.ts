import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Waiting, WaitingItem } from '../../src/http/dashboard/facts.js';
import type { RunView } from '../../src/plans/run-news.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { inCluster, until } from '../nodes/cluster.js';
import { ROOT } from '../source-files.js';

vi.setConfig({ testTimeout: 90_000 });

/** Fails twice, so that its task escalates after one retry, and is done when it is tried again. */
const WORKER = `let failures = 2;
export const setup = (agent) => agent.onTask(() => {
  if (failures-- > 0) throw new Error('it is hard');
  return { made: true };
});`;

const PLAN = `name: hard
tasks:
  - id: only
    description: Do it.
    agent: worker
    retries: 1
`;

describe('ecliptic waiting', () => {
  it(
    'lists mail, escalated tasks and failing workers, and answers them [FC.10]',
    inCluster(async (cluster) => {
      const module = join(cluster.folder, 'worker.mjs');
      writeFileSync(module, WORKER);
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: {
          roster: false,
          agents: { sun: {}, worker: { module }, broken: { command: { command: join(ROOT, 'no-such-program') } } },
          hierarchy: { retryDelayMs: 20, escalation: { policy: 'manual' } },
        },
      });
      const list = async () => (await node.json<Waiting>('waiting')).items;
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_send', { to: 'operator', text: 'Which branch?\nThere are two.', needs: 'reply' });
      writeFileSync(join(node.home, 'plan.yaml'), PLAN);
      expect((await node.run('run', 'plan.yaml')).code).toBe(1);
      const items = await until(async () => {
        const found = await list();
        return found.length === 3 ? found : undefined;
      }, 'three items wait');
      expect(items.map(({ kind, actions }) => [kind, actions])).toEqual([
        ['mail', ['reply', 'done']],
        ['task', ['retry']],
        ['worker', ['restart']],
      ]);
      const [mail, task, worker] = items as [WaitingItem, WaitingItem, WaitingItem];
      expect(mail).toMatchObject({ from: 'alice', title: 'Which branch?' });
      expect(task).toMatchObject({ title: 'hard: task only failed' });
      expect(worker).toMatchObject({ from: 'broken', since: null });
      expect((await node.run('waiting')).stdout).toMatch(
        /^ID +AGE +FROM +ABOUT +ANSWERS\nmail:\w+ +\d+s +alice +Which/,
      );

      const wrong = await node.run('waiting', 'answer', mail.id, 'allow-once');
      expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('it takes reply, done')]);
      expect((await node.run('waiting', 'answer', mail.id, 'reply')).code).toBe(2);
      await node.json('waiting', 'answer', mail.id, 'reply', 'The first one.');
      expect(await alice.call('mesh_inbox')).toContain('The first one.');
      await node.json('waiting', 'answer', task.id, 'retry');
      const [run] = await node.json<{ id: string }[]>('runs');
      await until(async () => (await node.call<RunView>('run', { id: run!.id })).status === 'done', 'the run is done');
      expect((await list()).map(({ id }) => id)).toEqual([worker.id]);
      const gone = await node.run('waiting', 'answer', task.id, 'retry');
      expect([gone.code, gone.stderr]).toEqual([
        1,
        expect.stringContaining('ALREADY_ANSWERED: answered on desk, retry'),
      ]);
    }),
  );

  it(
    'lists every message to the owner, also one that is not durable [FC.10]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const list = async () => (await node.json<{ items: WaitingItem[] }>('waiting')).items;
      expect(await list()).toEqual([]);
      await node.call('send', { as: 'sun', to: 'operator', payload: 'It is built.', type: 'notification' });
      const asked = node.call('request', {
        as: 'mars',
        to: 'operator',
        payload: { text: 'Agreed?' },
        timeoutMs: 60_000,
      });
      asked.catch(() => {});
      await until(async () => (await list()).length === 2, 'both wait');
      const items = await list();
      expect(items.map(({ kind, from, title }) => [kind, from, title])).toEqual([
        ['mail', 'sun', 'It is built.'],
        ['mail', 'mars', 'Agreed?'],
      ]);
      for (const { id } of items) await node.json('waiting', 'answer', id, 'done');
      expect(await list()).toEqual([]);
    }),
  );
});
