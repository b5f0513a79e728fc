import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The fault and random tests at their full count: about an hour. `npm test` runs as many of them as fit. */
const SUITES = [
  'test/simulated-mesh.test.ts',
  'test/durable',
  'test/nodes',
  'test/lifecycle.test.ts',
  'src/store',
  'src/process',
  'test/upstream',
  'src/peers/attacks.test.ts',
  'src/a2a-protocol',
  'test/a2a',
  'src/coordination',
  'test/coordination',
  'test/swarm',
  'test/providers',
  'test/credentials',
  'src/onramp',
  'test/onramp',
];

const root = fileURLToPath(new URL('..', import.meta.url));
const env = { ...process.env, ECLIPTIC_SOAK: '1', ECLIPTIC_SEEDS: process.env.ECLIPTIC_SEEDS ?? '500' };
const wanted = process.argv.slice(2);
let failed = 0;
for (const suite of wanted.length > 0 ? wanted : SUITES) {
  const started = Date.now();
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--maxWorkers=1', '--testTimeout=3600000', suite];
  const { status } = spawnSync(process.execPath, vitest, { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) failed++;
  console.log(`${status === 0 ? 'passed' : 'FAILED'}  ${suite}  ${Math.round((Date.now() - started) / 1000)} s`);
}
process.exit(failed > 0 ? 1 : 0);
