/**
 * Compares the CPU time of two builds on every path: interleaved pairs, a fresh process for each run, the median ratio.
 *
 *   npm run bench:builds -- OLD NEW [path…] [--pairs 7] [--json]
 *
 * OLD and NEW are checkouts that are built. Exits with 1 if a path of the new build falls below 0.95 of the old one.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const FLOOR = 0.95;
const RUNNER = fileURLToPath(new URL('build-path.mjs', import.meta.url));
const run = promisify(execFile);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pairs: { type: 'string', default: '7' }, json: { type: 'boolean' } },
});
const [oldBuild, newBuild, ...wanted] = positionals;
const pairs = Number(values.pairs);
if (newBuild === undefined || !Number.isInteger(pairs) || pairs < 1) {
  console.error('usage: npm run bench:builds -- OLD NEW [path…] [--pairs 7] [--json]');
  process.exit(2);
}

const { stdout } = await run(process.execPath, [RUNNER, newBuild]);
const paths = JSON.parse(stdout);
const unknown = wanted.filter((path) => !paths.includes(path));
if (unknown.length > 0) {
  console.error(`unknown path: ${unknown.join(', ')}; paths: ${paths.join(', ')}`);
  process.exit(2);
}

let slower = 0;
for (const path of wanted.length > 0 ? wanted : paths) {
  const runs = [];
  for (let pair = 0; pair < pairs; pair++) {
    // The order alternates, so that neither build always runs on the warmer machine.
    const first = pair % 2 === 0;
    const a = await cpuOf(first ? oldBuild : newBuild, path);
    const b = await cpuOf(first ? newBuild : oldBuild, path);
    runs.push(first ? { before: a, after: b } : { before: b, after: a });
  }
  const ratios = runs.map(({ before, after }) => before / after).sort((x, y) => x - y);
  const ratio = median(ratios);
  if (ratio < FLOOR) slower++;
  const row = {
    path,
    ratio: round(ratio),
    lowest: round(ratios[0]),
    highest: round(ratios.at(-1)),
    before: round(median(runs.map(({ before }) => before).sort((x, y) => x - y))),
    after: round(median(runs.map(({ after }) => after).sort((x, y) => x - y))),
  };
  if (values.json) console.log(JSON.stringify(row));
  else {
    const spread = `${row.lowest}–${row.highest}`;
    const verdict = ratio < FLOOR ? '  below 0.95' : '';
    console.log(
      `${path.padEnd(16)}${`${row.ratio}×`.padStart(7)}  ${spread.padEnd(12)} ${row.before} → ${row.after} µs CPU${verdict}`,
    );
  }
}
process.exit(slower > 0 ? 1 : 0);

async function cpuOf(build, path) {
  const { stdout } = await run(process.execPath, ['--expose-gc', RUNNER, build, path], { timeout: 300_000 });
  return Number(stdout.trim());
}

function median(sorted) {
  return sorted[sorted.length >> 1];
}

function round(value) {
  return value >= 100 ? Math.round(value) : Math.round(value * 100) / 100;
}
