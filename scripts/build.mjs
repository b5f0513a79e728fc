import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** What is loaded by its file's name: the library, the program, and what runs in a thread or a process of its own. */
const ENTRIES = ['index', 'simulation', 'cli/main', 'store/sqlite-worker', 'process/sweep-main'];

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(new URL('../dist', import.meta.url), { recursive: true, force: true });
const typescript = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json', '--emitDeclarationOnly'];
const { status } = spawnSync(process.execPath, typescript, { cwd: root, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);
// A few large files in one folder: a program starts in half the time that hundreds of small ones take to be found.
await build({
  absWorkingDir: root,
  entryPoints: ENTRIES.map((entry) => `src/${entry}.ts`),
  entryNames: '[name]',
  outdir: 'dist',
  bundle: true,
  splitting: true,
  packages: 'external',
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  logLevel: 'warning',
});
