import { spawn, spawnSync } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PARTS } from './parts.js';
import { type FileResult, type Mode, type PartResult, type Tried, WORK } from './results.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOAK = { ECLIPTIC_SOAK: '1', ECLIPTIC_SEEDS: '500' };
const HOUR_MS = 3_600_000;

/** The output of vitest's reporter for programs, as far as it is read here. */
interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly startTime: number;
    readonly endTime: number;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly meta?: { readonly tried?: readonly Tried[] };
    }[];
  }[];
}

/** The commit, with a `+` if files differ from it, other than what the evidence itself writes. */
export function commitHere(): string {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' }).stdout.trimEnd();
  const changed = git('status', '--porcelain')
    .split('\n')
    .filter((line) => line !== '' && !/ docs\/evidence\.(md|json)$/.test(line));
  return `${git('rev-parse', '--short=10', 'HEAD')}${changed.length > 0 ? '+' : ''}`;
}

/** Runs the tests of some paths; a path without a result is a failure of its own. */
export async function runTests(
  paths: readonly string[],
  mode: Mode,
  commit: string,
): Promise<Record<string, FileResult>> {
  const name = paths.length === 1 ? paths[0]!.replaceAll('/', '-').replace(/-$/, '') : 'tests';
  mkdirSync(WORK, { recursive: true });
  const report = `${WORK}/${name}.json`;
  rmSync(report, { force: true });
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...paths, '--reporter=json', `--outputFile=${report}`];
  if (mode === 'full') args.push(`--testTimeout=${HOUR_MS}`);
  await run(process.execPath, args, { env: mode === 'full' ? SOAK : {}, log: name, limitMs: 24 * HOUR_MS });
  const found = existsSync(report) ? (JSON.parse(readFileSync(report, 'utf8')) as Report).testResults : [];
  const results: Record<string, FileResult> = {};
  for (const { name: file, status, startTime, endTime, message, assertionResults } of found) {
    const having = (...states: string[]) => assertionResults.filter((test) => states.includes(test.status));
    const failed = having('failed').map(({ fullName }) => fullName);
    if (status === 'failed' && failed.length === 0) failed.push(message?.split('\n')[0] || 'the file could not be run');
    results[relative(ROOT, file)] = {
      at: new Date(startTime).toISOString(),
      commit,
      seconds: seconds(endTime - startTime),
      passed: having('passed').length,
      skipped: having('pending', 'skipped', 'todo').length,
      failed,
      tried: having('passed', 'failed').flatMap(({ meta }) => meta?.tried ?? []),
    };
  }
  for (const path of paths) {
    if (Object.keys(results).some((file) => file === path || file.startsWith(path))) continue;
    const failed = [`no result: ${lastLine(name)}`];
    results[path] = { at: new Date().toISOString(), commit, seconds: 0, passed: 0, skipped: 0, failed, tried: [] };
  }
  return results;
}

/** Runs a part's command, and reads its figures. A command that does not exist, fails or prints no figures has failed. */
export async function runPart(part: (typeof PARTS)[number], mode: Mode, commit: string): Promise<PartResult> {
  const [script, ...args] = part.command[mode];
  const began = Date.now();
  const words = ['run', '--silent', script!, ...(args.length > 0 ? ['--', ...args] : [])];
  const base = {
    at: new Date(began).toISOString(),
    commit,
    command: ['npm', ...words].join(' ').replace('--silent ', ''),
  };
  const failed = (why: string): PartResult => ({
    ...base,
    ...{ passed: false, figures: {}, failures: [why], seconds: seconds(Date.now() - began) },
  });
  const scripts = (JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8')) as { scripts: Record<string, string> })
    .scripts;
  if (!(script! in scripts)) return failed(`there is no command "npm run ${script}"`);
  const log = part.name.replaceAll(':', '-');
  const { code, output, late } = await run('npm', words, { env: {}, log, limitMs: part.minutes[mode] * 60_000 });
  if (late) return failed(`not done within ${part.minutes[mode]} minutes`);
  try {
    const { figures, failures, checks } = part.read(valuesIn(output));
    const all = code === 0 || failures.length > 0 ? failures : [`the command exits with ${code}: ${lastLine(log)}`];
    const about = { ...base, passed: all.length === 0, seconds: seconds(Date.now() - began) };
    return { ...about, figures, failures: all, ...(checks && { checks }) };
  } catch (error) {
    return failed(`${(error as Error).message} (exit code ${code}): ${lastLine(log)}`);
  }
}

interface RunOptions {
  readonly env: Readonly<Record<string, string>>;
  /** The name of the file below the folder of the runs that gets everything it prints. */
  readonly log: string;
  readonly limitMs: number;
}

async function run(program: string, args: readonly string[], { env, log, limitMs }: RunOptions) {
  mkdirSync(WORK, { recursive: true });
  const file = createWriteStream(`${WORK}/${log}.log`);
  // In a process group of its own, so that a late command ends with all that it started.
  const child = spawn(program, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const end = () => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // It has ended.
    }
  };
  process.once('exit', end);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    end();
  }, limitMs);
  const output: Buffer[] = [];
  child.stdout.on('data', (data: Buffer) => {
    output.push(data);
    file.write(data);
  });
  child.stderr.on('data', (data: Buffer) => file.write(data));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearTimeout(timer);
  process.removeListener('exit', end);
  await new Promise((resolve) => file.end(resolve));
  return { code, output: Buffer.concat(output).toString(), late };
}

/** The JSON values of an output: all of it as one, or those lines that are one each. */
export function valuesIn(output: string): unknown[] {
  const whole = jsonOf(output);
  if (whole !== undefined) return [whole];
  return output.split('\n').flatMap((line) => (/^[[{]/.test(line) ? (jsonOf(line) ?? []) : []));
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function lastLine(log: string): string {
  const path = `${WORK}/${log}.log`;
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  return lines.at(-1) || 'it printed nothing';
}

function seconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
