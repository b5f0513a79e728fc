import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { SwarmDetail, SwarmEvent, SwarmRow } from '../../src/node/control/rows.js';
import { inCluster, until } from '../nodes/cluster.js';
import { swarmNodes } from './swarm-nodes.js';

vi.setConfig({ testTimeout: 120_000 });

describe('the swarm commands', () => {
  it(
    'form a swarm across nodes, show its progress, and print its outcome [SW5]',
    inCluster(async (cluster) => {
      const [first, second, third] = await swarmNodes(cluster, [['paint'], ['write', 'paint']]);
      const human = await first!.run('swarm', 'a book', '--capability', 'paint', '--capability', 'write');
      expect(human).toMatchObject({ code: 0, stderr: '' });
      expect(human.stdout).toMatch(/is active: 0 of 2 done/);
      expect(human.stdout).toMatch(/paint: (running|completed) by w1@/);
      expect(human.stdout).toMatch(
        / is completed:\npaint: \{"subTask":"paint","by":"w1".*\nwrite: \{"subTask":"write"/,
      );

      const plan = {
        subTasks: [
          { id: 'sketch', description: 'a sketch', requiredCapabilities: ['paint'] },
          { id: 'page', requiredCapabilities: ['write'], dependsOn: ['sketch'] },
        ],
      };
      const file = join(first!.home, 'plan.json');
      writeFileSync(file, JSON.stringify(plan));
      const { code, stdout } = await first!.run('swarm', 'a page', '--plan', file, '--json');
      expect(code).toBe(0);
      const events = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as SwarmEvent);
      expect(new Set(events.map(({ event }) => event))).toEqual(new Set(['swarm', 'sub-task', 'ended']));
      const ended = events.at(-1) as unknown as { swarm: string; status: string; results: Record<string, object> };
      expect(ended.status).toBe('completed');
      expect(ended.results).toMatchObject({ sketch: { after: [] }, page: { by: 'w2', after: ['sketch'] } });

      const rows = await first!.json<SwarmRow[]>('swarms');
      expect(rows.map(({ status, counts }) => [status, counts.completed])).toEqual([
        ['completed', 2],
        ['completed', 2],
      ]);
      expect((await first!.run('swarms')).stdout).toContain(ended.swarm);
      // Whoever took part knows the same, on its own node.
      for (const node of [second!, third!]) {
        const seen = await until(async () => {
          const detail = await node.json<SwarmDetail>('swarm', 'show', ended.swarm);
          return detail.status === 'completed' ? detail : undefined;
        }, `${node.name} sees the end`);
        expect(seen.subTasks.map(({ id, result }) => [id, result])).toEqual(Object.entries(ended.results));
      }
      const shown = await first!.run('swarm', 'show', ended.swarm, '--follow');
      expect(shown).toMatchObject({ code: 0 });
      expect((await first!.run('swarm', 'show', ended.swarm)).stdout).toMatch(/page: completed by w2@\w+ → \{/);
    }),
  );

  it(
    'let an agent join later, end a swarm on demand, and report errors [SW5]',
    inCluster(async (cluster) => {
      const [first, second] = await swarmNodes(cluster, [['dig'], ['dig']]);
      const subTasks = Array.from({ length: 200 }, (_, at) => ({ id: `hole-${at}`, requiredCapabilities: ['dig'] }));
      const start = { task: 'dig', plan: JSON.stringify({ subTasks }) };
      const { id } = await first!.call<SwarmRow>('swarm.start', start);
      expect(await second!.run('swarm', 'join', id)).toMatchObject({ code: 2 });
      const joined = await first!.run('swarm', 'join', id, '--as', 'sun');
      expect(joined).toMatchObject({ code: 0, stdout: expect.stringContaining(`sun takes part in ${id} is active`) });
      const cancelled = await first!.run('swarm', 'cancel', id);
      expect(cancelled).toMatchObject({ code: 0 });
      const ended = await first!.run('swarm', 'show', id, '--follow');
      expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('SWARM_FAILED: its owner cancelled it') });

      expect(await first!.run('swarm', 'nothing to go by')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--capability'),
      });
      expect(await first!.run('swarm', 'x', '--capability', 'fly')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('CAPABILITY_NOT_FOUND'),
      });
      expect(await first!.run('swarm', 'x', '--plan', 'missing.json')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('INVALID_PLAN'),
      });
      expect(await first!.run('swarm', 'show', 'nothing')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('SWARM_NOT_FOUND'),
      });
    }),
  );
});
