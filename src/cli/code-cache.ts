import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writevSync,
} from 'node:fs';
import Module from 'node:module';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
import { crc32 } from 'node:zlib';

type Environment = Readonly<Record<string, string | undefined>>;

/** Node 22 has a cache of compiled code. */
interface CompileCache {
  readonly enableCompileCache?: (folder: string) => unknown;
  readonly flushCompileCache?: () => void;
}

/** The first line of a pack. The compiled code of its files follows, in the same order. */
interface PackHead {
  /** Checksum of the compiled code. */
  readonly sum: number;
  readonly files: readonly { readonly name: string; readonly source: number; readonly size: number }[];
}

interface Compiled {
  /** Checksum of the source. */
  readonly source: number;
  readonly code: Buffer;
}

/** The build puts it in. */
declare const PACKAGE_VERSION: string;

const HERE = dirname(fileURLToPath(import.meta.url));
const REQUIRE = Module.createRequire(import.meta.url);
/** Imports ES modules for the others, which cannot while they run from stored code; see scripts/bundle.mjs. */
const IMPORT = './import.cjs';
/** Beyond these numbers the oldest are removed. */
const MOST_VERSIONS = 3;
const MOST_PACKS = 100;

/** When a server saves: its first work compiles code as well. */
export const SAVE_AFTER_MS = 2_000;

let save: (() => void) | undefined;

/**
 * Loads the program from the folder of this file, with compiled code from the user's cache folder: compiling is a third
 * of a node's start. No fault of the cache is an error; without it, the code is compiled.
 */
export function loadProgram(file: string, command: string | undefined, env: Environment): unknown {
  // Coverage of code that was compiled elsewhere is less exact.
  const isOff = Boolean(env.NODE_DISABLE_COMPILE_CACHE || env.NODE_V8_COVERAGE || env.NODE_COMPILE_CACHE);
  const folder = isOff ? undefined : cacheFolder(env);
  if (folder === undefined) return REQUIRE(join(HERE, file));
  const { enableCompileCache, flushCompileCache } = Module as CompileCache;
  if (enableCompileCache) {
    if (makePrivate(folder)) enableCompileCache(folder);
    save = flushCompileCache;
    return REQUIRE(join(HERE, file));
  }
  const word = command !== undefined && /^[a-z][a-z-]{1,30}$/.test(command) ? command : 'other';
  const place = crc32(`${HERE} ${process.version} ${process.arch}`).toString(16);
  const loader = new CachingLoader(folder, `${word}-${place}`);
  save = () => loader.save();
  process.on('exit', (code) => {
    if (code === 0) saveCodeCache();
  });
  return loader.load(file);
}

/** Stores the compiled code if this process had to compile; a command does so when it ends, a server once it is ready. */
export function saveCodeCache(): void {
  try {
    save?.();
  } catch {
    // Without a folder to write to, each process compiles.
  }
  save = undefined;
}

/** Loads CommonJS files of one folder as Node does, into the same table of modules, and stores their compiled code. */
class CachingLoader {
  readonly #folder: string;
  readonly #pack: string;
  readonly #stored: Map<string, Compiled>;
  #loaded: { readonly name: string; readonly source: number; readonly script: Script }[] | undefined = [];
  #compiled = false;

  constructor(folder: string, pack: string) {
    this.#folder = folder;
    this.#pack = pack;
    this.#stored = readPack(folder, pack);
  }

  load(name: string): unknown {
    const file = join(HERE, name);
    const known = REQUIRE.cache[file];
    if (known) return known.exports;
    const module = new Module(file);
    module.filename = file;
    REQUIRE.cache[file] = module;
    try {
      const require = (id: string) => (id.startsWith('./') && id !== IMPORT ? this.load(id.slice(2)) : REQUIRE(id));
      this.#compile(name, file).runInThisContext()(module.exports, require, module, file, HERE);
    } catch (error) {
      delete REQUIRE.cache[file];
      throw error;
    }
    module.loaded = true;
    return module.exports;
  }

