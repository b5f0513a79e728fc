import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import type { ProcessLock } from '../../system/files/process-lock.js';
import { controlPath, defaultDataFolder, lockNode, prepareDataFolder } from './data-folder.js';

/** Lets a test act around a rename, as another process would. */
const hooks = vi.hoisted(() => ({ rename: undefined as ((rename: () => void) => void) | undefined }));

vi.mock('node:fs', async (importActual) => {
  const fs = await importActual<typeof import('node:fs')>();
  const renameSync: typeof fs.renameSync = (from, to) => {
    const rename = () => fs.renameSync(from, to);
    return hooks.rename ? hooks.rename(rename) : rename();
  };
  return { ...fs, renameSync };
});

const MAX_BYTES = 100;
const asRoot = process.getuid?.() === 0;
const hasProc = existsSync('/proc/self/stat');

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-data-'));
});

afterEach(() => {
  hooks.rename = undefined;
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

describe('the default data folder', () => {
  it.each<[NodeJS.Platform, Record<string, string>, string]>([
    ['linux', {}, join(homedir(), '.local', 'state', 'ecliptic')],
    ['linux', { XDG_STATE_HOME: '' }, join(homedir(), '.local', 'state', 'ecliptic')],
    ['linux', { XDG_STATE_HOME: '/srv/state' }, '/srv/state/ecliptic'],
    ['freebsd', { XDG_STATE_HOME: '/srv/state' }, '/srv/state/ecliptic'],
    ['darwin', { XDG_STATE_HOME: '/srv/state' }, join(homedir(), 'Library', 'Application Support', 'ecliptic')],
    ['win32', { LOCALAPPDATA: '/users/me/local' }, join('/users/me/local', 'ecliptic')],
    ['win32', {}, join(homedir(), 'AppData', 'Local', 'ecliptic')],
  ])('is where %s with %j keeps state', (platform, env, expected) => {
    expect(defaultDataFolder(env, platform)).toBe(expected);
  });
});

describe('preparing the data folder', () => {
  it('makes it, and those above it, for its owner only', () => {
    const data = join(folder, 'a', 'b');
    prepareDataFolder(data);
    expect(modeOf(data)).toBe(0o700);
    expect(modeOf(dirname(data))).toBe(0o700);
  });

  it('closes one that others could look into, and keeps what is in it', () => {
    const data = join(folder, 'open');
    mkdirSync(data);
    chmodSync(data, 0o777);
    writeFileSync(join(data, 'kept'), 'kept');
    prepareDataFolder(data);
    expect(modeOf(data)).toBe(0o700);
    expect(readFileSync(join(data, 'kept'), 'utf8')).toBe('kept');
  });

  it.each([['in its place'], ['above it']])('refuses a file %s as DATA_FOLDER', (where) => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const data = where === 'above it' ? join(file, 'data') : file;
    expect(() => prepareDataFolder(data)).toThrow(coded('DATA_FOLDER'));
  });
});

describe('the control socket’s path', () => {
  it('is inside the data folder', () => {
    expect(controlPath(folder, {})).toBe(join(folder, 'control.sock'));
  });

  it('is the same however the data folder is written', () => {
    expect(controlPath(`${relative(process.cwd(), folder)}/x/..`, {})).toBe(controlPath(folder, {}));
    const long = longFolder();
    const env = runtimeEnv();
    expect(controlPath(`${relative(process.cwd(), long)}/`, env)).toBe(controlPath(long, env));
  });

  it('stays inside as long as it is short enough, counted in bytes', () => {
    const env = runtimeEnv();
    const room = MAX_BYTES - '/control.sock'.length;
    expect(controlPath(`/${'x'.repeat(room - 1)}`, env)).toBe(`/${'x'.repeat(room - 1)}/control.sock`);
    expect(dirname(controlPath(`/${'x'.repeat(room)}`, env))).toBe(join(env.XDG_RUNTIME_DIR, 'ecliptic'));
    expect(dirname(controlPath(`/${'é'.repeat(room / 2 + 1)}`, env))).toBe(join(env.XDG_RUNTIME_DIR, 'ecliptic'));
  });

  it('goes to a private runtime folder when it would be too long', () => {
    const env = runtimeEnv();
    const path = controlPath(longFolder(), env);
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(MAX_BYTES);
    expect(dirname(path)).toBe(join(env.XDG_RUNTIME_DIR, 'ecliptic'));
    expect(modeOf(dirname(path))).toBe(0o700);
    expect(statSync(dirname(path)).uid).toBe(process.getuid!());
  });

  it.each([
    ['there is no XDG_RUNTIME_DIR', undefined],
    ['XDG_RUNTIME_DIR is empty', ''],
    ['XDG_RUNTIME_DIR is too long itself', 'x'],
  ])('goes to a private folder for temporary files when %s', (_, name) => {
    vi.stubEnv('TMPDIR', folder);
    const path = controlPath(longFolder(), { XDG_RUNTIME_DIR: name && join(folder, name.repeat(80)) });
    expect(dirname(path)).toBe(join(folder, `ecliptic-${process.getuid!()}`));
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(MAX_BYTES);
    expect(modeOf(dirname(path))).toBe(0o700);
  });

  it('fits a socket for every data folder, and differs for different ones', () => {
    const env = runtimeEnv();
    const name = fc.stringMatching(/^[^/\0.]{1,60}$/);
    const folders = fc.uniqueArray(
      fc.array(name, { minLength: 1, maxLength: 8 }).map((names) => `/${names.join('/')}`),
      { minLength: 2, maxLength: 8 },
    );
    fc.assert(
      fc.property(folders, (different) => {
        const paths = different.map((data) => controlPath(data, env));
        for (const path of paths) expect(Buffer.byteLength(path)).toBeLessThanOrEqual(MAX_BYTES);
        expect(new Set(paths).size).toBe(different.length);
      }),
    );
  });

  it('is a named pipe of its own on Windows', () => {
    const path = controlPath(folder, {}, 'win32');
    expect(path).toMatch(/^\\\\\.\\pipe\\ecliptic-[0-9a-f]+$/);
    expect(controlPath(`${folder}2`, {}, 'win32')).not.toBe(path);
  });

  it.each<[string, (runtimeFolder: string) => void]>([
    ['lets others in', (path) => mkdirWithMode(path, 0o755)],
    ['lets others write', (path) => mkdirWithMode(path, 0o722)],
    ['lets its group in', (path) => mkdirWithMode(path, 0o750)],
    ['leads elsewhere', (path) => symlinkSync(mkdirWithMode(`${path}2`, 0o700), path)],
    ['is a file', (path) => writeFileSync(path, '', { mode: 0o600 })],
  ])('is refused as DATA_FOLDER when the runtime folder %s', (_, prepare) => {
    const env = runtimeEnv();
    prepare(join(env.XDG_RUNTIME_DIR, 'ecliptic'));
    expect(() => controlPath(longFolder(), env)).toThrow(coded('DATA_FOLDER'));
  });

  it.skipIf(!asRoot)('is refused as DATA_FOLDER when the runtime folder is another user’s', () => {
    const env = runtimeEnv();
    chownSync(mkdirWithMode(join(env.XDG_RUNTIME_DIR, 'ecliptic'), 0o700), 65534, 65534);
    expect(() => controlPath(longFolder(), env)).toThrow(coded('DATA_FOLDER'));
  });

  it('is refused as DATA_FOLDER when the runtime folder cannot be made', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(() => controlPath(longFolder(), { XDG_RUNTIME_DIR: file })).toThrow(coded('DATA_FOLDER'));
  });
});

