import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../source-files.js';

const FOLDER = join(ROOT, 'test', 'conformance');
const MODULES = join(FOLDER, 'node_modules');
/** Says which lock was installed; it goes when the packages go. */
const STAMP = join(MODULES, '.installed');
const INSTALL_MS = 300_000;
const RUN_MS = 60_000;

const CONFORMANCE = join(MODULES, '@modelcontextprotocol', 'conformance', 'dist', 'index.js');
const INSPECTOR = join(MODULES, '@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js');
/** The Node.js of the same folder, which the suite and the inspector need. */
const NODE = join(MODULES, 'node', 'bin', 'node');

const exec = promisify(execFile);

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Installs what this folder's lock names, unless it is there. */
export async function installPackages(): Promise<void> {
  const lock = createHash('sha256')
    .update(readFileSync(join(FOLDER, 'package-lock.json')))
    .digest('hex');
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === lock) return;
  try {
    // The root's `engine-strict` reaches here through the environment, and is not meant for these packages.
    await exec('npm', ['ci', '--engine-strict=false', '--no-audit', '--no-fund'], {
      cwd: FOLDER,
      timeout: INSTALL_MS,
      maxBuffer: 64 * 1_048_576,
    });
    await exec(NODE, ['--version']);
  } catch (error) {
    const { message, stderr } = error as Error & { stderr?: string };
    const line = 'cd test/conformance && npm ci --engine-strict=false';
    throw new Error(`the conformance suite could not be installed; see what \`${line}\` says\n${stderr || message}`);
  }
  writeFileSync(STAMP, lock);
}

export function runConformance(...args: string[]): Promise<Ran> {
  return run(CONFORMANCE, args);
}

export function runInspector(...args: string[]): Promise<Ran> {
  return run(INSPECTOR, ['--cli', ...args]);
}

async function run(script: string, args: readonly string[]): Promise<Ran> {
  // What the inspector remembers of servers is its user's, and not for tests.
  const env = { PATH: process.env.PATH!, HOME: join(MODULES, '.home') };
  const options = { cwd: FOLDER, env, timeout: RUN_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1_048_576 } as const;
  try {
    return { code: 0, ...(await exec(NODE, [script, ...args], options)) };
  } catch (error) {
    const { code, stdout = '', stderr = '', message } = error as Error & Partial<Ran>;
    return { code: typeof code === 'number' ? code : -1, stdout, stderr: stderr || message };
  }
}
