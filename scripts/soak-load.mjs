/**
 * Three nodes under mixed load, which must use no more of anything at the end: `npm run soak:load [-- --minutes 60] [--json]`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '60' }, json: { type: 'boolean', default: false } },
});
const minutes = Number(values.minutes);
if (!(minutes >= 1)) {
  console.error('usage: npm run soak:load [-- --minutes N] [--json], with N of at least 1');
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'ecliptic-soak-'));
const report = join(folder, 'report.json');
const root = fileURLToPath(new URL('..', import.meta.url));
const env = { ...process.env, ECLIPTIC_SOAK_MINUTES: String(minutes), ECLIPTIC_SOAK_REPORT: report };
const vitest = ['node_modules/vitest/vitest.mjs', 'run', 'test/soak/soak.test.ts'];
// The figures alone go to the standard output.
const { status } = spawnSync(process.execPath, vitest, { cwd: root, env, stdio: ['ignore', 2, 2] });
const found = existsSync(report)
  ? JSON.parse(readFileSync(report, 'utf8'))
  : { figures: {}, failures: ['the load did not end'] };
rmSync(folder, { recursive: true, force: true });
if (values.json) console.log(JSON.stringify(found));
else
  console.log(
    [...Object.entries(found.figures).map(([name, value]) => `${name}: ${value}`), ...found.failures].join('\n'),
  );
process.exitCode = status === 0 ? 0 : 1;
