import { describe, expect, it } from 'vitest';
import { compareGrowth, compareRunners, isWanted, type Report } from '../bench/compare.js';
import { judge } from '../bench/floors.js';
import { main, type Suite } from '../bench/main.js';
import { merged, pageWith, section } from '../bench/report.js';

const MACHINE = '2 cores (a processor), Node v20.0.0';

const row = (name: string, ratio: number, spread: readonly [number, number]) => ({
  ...{ suite: 'mesh', name, ratio, spread, ours: 0.5, theirs: 1_000, unit: 'µs CPU', measured: 'cpu' as const },
});

function sectionOf(suite: string, ratio: number): string {
  const at = new Date('2026-11-18T21:05:00Z');
  return section([row('request/moleculer-call', ratio, [0.9, 1.3])], {
    ...{ suite, at, machine: MACHINE, load: [1.5, 2], runs: 5 },
  });
}

describe('the benchmarks', () => {
  it('judge a row by its floor and by its spread [BN.1]', () => {
    expect(judge(1.1, [1.02, 1.3], { value: 1 })).toBe('reached');
    expect(judge(1.1, [0.9, 1.3], { value: 1 })).toBe('reached, not in every round');
    expect(judge(0.95, [0.9, 1.3], { value: 1 })).toBe('below, not in every round');
    expect(judge(0.95, [0.9, 0.99], { value: 1 })).toBe('below');
    expect(judge(3.1, [2.9, 3.3], { value: 3, atMost: true })).toBe('below, not in every round');
    expect(judge(80, undefined, { value: 80, atMost: true })).toBe('reached');
    expect(judge(1.1, [0.9, 1.3], undefined)).toBe('unclear');
    expect(judge(1.1, [1.05, 1.3], undefined)).toBeUndefined();
  });

  it('replace the sections of the suites that ran, and keep all others as they are [BN.2]', () => {
    const suites = ['mesh', 'links', 'cli'];
    const first = pageWith('', new Map([['cli', '## cli\n\nby hand']]), suites);
    const second = pageWith(first, new Map([['mesh', sectionOf('mesh', 1.1)]]), suites);
    expect(second.indexOf('## mesh')).toBeLessThan(second.indexOf('## cli\n\nby hand\n'));
    expect(second).toContain(
      '| `request/moleculer-call` | 1.1× | 0.9–1.3 | 0.5 | 1,000 | µs CPU | ≥ 1 | reached, not in every round |',
    );
    expect(second).toContain(`2026-11-18 21:05 UTC, load 1.5 to 2, ${MACHINE}. Medians of 5 runs.`);
    const third = pageWith(second, new Map([['mesh', sectionOf('mesh', 1.2)]]), suites);
    expect(third).toContain('1.2×');
    expect(third).not.toContain('1.1×');
    expect(third.replace('1.2×', '1.1×')).toBe(second);
  });

  it('take the median of several runs with the spread of all [BN.1]', () => {
    const runs = [1.2, 0.8, 1].map((ratio) => [row('a/b', ratio, [ratio - 0.1, ratio + 0.1])]);
    expect(merged(runs)[0]).toMatchObject({ ratio: 1, spread: [0.8 - 0.1, 1.2 + 0.1] });
  });

  it('measure rows with a floor in every run, and others perhaps in the first alone [BN.1]', async () => {
    const codec = row('codec/json', 2, [1.9, 2.1]);
    const runs = [1.2, 0.8, 1].map((ratio, run) => [...(run === 0 ? [codec] : []), row('a/b', ratio, [ratio, ratio])]);
    expect(merged(runs)).toMatchObject([
      { name: 'codec/json', ratio: 2, spread: [1.9, 2.1] },
      { name: 'a/b', ratio: 1, spread: [0.8, 1.2] },
    ]);
    const wanted: boolean[][] = [];
    const run = async () => {
      wanted.push(['send/moleculer-call', 'codec/json'].map((name) => isWanted('mesh', name)));
    };
    const around = { print: () => {}, fail: () => {}, readPage: () => '', writePage: () => {} };
    const suites = { mesh: { about: 'messages', load: async () => ({ run }) } };
    expect(await main(['mesh', '--runs', '3'], suites, around)).toBe(0);
    expect(wanted).toEqual([
      [true, true],
      [true, false],
      [true, false],
    ]);
    expect(await main(['mesh'], suites, around)).toBe(0);
    expect(wanted.at(-1)).toEqual([true, true]);
  });

  it('measure in turn, print each row as text or JSON, write the page, and list the suites [BN.3]', async () => {
    const [out, errors] = [[] as string[], [] as string[]];
    let page = '';
    const around = {
      print: (line: string) => void out.push(line),
      fail: (line: string) => void errors.push(line),
      readPage: () => page,
      writePage: (text: string) => {
        page = text;
      },
    };
    const suites: Record<string, Suite> = {
      tiny: { about: 'sums', load: async () => ({ run: sums }) },
      broken: { about: 'nothing', load: () => Promise.reject(new Error('cannot load')) },
    };
    const bench = (...words: string[]) => main(words, suites, around);
    expect(await bench('--help')).toBe(0);
    expect(out.pop()).toMatch(/usage: [\s\S]*tiny {10}sums/);
    expect(await bench('tyni')).toBe(2);
    expect(errors.pop()).toMatch(/^unknown suite: tyni[\s\S]*tiny {10}sums/);
    expect(await bench('--fast')).toBe(2);
    expect(await bench('tiny', '--quick', '--write')).toBe(2);
    expect(page).toBe('');
    expect(await bench('tiny', '--write')).toBe(0);
    expect(out.splice(0)).toHaveLength(3);
    expect(page).toContain('## tiny');
    expect(await bench('tiny', '--quick', '--json')).toBe(0);
    expect(errors.pop()).toMatch(/^A quick run/);
    expect(out.splice(0).map((line) => JSON.parse(line).name)).toEqual(['sum/sum', 'growth', 'sums']);
    expect(await bench('broken', 'tiny')).toBe(1);
    expect(errors.pop()).toContain('broken failed: Error: cannot load');
    expect(out).toHaveLength(3);
  });
});

let sink = 0;

async function sums(report: Report): Promise<void> {
  const sum = (count: number) => {
    for (let i = 0; i < count; i++) sink += i;
  };
  report.comparison(await compareRunners('tiny', 'sum/sum', sum, sum, 2));
  const round = (count: number) => () => ({ count, micros: count * count, ms: count });
  const growth = await compareGrowth('tiny', 'growth', round(200), round(100));
  expect(growth).toMatchObject({ ratio: 2, spread: [2, 2], lowerIsBetter: true, byClock: 1 });
  report.comparison(growth);
  report.figure('tiny', 'sums', sink > 0 ? 1 : 0, 'ops');
}
