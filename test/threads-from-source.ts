import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundle } from '../scripts/bundle.mjs';
import { ROOT } from './source-files.js';

/**
 * Builds, once a run, what tests start in processes of their own: read from TypeScript each time, such a process takes
 * longer to start than most tests take. Programs that tests start keep their compiled code here.
 */
export async function setup(): Promise<() => void> {
  if (process.env.ECLIPTIC_BUILT_THREADS) return () => {};
  // Below `node_modules`, so that its imports resolve.
  const folder = mkdtempSync(join(ROOT, 'node_modules', '.ecliptic-test-'));
  await bundle(['system/process/sweep-main', 'roster/tools/tool-process'], folder);
  process.env.ECLIPTIC_BUILT_THREADS = folder;
  process.env.ECLIPTIC_TEST_CACHE = join(folder, 'cache');
  mkdirSync(process.env.ECLIPTIC_TEST_CACHE, { mode: 0o700 });
  return () => rmSync(folder, { recursive: true, force: true });
}
