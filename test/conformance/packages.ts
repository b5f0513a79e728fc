import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installFolder } from '../installed-folder.js';
import { ROOT } from '../source-files.js';

const FOLDER = join(ROOT, 'test', 'conformance');
const MODULES = join(FOLDER, 'node_modules');
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

/** Installs the packages of this folder's lock file, unless they are installed. */
export function installPackages(): Promise<void> {
  return installFolder(FOLDER, join('node', 'bin', 'node'));
}

export function runConformance(...args: string[]): Promise<Ran> {
  return run(CONFORMANCE, args);
}

export function runInspector(...args: string[]): Promise<Ran> {
  return run(INSPECTOR, ['--cli', ...args]);
}

async function run(script: string, args: readonly string[]): Promise<Ran> {
  // The inspector's stored servers belong to its user, not to tests.
  const env = { PATH: process.env.PATH!, HOME: join(MODULES, '.home') };
  const options = { cwd: FOLDER, env, timeout: RUN_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1_048_576 } as const;
  try {
    return { code: 0, ...(await exec(NODE, [script, ...args], options)) };
  } catch (error) {
    const { code, stdout = '', stderr = '', message } = error as Error & Partial<Ran>;
    return { code: typeof code === 'number' ? code : -1, stdout, stderr: stderr || message };
  }
}
