import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './source-files.js';

const INSTALL_MS = 300_000;

const exec = promisify(execFile);

/** Installs the packages that a folder's lock names, unless they are there; `probe` is a program that must then start. */
export async function installFolder(folder: string, probe: string): Promise<void> {
  const modules = join(folder, 'node_modules');
  // Says which lock was installed; it goes when the packages go.
  const stamp = join(modules, '.installed');
  const lock = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  try {
    // The root's `engine-strict` reaches here through the environment, and is not meant for these packages.
    await exec('npm', ['ci', '--engine-strict=false', '--no-audit', '--no-fund'], {
      cwd: folder,
      timeout: INSTALL_MS,
      maxBuffer: 64 * 1_048_576,
    });
    await exec(join(modules, probe), ['--version']);
  } catch (error) {
    const { message, stderr } = error as Error & { stderr?: string };
    const line = `cd ${relative(ROOT, folder)} && npm ci --engine-strict=false`;
    throw new Error(`packages could not be installed; see what \`${line}\` says\n${stderr || message}`);
  }
  writeFileSync(stamp, lock);
}
