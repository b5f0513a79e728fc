/**
 * Runs the tests that a name finds: files whose path contains it, or else tests whose title contains it.
 *
 *   npm run test:one -- router          test files with "router" in their path
 *   npm run test:one -- T-B4            tests that cite requirement T-B4
 *   npm run test:one -- "a short name"  tests with these words in their title
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [name, ...options] = process.argv.slice(2);
if (!name) {
  console.error('usage: npm run test:one -- NAME [vitest options]');
  process.exit(2);
}
const root = fileURLToPath(new URL('..', import.meta.url));
const files = ['src', 'test']
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  )
  .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules') && !path.startsWith('test/clients/'));
const named = files.filter((path) => path.includes(name));
const citing = files.filter((path) => readFileSync(join(root, path), 'utf8').includes(name));
if (named.length + citing.length === 0) {
  console.error(`no test file or test title contains "${name}"`);
  process.exit(1);
}
const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const chosen = named.length > 0 ? named : [...citing, '-t', escaped];
const vitest = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...chosen, ...options];
const { status } = spawnSync(process.execPath, vitest, { cwd: root, stdio: 'inherit' });
process.exit(status ?? 1);
