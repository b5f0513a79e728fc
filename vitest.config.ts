import { configDefaults, defineConfig } from 'vitest/config';

/** Tests that look at the process that they run in, or change what it imports, have one for themselves. */
const ALONE = [
  'test/a2a/{many-streams,tasks-under-fire}.test.ts',
  'test/conformance/*.test.ts',
  'test/credentials/*.test.ts',
  'test/lifecycle.test.ts',
  'test/memory/*.test.ts',
  'test/upstream/*.test.ts',
  'src/node/control/data-folder.test.ts',
  'src/http/gateway.test.ts',
  'src/network/links/link.contract.test.ts',
  'src/mail/mail.test.ts',
  'src/system/process/*.test.ts',
  'src/runtime/runtime.test.ts',
];

/** Run with coverage. */
const PROVIDERS = ['{src,test}/providers/**/*.test.ts', 'test/workspaces/*.test.ts'];
/** Tests with real clients have a command of their own. */
const ELSEWHERE = [...configDefaults.exclude, 'test/clients/**'];

export default defineConfig({
  test: {
    testTimeout: 30_000,
    globalSetup: 'test/threads-from-source.ts',
    pool: 'forks',
    // Most tests wait for timers and other processes.
    maxWorkers: 4,
    // Nodes that tests start take a free port.
    env: { PORT: '0' },
    projects: [
      { extends: true, test: { name: 'alone', include: ALONE, exclude: ELSEWHERE } },
      { extends: true, test: { name: 'providers', include: PROVIDERS, exclude: ELSEWHERE, isolate: false } },
      // The others share what they import, which is most of the time that they take.
      {
        extends: true,
        test: {
          name: 'together',
          include: ['{src,test}/**/*.test.ts'],
          exclude: [...ELSEWHERE, ...ALONE, ...PROVIDERS],
          isolate: false,
        },
      },
    ],
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
