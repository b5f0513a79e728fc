import { execFile } from 'node:child_process';
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import nodeModule from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PROGRAM, VERSION } from '../src/runtime/package.js';

const run = promisify(execFile);
/** Node 22 stores compiled code in files of its own. */
const storesPacks = !('enableCompileCache' in nodeModule);

describe('compiled code of the program', () => {
  let home: string;
  const folder = () => join(home, 'ecliptic', 'code', VERSION);

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'ecliptic-code-'));
  });

  afterEach(() => rm(home, { recursive: true, force: true }));

  it('is stored where only this user can write, and used until the source changes', async () => {
    expect(await version()).toBe(VERSION);
    for (const path of [join(home, 'ecliptic'), folder()]) expect((await stat(path)).mode & 0o777).toBe(0o700);
    if (!storesPacks) return;
    const pack = await onlyPack();
    const first = await stat(pack);
    expect(first.mode & 0o777).toBe(0o600);
    expect(await version()).toBe(VERSION);
    expect((await stat(pack)).ino).toBe(first.ino);
    // The head of the pack has the checksum of each source.
    const bytes = await readFile(pack);
    const end = bytes.indexOf('\n');
    const head = JSON.parse(bytes.toString('utf8', 0, end));
    const other = { ...head, files: head.files.map((file: object) => ({ ...file, source: 1 })) };
    await writeFile(pack, Buffer.concat([Buffer.from(JSON.stringify(other)), bytes.subarray(end)]));
    expect(await version()).toBe(VERSION);
    expect((await readFile(pack)).equals(bytes)).toBe(false);
    expect((await stat(pack)).ino).not.toBe(first.ino);
    expect(await readdir(folder())).toHaveLength(1);
  });

  it.runIf(storesPacks)('is compiled again if the stored one is damaged', async () => {
    await version();
    const pack = await onlyPack();
    const whole = await readFile(pack);
    const flipped = Buffer.from(whole);
    for (let at = whole.length >> 1; at < whole.length; at += 97) flipped[at]! ^= 0xff;
    for (const damaged of [flipped, whole.subarray(0, whole.length >> 1), Buffer.alloc(0), Buffer.from('{}\n')]) {
      await writeFile(pack, damaged);
      expect(await version()).toBe(VERSION);
      expect((await readFile(pack)).length).toBeGreaterThan(whole.length >> 1);
    }
  });

  it.runIf(storesPacks)('is not read through a link, nor from a folder that others can open or own', async () => {
    await version();
    const pack = await onlyPack();
    await rename(pack, join(home, 'elsewhere'));
    await symlink(join(home, 'elsewhere'), pack);
    expect(await version()).toBe(VERSION);
    expect((await stat(await onlyPack())).ino).not.toBe((await stat(join(home, 'elsewhere'))).ino);
    await rm(pack);
    await chmod(folder(), 0o777);
    expect(await version()).toBe(VERSION);
    expect(await readdir(folder())).toEqual([]);
    if (process.getuid?.() !== 0) return;
    await chmod(folder(), 0o700);
    await chown(folder(), 12_345, 12_345);
    expect(await version()).toBe(VERSION);
    expect(await readdir(folder())).toEqual([]);
  });

  it('is not stored if there is no place for it, and the program runs', async () => {
    await writeFile(join(home, 'file'), '');
    await mkdir(join(home, 'empty'));
    const nowhere: NodeJS.ProcessEnv[] = [
      { XDG_CACHE_HOME: join(home, 'file') },
      { HOME: join(home, 'file') },
      { HOME: '/proc/self' },
      { XDG_CACHE_HOME: join(home, 'empty'), NODE_DISABLE_COMPILE_CACHE: '1' },
    ];
    for (const env of nowhere) expect(await version(env)).toBe(VERSION);
    expect(await readdir(join(home, 'empty'))).toEqual([]);
  });

  async function version(env: NodeJS.ProcessEnv = { XDG_CACHE_HOME: home }): Promise<string> {
    const { stdout, stderr } = await run(process.execPath, [PROGRAM, '--version'], { env: { PATH: '', ...env } });
    expect(stderr).toBe('');
    return stdout.trim();
  }

  async function onlyPack(): Promise<string> {
    const [name, ...others] = await readdir(folder());
    expect(others).toEqual([]);
    return join(folder(), name!);
  }
});
