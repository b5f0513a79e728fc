import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { type Finder, type Planted, plantedBugs, ROOT } from './patches.js';

const HELP = `Plants one bug at a time in a copy of the source, and shows what finds it. Fails if one is not found.

  npm run planted                  all of them
  npm run planted -- 03 lease      those whose name contains 03 or lease

  --json    prints [{name, capability, foundBy, seconds}]
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
});

/** The longest time that a search may take. */
const LIMIT_MS = 5 * 60_000;

interface Found {
  readonly name: string;
  readonly capability: string;
  /** Null where nothing found it. */
  readonly foundBy: string | null;
  readonly seconds: number;
}

const say = (text: string) => void process.stderr.write(`${text}\n`);

/** Every file of the working tree that git knows, and its packages by a link. */
function copyTree(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-planted-'));
  const listed = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  for (const path of listed.stdout.toString().split('\0')) {
    if (path === '' || path.startsWith('docs/images/')) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path));
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

function patch(folder: string, { file }: Planted, ...options: string[]): void {
  const { status, stderr } = spawnSync('git', ['apply', ...options, file], { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${file} does not apply: ${stderr}`);
}

/** Runs a program to its end, or until the limit; its output goes nowhere but into the result. */
function run(folder: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    // A group of its own, so that the limit ends its children too.
    const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'], detached: true });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    const timer = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), LIMIT_MS);
    child.on('close', () => {
      clearTimeout(timer);
      resolve(output);
    });
  });
}

async function search(folder: string, finder: Finder): Promise<string | null> {
  if (finder.kind === 'simulate') {
    const { seeds, events } = finder;
    const about = ['--seeds', String(seeds), '--events', String(events), '--find', '--json'];
    const output = await run(folder, ['--import', 'tsx', 'test/simulation/cli.ts', ...about]);
    const [found] =
      (JSON.parse(output || '{}') as { failures?: { seed: number; violations: string[] }[] }).failures ?? [];
    return found ? `seed ${found.seed} of ${events} events: ${found.violations[0]}` : null;
  }
  const report = join(folder, 'planted-report.json');
  rmSync(report, { force: true });
  const title = finder.title === undefined ? [] : ['-t', finder.title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')];
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', finder.file, ...title, '--bail=1'];
  await run(folder, [...vitest, '--reporter=json', `--outputFile=${report}`]);
  return failedTest(report);
}

/** The title of the first test that failed. A file that could not be loaded has found nothing. */
function failedTest(report: string): string | null {
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    testResults: { name: string; assertionResults: { status: string; fullName: string }[] }[];
  };
  for (const { assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed) return `test "${failed.fullName}"`;
  }
  return null;
}

async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const all = plantedBugs();
  const wanted =
    positionals.length === 0 ? all : all.filter(({ name }) => positionals.some((part) => name.includes(part)));
  if (wanted.length === 0) {
    say(`no planted bug has ${positionals.join(' or ')} in its name`);
    return 2;
  }
  const folder = copyTree();
  const results: Found[] = [];
  try {
    for (const bug of wanted) {
      patch(folder, bug);
      const began = performance.now();
      const foundBy = await search(folder, bug.finder);
      const seconds = Math.round((performance.now() - began) / 100) / 10;
      patch(folder, bug, '--reverse');
      results.push({ name: bug.name, capability: bug.capability, foundBy, seconds });
      say(
        `${foundBy === null ? 'NOT FOUND' : 'found'} ${bug.name} (${bug.breaks}) in ${seconds} s${foundBy === null ? '' : ` by ${foundBy}`}`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const missed = results.filter(({ foundBy }) => foundBy === null);
  if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
  say(`${results.length - missed.length} of ${results.length} planted bugs were found`);
  return missed.length === 0 ? 0 : 1;
}

process.exitCode = await main();
