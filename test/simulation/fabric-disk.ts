import type { Runtime } from '../../src/runtime/runtime.js';
import type { Disk, LogFile, NewFile, ReadableFile } from '../../src/system/files/disk.js';

const SECTOR = 512;

/** Bytes that grow without a copy for each write. */
class Bytes {
  #buffer = Buffer.alloc(1_024);
  length = 0;

  get view(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  resize(length: number): void {
    if (length > this.#buffer.length) {
      const grown = Buffer.alloc(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(grown, 0, 0, this.length);
      this.#buffer = grown;
    }
    this.length = Math.max(this.length, length);
  }

  put(bytes: Uint8Array, offset: number): void {
    this.resize(offset + bytes.length);
    this.#buffer.set(bytes, offset);
  }
}

interface File {
  /** The content that a process reads. */
  readonly bytes: Bytes;
  /** The content that a power cut leaves for certain. */
  readonly synced: Bytes;
  /** Ranges that were written and not synced. */
  dirty: [from: number, to: number][];
  /** Does the name survive a power cut? */
  named: boolean;
  /** The file that it replaced; until the folder is synced, a power cut leaves the one or the other. */
  before: File | undefined;
}

/** How a disk behaves. */
export interface DiskFaults {
  /** The longest time that a write takes; 0: none. */
  latencyMs: number;
  /** Bytes that all files together may have. */
  capacity: number;
}

/**
 * The disk of one machine, on the virtual clock. Processes come and go: a handle of an ended process does nothing, and
 * its promises never settle. After a power cut, synced bytes are there; of those written since, any sectors are.
 */
export class FabricDisk {
  readonly #runtime: Runtime;
  readonly #files = new Map<string, File>();
  /** Removed files whose removal is not synced. */
  readonly #removed = new Map<string, File>();
  readonly faults: DiskFaults = { latencyMs: 0, capacity: Number.POSITIVE_INFINITY };
  /** Called before anything is written or synced. */
  onWrite: (what: string) => void = () => {};
  #used = 0;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get used(): number {
    return this.#used;
  }

  /** The disk for one process, and the function that ends its use. */
  open(): { disk: Disk; end: () => void } {
    let alive = true;
    const whileAlive = <T>(task: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        const run = () => {
          if (!alive) return;
          try {
            resolve(task());
          } catch (error) {
            reject(error);
          }
        };
        this.#later(run);
      });
    const end = () => {
      alive = false;
    };
    return { disk: this.#process(() => alive, whileAlive), end };
  }

  /** The machine loses power: unsynced sectors may be lost, each for itself. */
  cutPower(random: () => number): void {
    for (const [name, file] of this.#removed) {
      if (random() < 0.5 && !this.#files.has(name)) this.#adopt(name, file);
    }
    this.#removed.clear();
    for (const [name, file] of [...this.#files]) {
      const kept = file.before && random() < 0.5 ? file.before : file;
      const isLost = kept === file && !file.before && !file.named && random() < 0.5;
      this.#release(name);
      if (!isLost) this.#adopt(name, torn(kept, random));
    }
  }

  #process(alive: () => boolean, whileAlive: <T>(task: () => T) => Promise<T>): Disk {
    return {
      pathOf: (name) => `/simulated/${name}`,
      list: () => [...this.#files.keys()],
      read: (name) => Buffer.from(this.#find(name).bytes.view),
      open: (name) => this.#readable(name),
      create: (name) => this.#newFile(name, alive, whileAlive),
      createLog: async (name, head) => {
        if (!alive()) return new Promise(() => {});
        const file = this.#create(name);
        this.#write(file, head, 0);
        await whileAlive(() => this.#sync(file, 0, file.bytes.length));
        this.#syncFolder();
        return this.#log(file, alive, whileAlive);
      },
      replace: async (name, bytes) => {
        if (!alive()) return new Promise(() => {});
        const draft = this.#create(`${name}.new`);
        this.#write(draft, bytes, 0);
        await whileAlive(() => this.#sync(draft, 0, draft.bytes.length));
        this.#files.delete(`${name}.new`);
        const before = this.#files.get(name);
        if (before) this.#used -= before.bytes.length;
        draft.before = before;
        this.#files.set(name, draft);
        await whileAlive(() => this.#syncFolder());
      },
      remove: (name) => {
        if (alive()) this.#remove(name);
      },
    };
  }

  #readable(name: string): ReadableFile {
    const file = this.#find(name);
    let isOpen = true;
    return {
      path: `/simulated/${name}`,
      size: file.bytes.length,
      readAt: (offset, length) => {
        if (!isOpen) throw Object.assign(new Error('bad file descriptor'), { code: 'EBADF' });
        return Buffer.from(file.bytes.view.subarray(offset, offset + length));
      },
      close: () => {
        isOpen = false;
      },
    };
  }

  #newFile(name: string, alive: () => boolean, whileAlive: <T>(task: () => T) => Promise<T>): NewFile {
    const file = this.#create(name);
    return {
      append: async (bytes) => {
        const copy = Buffer.from(bytes);
        return whileAlive(() => this.#write(file, copy, file.bytes.length));
      },
      finish: async () => {
        await whileAlive(() => this.#sync(file, 0, file.bytes.length));
        this.#syncFolder();
      },
      abandon: () => {
        if (alive()) this.#remove(name);
      },
    };
  }

  #log(file: File, alive: () => boolean, whileAlive: <T>(task: () => T) => Promise<T>): LogFile {
    return {
      write: (bytes, offset, done) => {
        if (!alive()) return;
        const copy = Buffer.from(bytes);
        const sync = () => this.#sync(file, offset, offset + copy.length);
        try {
          this.#write(file, copy, offset);
        } catch (error) {
          whileAlive(() => done(error as Error)).catch(() => {});
          return;
        }
        whileAlive(sync).then(() => done(null), done);
      },
      note: (bytes, offset) => {
        if (alive()) this.#write(file, bytes, offset);
      },
      close() {},
    };
  }

  #later(task: () => void): void {
    const { latencyMs } = this.faults;
    if (latencyMs === 0) queueMicrotask(task);
    else this.#runtime.setTimer(task, this.#runtime.random() * latencyMs);
  }

  #find(name: string): File {
    const file = this.#files.get(name);
    if (!file) throw Object.assign(new Error(`no such file: ${name}`), { code: 'ENOENT' });
    return file;
  }

  #create(name: string): File {
    this.#release(name);
    const file = emptyFile();
    this.#files.set(name, file);
    return file;
  }

  #adopt(name: string, file: File): void {
    this.#files.set(name, file);
    this.#used += file.bytes.length;
  }

  #release(name: string): void {
    const file = this.#files.get(name);
    if (file) this.#used -= file.bytes.length;
    this.#files.delete(name);
  }

  #remove(name: string): void {
    const file = this.#files.get(name);
    if (file?.named) this.#removed.set(name, file);
    this.#release(name);
  }

