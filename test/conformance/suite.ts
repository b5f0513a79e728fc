import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { runConformance } from './packages.js';

/** The result of one run of the suite. */
export interface Verdict {
  /** Scenarios that the revision requires. */
  readonly required: readonly string[];
  readonly passed: readonly string[];
  /** The message of each failed scenario. */
  readonly failed: Readonly<Record<string, string>>;
  /** Scenarios of extensions that are not offered. */
  readonly skipped: readonly string[];
  /** All that the suite printed. */
  readonly output: string;
}

/** Which side of MCP is judged. */
export type Side = 'server' | 'client';

/** Extensions that are not spoken here, whose scenarios no revision requires. */
const NOT_OFFERED: Readonly<Record<Side, RegExp>> = {
  server: /^$/,
  client: /^auth\/(enterprise|dpop|wif)/,
};

/** Runs all scenarios for servers of one revision of MCP against an endpoint. */
export function judgeServer(url: string, revision: string, folder: string): Promise<Verdict> {
  return judge('server', ['--url', url], revision, folder);
}

/** Runs all scenarios for clients of one revision of MCP with a command, to which the URL of each server is added. */
export function judgeClient(command: string, revision: string, folder: string): Promise<Verdict> {
  return judge('client', ['--command', command], revision, folder);
}

async function judge(side: Side, subject: readonly string[], revision: string, folder: string): Promise<Verdict> {
  const required = await requiredOf(side, revision);
  const ran = await runConformance(side, ...subject, '--requirements', revision, '-o', folder);
  const output = ran.stdout + ran.stderr;
  const lines = [...ran.stdout.matchAll(/^([✓✗]) (\S+): \d+ passed, \d+ failed/gm)];
  const named = (mark: string) => lines.filter((line) => line[1] === mark).map((line) => line[2]!);
  const failed = Object.fromEntries(
    named('✗')
      .filter((scenario) => required.includes(scenario) || !NOT_OFFERED[side].test(scenario))
      .map((scenario) => [scenario, complaints(folder, side, scenario)]),
  );
  const isSkipped = (scenario: string) => !required.includes(scenario) && NOT_OFFERED[side].test(scenario);
  // The suite may also fail without naming a scenario.
  if (ran.code !== 0 && Object.keys(failed).length === 0) failed.suite = `exit code ${ran.code}\n${output}`;
  const verdict = { required, passed: named('✓'), failed, skipped: named('✗').filter(isSkipped), output };
  keep(side, revision, verdict);
  return verdict;
}

/** For `npm run conformance`, which names a folder. The worst verdict of several runs counts. */
function keep(side: Side, revision: string, { passed, failed, skipped }: Verdict): void {
  const { ECLIPTIC_CONFORMANCE: kept } = process.env;
  if (kept === undefined) return;
  const file = join(kept, `mcp-${side}-${revision}.json`);
  const before = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { failed: string[] }).failed : [];
  const all = [...new Set([...before, ...Object.keys(failed)])];
  const counted = { passed: passed.filter((scenario) => !all.includes(scenario)), failed: all };
  writeFileSync(file, JSON.stringify({ side, revision, ...counted, skipped }));
}

async function requiredOf(side: Side, revision: string): Promise<string[]> {
  const { stdout } = await runConformance('list', '--requirements', revision);
  const heading = side === 'server' ? 'Server' : 'Client';
  const [section = ''] = new RegExp(`${heading} scenarios.*?\n\n`, 's').exec(stdout) ?? [];
  return [...section.matchAll(/^ {2}- (\S+)$/gm)].map((line) => line[1]!);
}

/** The failed checks of a scenario, from the newest folder of its results. */
function complaints(folder: string, side: Side, scenario: string): string {
  const path = join(folder, side === 'server' ? `server-${scenario}` : scenario);
  const results = readdirSync(dirname(path)).filter((name) => name.startsWith(`${basename(path)}-2`));
  const file = join(dirname(path), results.sort().at(-1) ?? '', 'checks.json');
  if (!existsSync(file)) return 'it left no checks';
  const checks = JSON.parse(readFileSync(file, 'utf8')) as Check[];
  return checks
    .filter(({ status }) => status === 'FAILURE')
    .map(({ id, errorMessage, details }) => `${id}: ${errorMessage}\n${JSON.stringify(details, null, 2)}`)
    .join('\n');
}

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
  readonly details?: unknown;
}
