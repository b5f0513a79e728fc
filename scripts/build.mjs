import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildPage } from './build-page.mjs';
import { bundle } from './bundle.mjs';
import { bundledPackages } from './supply/bundled.mjs';
import { billOfMaterials, packagesOf, SBOM } from './supply/packages.mjs';
import { writeCommands } from './write-commands.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(new URL('../dist', import.meta.url), { recursive: true, force: true });
const typescript = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json', '--emitDeclarationOnly'];
const { status } = spawnSync(process.execPath, typescript, { cwd: root, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);
// A few large files in one folder are found and loaded sooner than hundreds of small ones.
// Only entries that are loaded by file name: the library, the program, and code for separate processes.
const library = [
  'index',
  'mesh',
  'a2a',
  'providers',
  'simulation',
  'bridges/ai-sdk',
  'bridges/openai-agents',
  'bridges/langgraph',
  'bridges/a2a-sdk',
];
const entries = [...library, 'cli/start', 'cli/main', 'system/process/sweep-main', 'roster/tools/tool-process'];
const bundled = bundledPackages([...(await bundle(entries, 'dist')), ...(await buildPage())]);
const texts = bundled.map(({ notice }) => notice);
writeFileSync(new URL('../dist/THIRD-PARTY.txt', import.meta.url), texts.join(`\n${'-'.repeat(80)}\n\n`));
const bill = billOfMaterials(
  packagesOf(),
  bundled.map(({ name }) => name),
);
writeFileSync(SBOM, `${JSON.stringify(bill, null, 1)}\n`);
writeCommands();
