/**
 * Runs what proves the contract, and writes docs/evidence.md.
 *
 *   npm run evidence                    everything, at full count: hours. Interrupted, the next run goes on
 *   npm run evidence -- --quick         everything, at small counts: at most 15 minutes on two cores
 *   npm run evidence -- sbom test/nodes/    parts by name, and tests by path
 *   npm run evidence -- --list          the parts
 *   npm run evidence -- --page          writes the page again, from the results that there are
 *   npm run evidence -- --restart       begins again what was interrupted
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { citedPaths, guarantees } from './evidence/contract.js';
import { renderPage } from './evidence/page.js';
import { PARTS } from './evidence/parts.js';
import {
  forgetProgress,
  type Mode,
  readProgress,
  readResults,
  writeProgress,
  writeResults,
} from './evidence/results.js';
import { commitHere, runPart, runTests } from './evidence/run.js';

const PAGE = fileURLToPath(new URL('../docs/evidence.md', import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    restart: { type: 'boolean', default: false },
  },
});
const mode: Mode = values.quick ? 'quick' : 'full';
const paths = citedPaths();

// What a part has started ends with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

if (values.list) list();
else if (values.page) writePage();
else process.exitCode = await main();

async function main(): Promise<number> {
  const unknown = positionals.filter((word) => !PARTS.some(({ name }) => name === word) && !/^(src|test)\//.test(word));
  if (unknown.length > 0) {
    console.error(
      `unknown: ${unknown.join(', ')}. Parts: ${PARTS.map(({ name }) => name).join(', ')}; or a path of tests`,
    );
    return 2;
  }
  const all = positionals.length === 0;
  const commit = commitHere();
  const units = unitsOf(all ? [...paths, ...PARTS.map(({ name }) => name)] : positionals);
  const before = all && !values.restart ? readProgress() : undefined;
  const progress = before?.mode === mode ? before : { mode, commit, done: [] };
  if (progress.done.length > 0) {
    console.log(
      `continues the run that began at ${progress.commit}: ${progress.done.length} done; --restart begins again`,
    );
  }
  let failed = 0;
  for (const [index, unit] of units.entries()) {
    const label = `[${index + 1}/${units.length}] ${unit.length > 3 ? `${unit.length} test paths` : unit.join(' ')}`;
    if (progress.done.includes(unit[0]!)) continue;
    process.stdout.write(`${label} … `);
    const problems = await runUnit(unit, commit);
    failed += problems.length;
    console.log(problems.length === 0 ? 'passed' : `FAILED\n  ${problems.join('\n  ')}`);
    writePage();
    if (!all) continue;
    progress.done.push(unit[0]!);
    writeProgress(progress);
  }
  if (all) forgetProgress();
  console.log(`docs/evidence.md is written${failed > 0 ? `; ${failed} failures` : ''}`);
  return failed > 0 ? 1 : 0;
}

/** At small counts, most of the time is the start of the test runner, so all tests are one unit. */
function unitsOf(words: readonly string[]): string[][] {
  const isPath = (word: string) => word.includes('/');
  const parts = words.filter((word) => !isPath(word)).map((word) => [word]);
  const tests = words.filter(isPath);
  return mode === 'quick' && tests.length > 0 ? [tests, ...parts] : [...tests.map((path) => [path]), ...parts];
}

/** Returns what failed. */
async function runUnit(unit: readonly string[], commit: string): Promise<string[]> {
  const results = readResults();
  const part = PARTS.find(({ name }) => name === unit[0]);
  if (part) {
    const result = await runPart(part, mode, commit);
    results[mode].parts[part.name] = result;
    writeResults(results);
    return [...result.failures];
  }
  const { tests } = results[mode];
  // Files that are gone must not stay on the page.
  for (const file of Object.keys(tests)) if (unit.some((path) => file.startsWith(path))) delete tests[file];
  const found = await runTests(unit, mode, commit);
  Object.assign(tests, found);
  writeResults(results);
  return Object.entries(found).flatMap(([file, { failed }]) => failed.map((title) => `${file}: ${title}`));
}

function writePage(): void {
  writeFileSync(PAGE, renderPage(readResults()));
}

function list(): void {
  for (const { name, what, command } of PARTS) {
    console.log(`${name.padEnd(12)}${what}\n${' '.repeat(12)}npm run ${command[mode].join(' ').replace(' ', ' -- ')}`);
  }
  console.log(`\n${paths.length} test paths prove ${guarantees().length} lines of docs/contract.md:`);
  for (const path of paths) console.log(`  ${path}`);
}
