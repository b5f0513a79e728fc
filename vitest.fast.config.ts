import { configDefaults, defineConfig } from 'vitest/config';

/** Tests that start processes or open sockets; `npm test` runs them. */
const SLOW = [
  'src/a2a/client/*.test.ts',
  'src/http/**/*.test.ts',
  'src/nats/*.test.ts',
  'src/network/directory/*.test.ts',
  'src/network/discovery/*.test.ts',
  'src/network/links/*.test.ts',
  'src/node/control/*.test.ts',
  'src/providers/**/*.test.ts',
  'src/store/{file-store,damage,power-loss}.test.ts',
  'src/system/{fetch,process}/*.test.ts',
];

/** `npm run test:fast`: unit tests and simulations in one process a core. */
export default defineConfig({
  test: {
    testTimeout: 30_000,
    globalSetup: 'test/threads-from-source.ts',
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    include: [
      'src/**/*.test.ts',
      'test/*.test.ts',
      'test/{coordination/{convergence,negotiation-model},durable/simulated-mail,swarm/simulated-swarm}.test.ts',
    ],
    exclude: [...configDefaults.exclude, ...SLOW, 'test/{cli,deploy,examples,lifecycle,package,readme}.test.ts'],
  },
});
