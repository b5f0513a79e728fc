import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { RunReport } from '../../src/cli/run-report.js';
import { type Cluster, finish, inCluster, type ProcessNode } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 120_000 });

const WRITER = new URL('./agents/writer.ts', import.meta.url).pathname;

async function start(cluster: Cluster): Promise<ProcessNode> {
  const config = {
    roster: false,
    agents: { sun: {}, writer: { module: WRITER } },
    hierarchy: { retryDelayMs: 20, escalation: { policy: 'manual' as const } },
  };
  return cluster.start('node', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
}

function write(node: ProcessNode, tasks: readonly { id: string; [key: string]: unknown }[]): void {
  const full = tasks.map((task) => ({ description: `Write ${task.id}.`, agent: 'writer', retries: 0, ...task }));
  writeFileSync(join(node.home, 'plan.json'), JSON.stringify({ name: 'book', tasks: full }));
}

function reportIn(node: ProcessNode, folder = 'out'): RunReport {
  return JSON.parse(readFileSync(join(node.home, folder, 'report.json'), 'utf8')) as RunReport;
}

const filesIn = (node: ProcessNode, folder = 'out') =>
  readdirSync(join(node.home, folder))
    .filter((name) => !name.startsWith('.'))
    .sort();
const contentOf = (node: ProcessNode, name: string) => readFileSync(join(node.home, 'out', name), 'utf8');

describe('a plan that is run with --out', () => {
  it(
    'prints each result when it arrives, and leaves results and a report, also for an earlier run [WK.P1 WK.P8]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const usage = { inputTokens: 1_200, outputTokens: 30, modelCalls: 2, costUsd: 0.5 };
      const files = [
        { name: '../../evil/name.sql', text: 'create table a' },
        { filename: 'logo.bin', raw: Buffer.from([1, 2]).toString('base64') },
      ];
      write(node, [
        { id: 'intro', input: { usage } },
        { id: 'report', input: { result: { pages: 3 }, usage } },
        { id: 'parts', input: { result: { files }, until: 'go' }, dependsOn: ['intro', 'report'] },
      ]);
      const child = cluster.launch(['run', 'plan.json', '--out', 'out', '--data', node.data], node.home);
      const ended = finish(child);
      // The results are printed while the last task is still in progress.
      let seen = '';
      await new Promise<void>((resolve) => {
        child.stdout!.on('data', (data) => {
          seen += String(data);
          if (seen.includes('  Attempt 1.') && seen.includes('"pages": 3')) resolve();
        });
      });
      expect(contentOf(node, 'intro.md')).toBe('# intro\n\nAttempt 1.\n');
      expect(reportIn(node)).toMatchObject({ status: 'running', complete: false });
      writeFileSync(join(node.home, 'go'), '');
      const { code, stdout } = await ended;
      expect(code).toBe(0);
      expect(stdout).toMatch(
        /\ndone: 3 done in .*\nusage: 2,400 input .* 4 model calls, \$1.00\nreport: .*report.md\n$/,
      );
      const names = ['intro.md', 'parts+.._.._evil_name.sql', 'parts+logo.bin', 'parts.json', 'report-2.json'];
      expect(filesIn(node)).toEqual([...names, 'report.json', 'report.md'].sort());
      expect(contentOf(node, 'parts+.._.._evil_name.sql')).toBe('create table a');
      expect(JSON.parse(contentOf(node, 'report-2.json'))).toEqual({ pages: 3 });
      const report = reportIn(node);
      expect(report).toMatchObject({ plan: 'book', status: 'done', complete: true, counts: { done: 3 } });
      expect(report.usage).toEqual({ inputTokens: 2_400, outputTokens: 60, modelCalls: 4, costUsd: 1 });
      expect(report.tasks[0]).toMatchObject({ id: 'intro', state: 'done', agent: 'writer', attempts: 1, usage });
      expect(report.tasks[0]!.durationMs).toBeGreaterThanOrEqual(0);
      const markdown = contentOf(node, 'report.md');
      expect(markdown).toMatch(/^# book: done\n/);
      expect(markdown).toContain('[intro.md](intro.md)');
      // Usage is known after a restart, too.
      await node.crash();
      await node.start();
      expect((await node.run('plan', 'show', report.run)).stdout).toMatch(/usage +2,400 input and 60 output tokens/);
      expect(await node.run('plan', 'report', report.run, '--out', 'again')).toMatchObject({ code: 0 });
      expect(reportIn(node, 'again')).toEqual(report);
      expect(filesIn(node, 'again')).toEqual(filesIn(node));
      // Lines of JSON for programs.
      const lines = (await node.run('run', 'plan.json', '--out', 'out', '--json')).stdout.trim().split('\n');
      expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(['run', 'ended', 'report']);
    }),
  );

  it(
    'exits with 1 if a task failed, and says of none that it is done which is not [WK.P2]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const tasks = [
        { id: 'a' },
        { id: 'b', input: { fails: 'no | paper' }, retries: 1 },
        { id: 'c', dependsOn: ['b'] },
      ];
      // A report of an earlier run, in which b was done.
      write(node, [{ id: 'a' }, { id: 'b' }]);
      expect(await node.run('run', 'plan.json', '--out', 'out')).toMatchObject({ code: 0 });
      expect(filesIn(node)).toEqual(['a.md', 'b.md', 'report.json', 'report.md']);
      write(node, tasks);
      const { code, stdout, stderr } = await node.run('run', 'plan.json', '--out', 'out');
      expect(code).toBe(1);
      expect(stderr).toMatch(/^RUN_INCOMPLETE: /);
      expect(stdout).toMatch(
        /\nescalated: 1 done, 1 escalated, 1 blocked in .*\n {2}b: .*\n {2}c: .*\nreport \(escalated\): /,
      );
      expect(filesIn(node)).toEqual(['a.md', 'report.json', 'report.md']);
      const report = reportIn(node);
      expect(report).toMatchObject({
        status: 'escalated',
        complete: false,
        counts: { done: 1, escalated: 1, blocked: 1 },
      });
      expect(report.tasks).toMatchObject([
        { id: 'a', state: 'done', attempts: 0, files: ['a.md'], reason: null },
        {
          id: 'b',
          state: 'escalated',
          attempts: 2,
          files: [],
          reason: { message: expect.stringContaining('no | paper') },
        },
        { id: 'c', state: 'blocked', attempts: 0, files: [], reason: { code: 'RUN_INCOMPLETE' } },
      ]);
      expect(report.tasks[1]!.feedback).toHaveLength(2);
      expect(contentOf(node, 'report.md')).toContain('## b: escalated');
    }),
  );

  it(
    'reports an interruption when the node is killed, and completes the report when it is run again [WK.P2 RL8]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      write(node, [{ id: 'a' }, { id: 'b', input: { until: 'go' }, dependsOn: ['a'] }, { id: 'c', dependsOn: ['b'] }]);
      const child = cluster.launch(['run', 'plan.json', '--out', 'out', '--data', node.data], node.home);
      const ended = finish(child);
      await new Promise<void>((resolve) => {
        child.stdout!.on('data', (data) => {
          if (/b: running|1 done, 1 running/.test(String(data))) resolve();
        });
      });
      await node.crash();
      const { code, stderr } = await ended;
      expect(code).toBe(1);
      expect(stderr).toMatch(/^NO_NODE: the node stopped/);
      expect(reportIn(node)).toMatchObject({
        ...{ status: 'running', complete: false, interrupted: expect.stringContaining('the node stopped') },
        tasks: [
          { id: 'a', state: 'done', files: ['a.md'] },
          { id: 'b', state: 'running', files: [] },
          { id: 'c', state: 'waiting', files: [] },
        ],
      });
      expect(filesIn(node)).toEqual(['a.md', 'report.json', 'report.md']);
      writeFileSync(join(node.home, 'go'), '');
      await node.start();
      const again = await node.run('run', 'plan.json', '--out', 'out');
      expect(again.code).toBe(0);
      expect(reportIn(node)).toMatchObject({ status: 'done', complete: true });
      expect(reportIn(node)).not.toHaveProperty('interrupted');
      expect(filesIn(node)).toEqual(['a.md', 'b.md', 'c.md', 'report.json', 'report.md']);
      expect(readFileSync(join(node.home, 'begun.log'), 'utf8')).toBe('a.1\nb.1\nb.2\nc.1\n');
    }),
  );

  it(
    'refuses to overwrite files that are not its own, before anything runs [WK.P1]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      write(node, [{ id: 'a' }]);
      const out = join(node.home, 'out');
      mkdirSync(out);
      const refused = async (name: string) => {
        const { code, stderr } = await node.run('run', 'plan.json', '--out', 'out');
        expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`${join(out, name)} exists`) });
      };
      writeFileSync(join(out, 'report.md'), 'mine');
      await refused('report.md');
      rmSync(join(out, 'report.md'));
      const outside = join(node.home, 'outside');
      symlinkSync(outside, join(out, 'a.md'));
      await refused('a.md');
      rmSync(join(out, 'a.md'));
      expect(existsSync(join(node.home, 'begun.log'))).toBe(false);
      expect((await node.run('run', 'plan.json', '--out', 'out')).code).toBe(0);
      // A result that its reader has edited is not lost either.
      writeFileSync(join(out, 'a.md'), 'edited');
      await refused('a.md');
      expect(contentOf(node, 'a.md')).toBe('edited');
      expect(existsSync(outside)).toBe(false);
    }),
  );
});
