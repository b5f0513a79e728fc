import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 30_000,
    globalSetup: 'test/threads-from-source.ts',
    pool: 'forks',
    maxWorkers: 2,
    // Nodes that tests start take a free port.
    env: { PORT: '0' },
    // Asked for by `--coverage`, in the run of the providers' tests.
    coverage: {
      provider: 'v8',
      include: ['src/providers/**/*.ts'],
      exclude: ['**/*.test.ts'],
      reporter: ['text-summary'],
      thresholds: { lines: 85, statements: 85, functions: 85, branches: 85 },
    },
  },
});
