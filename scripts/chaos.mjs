import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Harms providers in every way that is tested, 200 times each, and compares how the other lane fares: about half an hour. */
const root = fileURLToPath(new URL('..', import.meta.url));
const env = { ...process.env, ECLIPTIC_CHAOS: process.argv[2] ?? '200' };
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--maxWorkers=1', 'test/providers/chaos.test.ts'];
const { status } = spawnSync(process.execPath, vitest, { cwd: root, env, stdio: 'inherit' });
process.exit(status ?? 1);
