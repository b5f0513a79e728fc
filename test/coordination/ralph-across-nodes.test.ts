import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RunView } from '../../src/plans/run-news.js';
import { inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';

const WORKER = new URL('./agents/plan-worker.ts', import.meta.url).pathname;

describe.concurrent('a plan whose worker is on another node', () => {
  for (const how of ['was killed', 'was stopped'])
    it(
      `gets the result of the task in progress when its own node ${how}, without repeating the task [RL8]`,
      inCluster(async (cluster) => {
        const [here, there] = await Promise.all(
          ['here', 'there'].map(async (name) =>
            cluster.start(name, {
              args: ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`],
              config: { roster: false, agents: name === 'here' ? { sun: {} } : { worker: { module: WORKER } } },
              env: { ECLIPTIC_LOG: 'warn' },
            }),
          ),
        );
        await here!.admit(there!);
        await until(async () => (await here!.agents()).length === 2, 'the worker is known');
        const tasks = [{ id: 'long', description: 'Take your time.', agent: 'worker', input: { takesMs: 4_000 } }];
        const { id } = await here!.call<RunView>('run.start', { text: JSON.stringify({ tasks }), file: '/plan.json' });
        await until(() => begun(there!) !== '', 'the work has begun');
        await (how === 'was killed' ? here!.crash() : here!.stop());
        await here!.start();
        const view = await until(async () => {
          const now = await here!.call<RunView>('run', { id });
          return now.status === 'running' ? undefined : now;
        }, 'the run has ended');
        expect(view).toMatchObject({ status: 'done', tasks: [{ id: 'long', phase: 'done', attempt: 2 }] });
        expect(begun(there!)).toBe('["long",1]\n');
      }),
      120_000,
    );
});

function begun(node: ProcessNode): string {
  try {
    return readFileSync(join(node.home, 'begun.log'), 'utf8');
  } catch {
    return '';
  }
}