  save(): void {
    const loaded = this.#loaded ?? [];
    const isNew = this.#compiled && makePrivate(this.#folder);
    if (isNew) {
      for (const { name, source, script } of loaded)
        this.#stored.set(name, { source, code: script.createCachedData() });
      writePack(this.#folder, this.#pack, this.#stored);
    }
    this.#loaded = undefined;
    this.#stored.clear();
  }

  #compile(name: string, file: string): Script {
    const bytes = readFileSync(file);
    const source = crc32(bytes);
    const stored = this.#stored.get(name);
    const text = `(function (exports, require, module, __filename, __dirname) { ${bytes.toString()}\n})`;
    const script = new Script(text, {
      filename: file,
      // V8 itself compares nothing of the source but its length.
      cachedData: stored?.source === source ? stored.code : undefined,
    });
    if (script.cachedDataRejected !== false) this.#compiled = true;
    this.#loaded?.push({ name, source, script });
    return script;
  }
}

function readPack(folder: string, name: string): Map<string, Compiled> {
  const pack = new Map<string, Compiled>();
  if (!isPrivate(folder)) return pack;
  try {
    const bytes = readOwn(join(folder, name));
    const end = bytes.indexOf('\n');
    const head: PackHead = JSON.parse(bytes.toString('utf8', 0, end));
    let at = end + 1;
    // V8 does not check for damage.
    if (crc32(bytes.subarray(at)) !== head.sum) return pack;
    for (const { name: file, source, size } of head.files) {
      pack.set(file, { source, code: bytes.subarray(at, at + size) });
      at += size;
    }
  } catch {
    // There is none, or it is damaged.
  }
  return pack;
}

/** The owner is that of the opened file, so that it cannot be exchanged after the check. */
function readOwn(path: string): Buffer {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const stats = fstatSync(file);
    return stats.isFile() && isOwn(stats) ? readFileSync(file) : Buffer.alloc(0);
  } finally {
    closeSync(file);
  }
}

function writePack(folder: string, name: string, pack: ReadonlyMap<string, Compiled>): void {
  const files = [...pack].map(([file, { source, code }]) => ({ name: file, source, size: code.length }));
  const codes = [...pack.values()].map(({ code }) => code);
  const head: PackHead = { sum: codes.reduce((sum, code) => crc32(code, sum), 0), files };
  const temporary = join(folder, `.${name}.${process.pid}`);
  try {
    const file = openSync(temporary, 'wx', 0o600);
    try {
      writevSync(file, [Buffer.from(`${JSON.stringify(head)}\n`), ...codes]);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, join(folder, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  prune(folder, MOST_PACKS);
}

/** Removes the oldest entries of a folder. */
function prune(folder: string, most: number): void {
  const entries = readdirSync(folder).map((name) => join(folder, name));
  if (entries.length <= most) return;
  const byAge = entries.map((path) => ({ path, at: lstatSync(path).mtimeMs })).sort((a, b) => b.at - a.at);
  for (const { path } of byAge.slice(most)) rmSync(path, { recursive: true, force: true });
}

/** Undefined if the user has no folder. */
function cacheFolder(env: Environment): string | undefined {
  try {
    const base =
      process.platform === 'win32'
        ? (env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'))
        : process.platform === 'darwin'
          ? join(homedir(), 'Library', 'Caches')
          : env.XDG_CACHE_HOME || join(homedir(), '.cache');
    return join(base, 'ecliptic', 'code', PACKAGE_VERSION);
  } catch {
    return undefined;
  }
}

/** Stored code runs as this user, so that no other user may have written it. */
function isPrivate(folder: string): boolean {
  try {
    const stats = lstatSync(folder);
    return stats.isDirectory() && isOwn(stats) && (process.platform === 'win32' || (stats.mode & 0o077) === 0);
  } catch {
    return false;
  }
}

/** Makes the folder, but none in a place that belongs to another user, as with `sudo` and the home folder of its caller. */
function makePrivate(folder: string): boolean {
  if (isPrivate(folder)) return true;
  try {
    const missing: string[] = [];
    let above = folder;
    while (!existsSync(above) && above !== dirname(above)) {
      missing.unshift(above);
      above = dirname(above);
    }
    if (!isOwn(statSync(above))) return false;
    // One by one: in some places, such as /proc, Node tries forever to make several.
    for (const path of missing) mkdirSync(path, 0o700);
    prune(dirname(folder), MOST_VERSIONS);
  } catch {
    // Another process has made it, or it cannot be made.
  }
  return isPrivate(folder);
}

function isOwn({ uid }: Stats): boolean {
  return process.getuid === undefined || uid === process.getuid();
}
