import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describeError } from '../../runtime/errors.js';
import { type Environment, programFault } from '../../system/process/environment.js';
import type { FoundWorker, FoundWorkers, UnusableWorker } from './found.js';

/** The scripts that answer for a role by their exit code; the first one that the package has is used. */
const SCRIPTS: readonly { readonly role: string; readonly names: readonly string[] }[] = [
  { role: 'saturn', names: ['test', 'test:unit', 'test:all'] },
  { role: 'triton', names: ['ci', 'check', 'verify', 'typecheck', 'type-check', 'lint', 'build'] },
  { role: 'io', names: ['bench', 'benchmark', 'perf', 'size'] },
];

/** Lock files tell which program runs the scripts. */
const MANAGERS: readonly (readonly [file: string, program: string])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
];

/** The script that `npm init` writes, which always fails. */
const PLACEHOLDER = /no test specified/;

interface PackageFile {
  readonly scripts?: unknown;
  readonly packageManager?: unknown;
  readonly dependencies?: unknown;
  readonly devDependencies?: unknown;
}

/** The scripts of the folder's package that can do the work of a role. */
export function findPackageScripts(folder: string, env: Environment): FoundWorkers {
  const file = join(folder, 'package.json');
  if (!existsSync(file)) return { workers: [], unusable: [] };
  const read = readPackage(file);
  if (typeof read === 'string') {
    return { workers: [], unusable: [{ kind: 'exec', title: 'package.json', reason: read, fix: `correct ${file}` }] };
  }
  const manager = managerOf(folder, read);
  const fault = faultOf(folder, read, manager, env);
  const workers: FoundWorker[] = [];
  const unusable: UnusableWorker[] = [];
  const scripts = recordOf(read.scripts);
  for (const { role, names } of SCRIPTS) {
    const name = names.find((one) => typeof scripts[one] === 'string' && scripts[one] !== '');
    if (name === undefined) continue;
    const command = runLine(manager, name);
    const placeholder = PLACEHOLDER.test(String(scripts[name]))
      ? { reason: 'it is the placeholder of npm init, which always fails', fix: `npm pkg set "scripts.${name}=…"` }
      : undefined;
    const problem = placeholder ?? fault;
    if (problem) unusable.push({ kind: 'exec', title: command, ...problem });
    else workers.push({ kind: 'exec', title: command, why: whyOf(name), config: { exec: command }, role });
  }
  return { workers, unusable };
}

function readPackage(file: string): PackageFile | string {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : 'it holds no object';
  } catch (error) {
    return describeError(error);
  }
}

/** Reads `"packageManager": "pnpm@9.1.0"`, else the lock file. */
function managerOf(folder: string, { packageManager }: PackageFile): string {
  const named = /^(npm|pnpm|yarn|bun)@/.exec(String(packageManager))?.[1];
  return named ?? MANAGERS.find(([file]) => existsSync(join(folder, file)))?.[1] ?? 'npm';
}

function runLine(manager: string, script: string): string {
  return script === 'test' && manager !== 'bun' ? `${manager} test` : `${manager} run ${script}`;
}

function whyOf(script: string): string {
  return `script "${script}" of package.json; its exit code is the verdict`;
}

/** Why no script can be run. */
function faultOf(
  folder: string,
  { dependencies, devDependencies }: PackageFile,
  manager: string,
  env: Environment,
): { readonly reason: string; readonly fix: string } | undefined {
  const missing = programFault({ command: manager, cwd: folder, env: { PATH: env.PATH } }, env);
  if (missing !== undefined) return { reason: missing, fix: `npm install -g ${manager}` };
  const needs = Object.keys({ ...recordOf(dependencies), ...recordOf(devDependencies) }).length > 0;
  if (!needs || isInstalled(folder)) return undefined;
  return { reason: 'the packages that it needs are not installed', fix: `${manager} install` };
}

/** A workspace has its packages in a folder above. */
function isInstalled(folder: string): boolean {
  if (['node_modules', '.pnp.cjs'].some((name) => existsSync(join(folder, name)))) return true;
  const above = dirname(folder);
  return above !== folder && isInstalled(above);
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