  #write(file: File, bytes: Uint8Array, offset: number): void {
    this.onWrite(`write ${offset} ${bytes.length}`);
    const growth = Math.max(0, offset + bytes.length - file.bytes.length);
    if (growth > 0 && this.#used + growth > this.faults.capacity) {
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    }
    this.#used += growth;
    file.bytes.put(bytes, offset);
    file.dirty.push([offset, offset + bytes.length]);
  }

  #sync(file: File, from: number, to: number): void {
    this.onWrite(`sync ${from} ${to}`);
    file.synced.put(file.bytes.view.subarray(from, to), from);
    file.dirty = file.dirty.filter(([start, end]) => start < from || end > to);
  }

  /** Names are on disk from now on. */
  #syncFolder(): void {
    this.#removed.clear();
    for (const file of this.#files.values()) {
      file.named = true;
      file.before = undefined;
    }
  }
}

function emptyFile(): File {
  return { bytes: new Bytes(), synced: new Bytes(), dirty: [], named: false, before: undefined };
}

/** The content of a file after a power cut. */
function torn(file: File, random: () => number): File {
  const after = emptyFile();
  after.named = true;
  const grown = file.bytes.length - file.synced.length;
  const length = file.synced.length + (grown > 0 ? Math.floor(random() * (grown + 1)) : 0);
  after.bytes.put(file.synced.view, 0);
  after.bytes.resize(length);
  for (const [from, to] of file.dirty) {
    for (let at = from - (from % SECTOR); at < Math.min(to, length); at += SECTOR) {
      if (random() < 0.5) continue;
      const start = Math.max(at, from);
      const end = Math.min(at + SECTOR, to, length);
      if (start < end) after.bytes.put(file.bytes.view.subarray(start, end), start);
    }
  }
  after.synced.put(after.bytes.view, 0);
  return after;
}
