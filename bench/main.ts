import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import type { Report } from './compare.js';
import { type Circumstances, isBelowFloor, jsonOf, lineOf, merged, pageWith, type Row, section } from './report.js';
import { series } from './settings.js';

export interface Suite {
  readonly about: string;
  /** Loaded when it runs. */
  readonly load: () => Promise<{ run(report: Report): Promise<void> }>;
}

/** What the program may reach, so that a test can stand in for it. */
export interface Surroundings {
  print(line: string): void;
  fail(line: string): void;
  /** The page's text, and an empty one where there is none. */
  readPage(): string;
  writePage(text: string): void;
}

const OPTIONS = {
  quick: { type: 'boolean' },
  write: { type: 'boolean' },
  check: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
  runs: { type: 'string', default: '1' },
} as const;

/** Runs the suites that are named, or all. Returns the exit code. */
export async function main(
  words: readonly string[],
  suites: Readonly<Record<string, Suite>>,
  around: Surroundings,
): Promise<number> {
  const usage = helpOf(suites);
  const wrong = (reason: string) => {
    around.fail(`${reason}\n\n${usage}`);
    return 2;
  };
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(words);
  } catch (error) {
    return wrong((error as Error).message);
  }
  const { values, positionals } = parsed;
  if (values.help) {
    around.print(usage);
    return 0;
  }
  const named = positionals.flatMap((word) => word.split(','));
  const unknown = named.filter((name) => !Object.hasOwn(suites, name));
  if (unknown.length > 0) return wrong(`unknown suite: ${unknown.join(', ')}`);
  const runs = Number(values.runs);
  if (!Number.isInteger(runs) || runs < 1) return wrong(`--runs takes a number of runs, not ${values.runs}`);
  if (values.quick && values.write) return wrong('The figures of a quick run are not written.');
  if (values.quick)
    around.fail('A quick run: few short rounds and small sizes. Its figures show only that everything runs.');
  let [failed, below] = [false, false];
  for (const name of named.length > 0 ? named : Object.keys(suites)) {
    try {
      const [rows, about] = await runSuite(name, suites[name]!, runs, (row) =>
        around.print(values.json ? jsonOf(row) : lineOf(row)),
      );
      below ||= rows.some(isBelowFloor);
      // After each suite, so that a later one that fails costs nothing.
      if (values.write) {
        const sections = new Map([[name, section(rows, about)]]);
        around.writePage(pageWith(around.readPage(), sections, Object.keys(suites)));
      }
    } catch (error) {
      failed = true;
      around.fail(`${name} failed: ${(error as Error).stack}`);
    }
  }
  return failed || (values.check && below) ? 1 : 0;
}

function parse(words: readonly string[]) {
  return parseArgs({ args: [...words], options: OPTIONS, allowPositionals: true });
}

async function runSuite(
  suite: string,
  { load }: Suite,
  runs: number,
  show: (row: Row) => void,
): Promise<[Row[], Circumstances]> {
  const { run } = await load();
  const before = minuteLoad();
  const at = new Date();
  const all: Row[][] = [];
  for (let index = 0; index < runs; index++) {
    Object.assign(series, { run: index, runs });
    const rows: Row[] = [];
    const take = (row: Row) => {
      rows.push(row);
      show(row);
    };
    await run({
      comparison: take,
      figure: (suite, name, value, unit, spread) => take({ suite, name, value, unit, ...(spread && { spread }) }),
    });
    all.push(rows);
  }
  const shortened = all.some((rows) => rows.length < all[0]!.length);
  return [merged(all), { suite, at, machine: machine(), load: [before, minuteLoad()], runs, shortened }];
}

function machine(): string {
  const all = cpus();
  const model = all[0]?.model.trim() || process.arch;
  return `${all.length} cores (${model}), Node ${process.version}`;
}

function minuteLoad(): number {
  return Math.round(loadavg()[0]! * 10) / 10;
}

function helpOf(suites: Readonly<Record<string, Suite>>): string {
  const lines = Object.entries(suites).map(([name, { about }]) => `  ${name.padEnd(14)}${about}`);
  return `usage: npm run bench -- [SUITE…] [--quick] [--runs N] [--write] [--check] [--json]

Measures ours and theirs in turn, and prints the median ratio, its spread, and the floor where there is one.

  --quick       few short rounds and small sizes: all suites in about three minutes; never written
  --runs N      run each suite N times, with fewer rounds each; the median and the spread of all runs count. Rows without
                a floor that take long are measured once
  --write       replace the sections of these suites in docs/benchmarks.md (scale: also docs/scale.json and its picture)
  --check       exit with 1 if a row is below its floor
  --json        one JSON object a row

suites (all, if none is named):
${lines.join('\n')}

example: npm run bench -- mesh,links --runs 5 --write`;
}
