import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { inCluster } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 120_000 });

const module = (name: string) => new URL(`./agents/${name}.ts`, import.meta.url).pathname;

describe('the command `plan make` [WK.P3]', () => {
  it(
    'writes a plan that runs, and overwrites no file unasked',
    inCluster(async (cluster) => {
      const agents = {
        sun: { module: module('planner') },
        writer: { module: module('writer'), capabilities: ['writing'] },
      };
      const config = { roster: false, agents };
      const node = await cluster.start('node', { args: ['--no-dht'], config, env: { ECLIPTIC_LOG: 'warn' } });
      const { code, stdout, stderr } = await node.run('plan', 'make', 'Write a book\nabout the sun');
      expect({ code, stderr }).toEqual({
        code: 0,
        stderr: expect.stringMatching(
          /^sun makes a plan …\nsun corrects a fault …\n {2}plan.yaml:\d+.*no task "sketch"\n$/,
        ),
      });
      expect(stdout).toBe(
        [
          'plan.yaml: 2 tasks, made by sun',
          '  draft (writer): Draft: Write a book about the sun',
          '  final (writing, after draft): Finish it.',
          'Read it, then run it with: ecliptic plan run plan.yaml --out results\n',
        ].join('\n'),
      );
      const text = readFileSync(join(node.home, 'plan.yaml'), 'utf8');
      expect(text).toMatch(/^# Write a book\n# about the sun\n# Made by sun\. .*\nname: made\ntasks:\n/);
      expect(await node.run('plan', 'run', 'plan.yaml', '--out', 'results')).toMatchObject({ code: 0 });
      expect(existsSync(join(node.home, 'results', 'final.md'))).toBe(true);
      const again = await node.run('plan', 'make', 'Another');
      expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('plan.yaml exists') });
      expect(readFileSync(join(node.home, 'plan.yaml'), 'utf8')).toBe(text);
      const forced = await node.run('plan', 'make', 'Another', '--force', '--json', '--with', 'sun', '--as', 'sun');
      expect(JSON.parse(forced.stdout)).toMatchObject({ planner: 'sun', attempts: 2, plan: { name: 'made' } });
      expect(readFileSync(join(node.home, 'plan.yaml'), 'utf8')).toMatch(/^# Another\n/);
    }),
  );

  it(
    'fails without a planner that has a worker, with the line that would staff it',
    inCluster(async (cluster) => {
      const node = await cluster.start('node', { args: ['--no-dht'], env: { ECLIPTIC_LOG: 'warn' } });
      const { code, stderr } = await node.run('plan', 'make', 'Write', '--out', 'new.yaml');
      expect(code).toBe(1);
      expect(stderr).toMatch(/^NO_WORKER: sun has no worker .*To staff it: .*sun/);
      expect(existsSync(join(node.home, 'new.yaml'))).toBe(false);
    }),
  );
});
