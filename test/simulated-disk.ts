import type { Disk, LogFile, NewFile, ReadableFile } from '../src/system/files/disk.js';

const SECTOR = 512;

interface SimulatedFile {
  /** What a process reads. */
  bytes: Buffer;
  /** What a power cut leaves for certain; undefined where not even the name is. */
  synced: Buffer | undefined;
  /** Was it renamed over another file? Then a power cut leaves the one or the other, whole. */
  readonly isRenamed?: boolean;
}

/**
 * A disk in memory that can lose power. After a power cut, synced bytes are there; of the bytes written since, any sectors
 * are, in any order, and a file may end anywhere behind its synced part. A removed file may be there again.
 */
export class SimulatedDisk implements Disk {
  readonly #files = new Map<string, SimulatedFile>();
  readonly #removed = new Map<string, Buffer>();
  /** Do writes of new files take a turn of the event loop? */
  isSlow = false;
  /** Bytes that all files together may have. */
  capacity = Number.POSITIVE_INFINITY;
  /** Called before anything becomes durable, and after. */
  onSync: () => void = () => {};

  pathOf(name: string): string {
    return `/simulated/store/${name}`;
  }

  list(): string[] {
    return [...this.#files.keys()];
  }

  read(name: string): Buffer {
    return Buffer.from(this.#find(name).bytes);
  }

  open(name: string): ReadableFile {
    const file = this.#find(name);
    let isOpen = true;
    return {
      path: this.pathOf(name),
      size: file.bytes.length,
      readAt: (offset, length) => {
        if (!isOpen) throw Object.assign(new Error('bad file descriptor'), { code: 'EBADF' });
        return Buffer.from(file.bytes.subarray(offset, offset + length));
      },
      close: () => {
        isOpen = false;
      },
    };
  }

  create(name: string): NewFile {
    const file = this.#create(name);
    return {
      append: async (bytes) => {
        if (this.isSlow) await new Promise((resolve) => setImmediate(resolve));
        this.#write(file, bytes, file.bytes.length);
      },
      finish: async () => this.#sync(file),
      abandon: () => void this.#files.delete(name),
    };
  }

  async createLog(name: string, head: Buffer): Promise<LogFile> {
    const file = this.#create(name);
    this.#write(file, head, 0);
    this.#sync(file);
    return {
      write: (bytes, offset, done) => {
        const copy = Buffer.from(bytes);
        queueMicrotask(() => {
          try {
            this.#write(file, copy, offset);
            this.#sync(file, offset, copy.length);
          } catch (error) {
            return done(error as Error);
          }
          done(null);
        });
      },
      note: (bytes, offset) => this.#write(file, bytes, offset),
      close() {},
    };
  }

  async replace(name: string, bytes: Buffer): Promise<void> {
    const draft = this.#create(`${name}.new`);
    this.#write(draft, bytes, 0);
    this.#sync(draft);
    this.#files.delete(`${name}.new`);
    const before = this.#files.get(name);
    this.#files.set(name, { bytes: draft.bytes, synced: before?.synced, isRenamed: true });
    this.onSync();
    this.#files.set(name, draft);
    this.onSync();
  }

  remove(name: string): void {
    const file = this.#files.get(name);
    if (file?.synced) this.#removed.set(name, file.synced);
    this.#files.delete(name);
  }

  /** The disk as it is now, when only the process dies. */
  copy(): SimulatedDisk {
    return SimulatedDisk.#from([...this.#files].map(([name, { bytes }]) => [name, bytes]));
  }

  /** A disk as a power cut now may leave it. */
  afterPowerCut(random: () => number): SimulatedDisk {
    const files: [string, Buffer][] = [];
    for (const [name, synced] of this.#removed)
      if (random() < 0.5 && !this.#files.has(name)) files.push([name, synced]);
    for (const [name, { bytes, synced, isRenamed }] of this.#files) {
      // A name that was not synced may be there, with any part of its content.
      if (synced === undefined && random() < 0.5) continue;
      if (isRenamed) files.push([name, synced && random() < 0.5 ? synced : bytes]);
      else files.push([name, torn(synced ?? Buffer.alloc(0), bytes, random)]);
    }
    return SimulatedDisk.#from(files);
  }

  /** Replaces the content of a file, as damage does. */
  damage(name: string, bytes: Buffer | undefined): void {
    if (bytes) this.#files.set(name, { bytes, synced: bytes });
    else this.#files.delete(name);
  }

  static #from(files: readonly (readonly [string, Buffer])[]): SimulatedDisk {
    const disk = new SimulatedDisk();
    for (const [name, bytes] of files) disk.#files.set(name, { bytes: Buffer.from(bytes), synced: Buffer.from(bytes) });
    return disk;
  }

  #find(name: string): SimulatedFile {
    const file = this.#files.get(name);
    if (!file) throw Object.assign(new Error(`no such file: ${name}`), { code: 'ENOENT' });
    return file;
  }

  #create(name: string): SimulatedFile {
    const file: SimulatedFile = { bytes: Buffer.alloc(0), synced: undefined };
    this.#files.set(name, file);
    return file;
  }

  #write(file: SimulatedFile, bytes: Buffer, offset: number): void {
    const end = offset + bytes.length;
    const used = [...this.#files.values()].reduce((sum, other) => sum + other.bytes.length, 0);
    if (used + Math.max(0, end - file.bytes.length) > this.capacity) {
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    }
    const grown = Buffer.alloc(Math.max(end, file.bytes.length));
    file.bytes.copy(grown);
    bytes.copy(grown, offset);
    file.bytes = grown;
  }

  /** All of a file, or the sectors of a range and everything that was synced before. */
  #sync(file: SimulatedFile, offset = 0, length = file.bytes.length): void {
    this.onSync();
    const before = file.synced ?? Buffer.alloc(0);
    const synced = Buffer.alloc(Math.max(before.length, offset + length));
    before.copy(synced);
    file.bytes.copy(synced, offset, offset, offset + length);
    file.synced = synced;
    this.onSync();
  }
}

function torn(synced: Buffer, bytes: Buffer, random: () => number): Buffer {
  const grown = bytes.length - synced.length;
  const length = synced.length + (grown > 0 ? Math.floor(random() * (grown + 1)) : 0);
  const result = Buffer.alloc(length);
  for (let place = 0; place < length; place += SECTOR) {
    const source = random() < 0.5 ? bytes : synced;
    source.subarray(place, Math.min(place + SECTOR, length)).copy(result, place);
  }
  return result;
}
