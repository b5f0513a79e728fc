import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './source-files.js';

const run = promisify(execFile);

/** Packs this package and installs the tarball in an empty folder below `folder`, as a user would; returns that folder. */
export async function installPackage(folder: string): Promise<string> {
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd: ROOT });
  const [{ filename }] = JSON.parse(stdout);
  const user = join(folder, 'user');
  await mkdir(user);
  await writeFile(join(user, 'package.json'), '{"private":true,"type":"module"}');
  await run('npm', ['install', '--no-audit', '--no-fund', join(folder, filename)], { cwd: user });
  return user;
}
