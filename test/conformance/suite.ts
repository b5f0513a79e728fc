import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runConformance } from './packages.js';

/** What came of one run of the suite. */
export interface Verdict {
  /** Scenarios that the revision requires. */
  readonly required: readonly string[];
  readonly passed: readonly string[];
  /** For each scenario that failed, what it says of it. */
  readonly failed: Readonly<Record<string, string>>;
  /** All that the suite printed. */
  readonly output: string;
}

/** An extension that this server does not offer, whose scenarios no revision requires. */
const NOT_OFFERED = /^tasks-/;

/** Runs all scenarios for servers of one revision of MCP against an endpoint. */
export async function judge(url: string, revision: string, folder: string): Promise<Verdict> {
  const required = await requiredOf(revision);
  const ran = await runConformance('server', '--url', url, '--requirements', revision, '-o', folder);
  const output = ran.stdout + ran.stderr;
  const lines = [...ran.stdout.matchAll(/^([✓✗]) (\S+): \d+ passed, \d+ failed/gm)];
  const named = (mark: string) => lines.filter((line) => line[1] === mark).map((line) => line[2]!);
  const failed = Object.fromEntries(
    named('✗')
      .filter((scenario) => required.includes(scenario) || !NOT_OFFERED.test(scenario))
      .map((scenario) => [scenario, complaints(folder, scenario)]),
  );
  // The suite may also fail without naming a scenario.
  if (ran.code !== 0 && Object.keys(failed).length === 0) failed.suite = `exit code ${ran.code}\n${output}`;
  return { required, passed: named('✓'), failed, output };
}

async function requiredOf(revision: string): Promise<string[]> {
  const { stdout } = await runConformance('list', '--requirements', revision);
  const [section = ''] = /Server scenarios.*?\n\n/s.exec(stdout) ?? [];
  return [...section.matchAll(/^ {2}- (\S+)$/gm)].map((line) => line[1]!);
}

/** What a scenario's checks found wrong, from the newest folder of its results. */
function complaints(folder: string, scenario: string): string {
  const results = readdirSync(folder).filter((name) => name.startsWith(`server-${scenario}-2`));
  const file = join(folder, results.sort().at(-1) ?? '', 'checks.json');
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
