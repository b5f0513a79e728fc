import { defineConfig } from 'vitest/config';

/** Tests with real coding agents, which are installed for them; `npm test` does without. */
export default defineConfig({
  test: {
    include: ['test/clients/*.test.ts'],
    globalSetup: ['test/clients/install.ts', 'test/threads-from-source.ts'],
    testTimeout: 300_000,
    hookTimeout: 180_000,
    pool: 'forks',
    // Each test runs a client, its server and a node.
    maxWorkers: 1,
    env: { PORT: '0' },
  },
});
