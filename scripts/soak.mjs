import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The fault and random tests at their full count: about an hour. `npm test` runs as many of them as fit. */
const SUITES = [
  'test/simulated-mesh.test.ts',
  'test/durable',
  'test/faults',
  'test/nodes',
  'test/lifecycle.test.ts',
  'src/store',
  'src/system/process',
  'test/upstream',
  'src/network/peers/attacks.test.ts',
  'src/network/peers/gossip-directory.test.ts',
  'src/network/peers/presence.test.ts',
  'src/network/peers/resting.test.ts',
  'src/a2a/protocol',
  'test/a2a',
  'src/work',
  'src/documents',
  'test/coordination',
  'test/swarm',
  'test/providers',
  'test/credentials',
  'src/coding-agents',
  'test/coding-agents',
  'test/nats',
  'test/memory',
];

const root = fileURLToPath(new URL('..', import.meta.url));
const env = { ...process.env, ECLIPTIC_SOAK: '1', ECLIPTIC_SEEDS: process.env.ECLIPTIC_SEEDS ?? '500' };
const wanted = process.argv.slice(2);
const suites = wanted.length > 0 ? wanted : SUITES;
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--testTimeout=3600000', ...suites];
const { status } = spawnSync(process.execPath, vitest, { cwd: root, env, stdio: 'inherit' });
process.exit(status ?? 1);