describe('the lock', () => {
  const runtime = systemRuntime();

  it('names its holder, for its owner only, and leaves nothing else in the folder', () => {
    lockNode(folder, runtime);
    expect(readdirSync(folder)).toEqual(['node.lock']);
    expect(holderIn(folder).pid).toBe(process.pid);
    expect(modeOf(join(folder, 'node.lock'))).toBe(0o600);
  });

  it('is refused to a second one as NODE_EXISTS, with the holder’s process', () => {
    lockNode(folder, runtime);
    expect(() => lockNode(folder, runtime)).toThrow(
      expect.objectContaining({ code: 'NODE_EXISTS', details: { pid: process.pid, folder } }),
    );
    expect(readdirSync(folder)).toEqual(['node.lock']);
  });

  it('is free again when it was released, and leaves nothing behind', () => {
    lockNode(folder, runtime).release();
    expect(readdirSync(folder)).toEqual([]);
    lockNode(folder, runtime).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('does not take a copy of the lock for the lock of its holder', () => {
    const copied = join(folder, 'copied');
    mkdirSync(copied);
    const lock = lockNode(folder, runtime);
    copyFileSync(join(folder, 'node.lock'), join(copied, 'node.lock'));
    lockNode(copied, runtime).release();
    expect(() => lockNode(folder, runtime)).toThrow(/already runs the node/);
    lock.release();
  });

  it('is one for each folder', () => {
    const other = join(folder, 'other');
    mkdirSync(other);
    lockNode(folder, runtime);
    lockNode(other, runtime);
    expect([holderIn(folder).pid, holderIn(other).pid]).toEqual([process.pid, process.pid]);
  });

  it('is refused as DATA_FOLDER where it cannot be written', () => {
    expect(() => lockNode(join(folder, 'missing'), runtime)).toThrow(coded('DATA_FOLDER'));
  });

  it('of a process that has ended is taken over', () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    writeLock({ pid });
    lockNode(folder, runtime);
    expect(holderIn(folder).pid).toBe(process.pid);
    expect(readdirSync(folder)).toEqual(['node.lock']);
  });

  it('of a process that lives is not taken over', async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume()']);
    writeLock({ pid: child.pid });
    try {
      expect(() => lockNode(folder, runtime)).toThrow(
        expect.objectContaining({ code: 'NODE_EXISTS', details: { pid: child.pid, folder } }),
      );
      expect(holderIn(folder).pid).toBe(child.pid);
    } finally {
      await end(child);
    }
    lockNode(folder, runtime);
    expect(holderIn(folder).pid).toBe(process.pid);
  });

  it.skipIf(!hasProc)('of a process whose number another one has now is taken over', () => {
    const { started } = holderOf(lockNode(folder, runtime));
    writeLock({ pid: process.pid, started: String(Number(started) - 1) });
    lockNode(folder, runtime);
    expect(holderIn(folder)).toMatchObject({ pid: process.pid, started });
  });

  it.skipIf(!hasProc)('of a killed process that nobody has buried yet is taken over', async () => {
    // The shell becomes a program that never waits for its child, as the first process of a container may be.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec cat']);
    try {
      const lines = createInterface({ input: parent.stdout });
      const pid = Number((await once(lines, 'line'))[0]);
      parent.stdin.write('has become cat\n');
      await once(lines, 'line');
      writeLock({ pid, started: statOf(pid)[19] });
      process.kill(pid, 'SIGKILL');
      await vi.waitFor(() => expect(statOf(pid)[0]).toBe('Z'), 20_000);
      lockNode(folder, runtime);
      expect(holderIn(folder).pid).toBe(process.pid);
    } finally {
      await end(parent);
    }
  });

  it.each([
    '',
    '\0\0\0\0',
    '{"pid":',
    'null',
    '[]',
    '"4711"',
    '{}',
    '{"pid":"1"}',
    '{"pid":1.5}',
    '{"pid":1e300}',
    '{"pid":0}',
    '{"pid":-1}',
  ])('that says %j is taken over', (text) => {
    writeFileSync(join(folder, 'node.lock'), text);
    lockNode(folder, runtime);
    expect(holderIn(folder).pid).toBe(process.pid);
    expect(readdirSync(folder)).toEqual(['node.lock']);
  });

  it('has one holder when a slow process still thinks it a dead one’s while a third comes', () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    writeLock({ pid });
    const winners: ProcessLock[] = [];
    const contend = () => {
      try {
        winners.push(lockNode(folder, runtime));
      } catch (error) {
        expect(error).toMatchObject({ code: 'NODE_EXISTS' });
      }
    };
    hooks.rename = (rename) => {
      hooks.rename = undefined;
      contend();
      rename();
      contend();
    };
    contend();
    expect(winners).toHaveLength(1);
  });

  it('of a dead process goes to exactly one of two that race for it', { timeout: 60_000 }, async () => {
    const { pid: dead } = spawnSync(process.execPath, ['-e', '']);
    const racers = [await startRacer(), await startRacer()];
    try {
      for (let round = 0; round < 20; round++) {
        const start = join(folder, `start-${round}`);
        writeLock({ pid: dead });
        await Promise.all(racers.map((racer) => ask(racer, { contend: start })));
        const results = racers.map((racer) => once(racer, 'message').then(([result]) => result as RaceResult));
        writeFileSync(start, '');
        const outcomes = await Promise.all(results);
        const winner = outcomes.findIndex(({ won }) => won);
        expect(outcomes.filter(({ won }) => won)).toHaveLength(1);
        expect(outcomes[1 - winner]).toEqual({ won: false, code: 'NODE_EXISTS', pid: racers[winner]!.pid });
        expect(holderIn(folder).pid).toBe(racers[winner]!.pid);
        await ask(racers[winner]!, { release: true });
        expect(existsSync(join(folder, 'node.lock'))).toBe(false);
      }
    } finally {
      await Promise.all(racers.map(end));
    }
  });

  interface RaceResult {
    readonly won: boolean;
    readonly code?: string;
    readonly pid?: number;
  }

  /** A process that, when told so, waits for a file to appear and then tries to get the lock. */
  async function startRacer(): Promise<ChildProcess> {
    const script = join(folder, 'racer.mjs');
    const source = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
    writeFileSync(
      script,
      `import { existsSync } from 'node:fs';
       import { lockNode } from ${source('./data-folder.ts')};
       import { systemRuntime } from ${source('../../runtime/system-runtime.ts')};
       const runtime = systemRuntime();
       let lock;
       process.on('message', ({ contend, release }) => {
         if (release) {
           lock.release();
           return process.send('released');
         }
         process.send('waiting', () => {
           while (!existsSync(contend));
           try {
             lock = lockNode(${JSON.stringify(folder)}, runtime);
             process.send({ won: true });
           } catch (error) {
             process.send({ won: false, code: error.code, pid: error.details?.pid });
           }
         });
       });
       process.send('ready');`,
    );
    const racer = fork(script, { execArgv: ['--import', import.meta.resolve('tsx')] });
    await once(racer, 'message');
    return racer;
  }

  async function ask(racer: ChildProcess, order: object): Promise<void> {
    const answered = once(racer, 'message');
    racer.send(order);
    await answered;
  }

  function writeLock(holder: object): void {
    writeFileSync(join(folder, 'node.lock'), JSON.stringify(holder));
  }

  function holderOf(_: ProcessLock): { started: string } {
    return holderIn(folder);
  }
});

function holderIn(data: string): { pid: number; started: string } {
  return JSON.parse(readFileSync(join(data, 'node.lock'), 'utf8'));
}

/** What the kernel says of a process, after its number and name. */
function statOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function runtimeEnv(): { XDG_RUNTIME_DIR: string } {
  return { XDG_RUNTIME_DIR: folder };
}

function longFolder(): string {
  return join(folder, 'x'.repeat(100));
}

function mkdirWithMode(path: string, mode: number): string {
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

function coded(code: ErrorCode): EclipticError {
  return expect.toSatisfy((error) => error instanceof EclipticError && error.code === code);
}
