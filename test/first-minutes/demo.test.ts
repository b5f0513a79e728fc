import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { writeSample } from '../../src/cli/demo/sample.js';
import { DemoScenes } from '../../src/cli/demo/scenes.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Cluster, until } from '../nodes/cluster.js';
import { blocksOf } from '../page-session.js';
import { ROOT } from '../source-files.js';

vi.setConfig({ testTimeout: 120_000 });

let home: string;
let cluster: Cluster;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ecliptic-demo-test-'));
  cluster = new Cluster();
});

afterEach(async () => {
  await cluster.end();
  rmSync(home, { recursive: true, force: true });
});

describe('ecliptic demo', () => {
  it('shows every scene, writes a report, and leaves nothing else [FM.demo]', async () => {
    const { code, stdout, stderr } = await cluster.run(['demo', '--no-browser'], home);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^All of it was seen, in [0-5]?\d\.\d s\. The report is /m);
    // The README shows an excerpt.
    const shown = blocksOf(readFileSync(join(ROOT, 'README.md'), 'utf8')).find(({ text }) =>
      text.startsWith('Three devices'),
    )!;
    const said = timeless(stdout);
    expect(timeless(shown.text).filter((line) => !said.includes(line))).toEqual([]);
    const report = readFileSync(join(home, 'ecliptic-demo.md'), 'utf8');
    const facts = Object.fromEntries(
      report.split('\n## ').map((part) => {
        const [title, ...lines] = part.split('\n');
        return [title!, lines.filter((line) => line.startsWith('- ')).map((line) => line.slice(2))];
      }),
    );
    expect(facts['Three devices meet']![0]).toMatch(/desktop over hyperswarm and server over hyperswarm$/);
    expect(facts['A plan waits for its owner']![2]).toContain('price * quantity');
    expect(facts['A plan waits for its owner']!.slice(3, 8)).toEqual([
      'secrets was done by enceladus on the server',
      'imports was done by jupiter on the server',
      'fix was done by mars on the desktop',
      expect.stringMatching(/^check was done by (saturn|titan) on the (desktop|server)$/),
      'report was done by uranus on the server',
    ]);
    for (const rule of ['secret/github-token', 'import/cycle']) expect(report).toContain(rule);
    expect(facts['A device fails while it works']![0]).toMatch(
      /^the desktop was killed .* titan on the server then did$/,
    );
    expect(facts['A device fails while it works']!.filter((line) => / 1 passed, 0 failed/.test(line))).toHaveLength(4);
    expect(facts['A message for a device that is off']![0]).toMatch(/^the message waited .*: done, once$/);
    expect(facts['What the rules refuse']!.map((line) => line.split(': ')[1])).toEqual([
      'TIER_VIOLATION',
      'SANDBOX_VIOLATION',
    ]);
    expect(readdirSync(home).filter((name) => name !== '.cache')).toEqual(['ecliptic-demo.md']);
    expect(readdirSync(cluster.folder).filter((name) => name.startsWith('ecliptic-demo-'))).toEqual([]);
    expect(processesOf(cluster.folder)).toEqual([]);
  });

  it('ends its devices when it is interrupted, and says so [FM.demo]', async () => {
    const demo = cluster.launch(['demo', '--no-browser'], home);
    let output = '';
    demo.stdout!.on('data', (text) => {
      output += text;
    });
    await until(async () => output.includes('A plan waits'), 'the second scene begins');
    demo.kill('SIGINT');
    const code = await new Promise((resolve) => demo.once('exit', resolve));
    expect(code).toBe(1);
    expect(existsSync(join(home, 'ecliptic-demo.md'))).toBe(false);
    expect(processesOf(cluster.folder)).toEqual([]);
  });

  it('fails with what it did not see [FM.demo]', async () => {
    const folder = join(home, 'demo');
    mkdirSync(folder);
    const sample = writeSample(folder);
    writeFileSync(sample.program('fixer'), 'process.exit(1);\n');
    const scenes = new DemoScenes({
      ...{ runtime: systemRuntime(), folder, sample, bootstrap: await cluster.dht(), limitMs: 3_000 },
      say: () => {},
    });
    cluster.onEnd(() => scenes.end());
    await expect(scenes.all[0]!.perform()).rejects.toMatchObject({
      code: 'DEMO_FAILED',
      message: expect.stringContaining('the agents of all devices are known and ready'),
    });
  });

  it('fails if the tools of the roster do not find what is wrong in the shop [FM.demo]', async () => {
    const folder = join(home, 'demo');
    mkdirSync(folder);
    const sample = writeSample(folder);
    writeFileSync(join(sample.shop, 'invoice.mjs'), 'export const invoice = (items) => ({ items });\n');
    const scenes = new DemoScenes({
      ...{ runtime: systemRuntime(), folder, sample, bootstrap: await cluster.dht() },
      say: () => {},
    });
    cluster.onEnd(() => scenes.end());
    await scenes.all[0]!.perform();
    await expect(scenes.all[1]!.perform()).rejects.toMatchObject({
      code: 'DEMO_FAILED',
      message: expect.stringContaining('import/cycle in invoice.mjs:1'),
    });
  });

  it('refuses a report that it could not write, before it begins', async () => {
    const { code, stderr } = await cluster.run(['demo', '--report', join(home, 'missing', 'report.md')], home);
    expect(code).toBe(2);
    expect(stderr).toContain('--report');
  });
});

/** Lines without their times, and without what depends on the pace of the machine: who did a test, at which attempt. */
function timeless(text: string): string[] {
  return text
    .split('\n')
    .map((line) =>
      line.replace(/^ +\d+\.\d s {2}/, '').replace(/, by (saturn|titan) on the .*|(?<=works on test-)\d/, ''),
    )
    .filter((line) => line.trim() !== '');
}

/** The command lines of processes that name the folder. */
function processesOf(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const words = readFileSync(join('/proc', pid, 'cmdline'), 'utf8');
        return words.includes(join(folder, 'ecliptic-demo-')) ? [words] : [];
      } catch {
        // It has ended meanwhile.
        return [];
      }
    });
}
