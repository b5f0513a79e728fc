import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  write,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { syncFolder } from './private-file.js';

/** A file of which any part can be read. */
export interface ReadableFile {
  readonly path: string;
  readonly size: number;
  /** Fewer bytes where the file ends before. */
  readAt(offset: number, length: number): Buffer;
  close(): void;
}

/** A file that is being written. */
export interface NewFile {
  append(bytes: Buffer): Promise<void>;
  /** Resolves when the file and its name are on disk. */
  finish(): Promise<void>;
  /** Gives up: the file is removed. */
  abandon(): void;
}

export interface LogFile {
  /** Calls back when the bytes are on disk. */
  write(bytes: Buffer, offset: number, done: (error: Error | null) => void): void;
  /** Writes without waiting for the disk: after a power cut the bytes may be lost, or be there in part. */
  note(bytes: Buffer, offset: number): void;
  close(): void;
}

/** The folder of a store. */
export interface Disk {
  /** For messages. */
  pathOf(name: string): string;
  list(): string[];
  read(name: string): Buffer;
  open(name: string): ReadableFile;
  create(name: string): NewFile;
  /** Resolves when the log is on disk with these first bytes. */
  createLog(name: string, head: Buffer): Promise<LogFile>;
  /** Replaces a file atomically, and resolves when that is on disk. */
  replace(name: string, bytes: Buffer): Promise<void>;
  remove(name: string): void;
}

const writeFully = promisify(writeAll);
const sync = promisify(fsync);

/** The disk of this machine. Files are readable by their owner only. */
export class FolderDisk implements Disk {
  readonly #folder: string;

  constructor(folder: string) {
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    this.#folder = folder;
  }

  pathOf(name: string): string {
    return join(this.#folder, name);
  }

  list(): string[] {
    return readdirSync(this.#folder);
  }

  read(name: string): Buffer {
    return readFileSync(this.pathOf(name));
  }

  open(name: string): ReadableFile {
    const path = this.pathOf(name);
    const handle = openSync(path, 'r');
    return {
      path,
      size: fstatSync(handle).size,
      readAt: (offset, length) => readAt(handle, offset, length),
      close: () => closeSync(handle),
    };
  }

  create(name: string): NewFile {
    const handle = openSync(this.pathOf(name), 'w', 0o600);
    let offset = 0;
    let isOpen = true;
    const close = () => {
      if (isOpen) closeSync(handle);
      isOpen = false;
    };
    return {
      append: async (bytes) => {
        await writeFully(handle, bytes, offset);
        offset += bytes.length;
      },
      finish: async () => {
        await sync(handle);
        close();
        syncFolder(this.#folder);
      },
      abandon: () => {
        close();
        this.remove(name);
      },
    };
  }

  async createLog(name: string, head: Buffer): Promise<LogFile> {
    const path = this.pathOf(name);
    // Each write returns when its bytes are on disk: one call where writing and syncing would be two.
    const handle = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | SYNCED, 0o600);
    const unsynced = openSync(path, 'r+');
    const close = () => {
      closeSync(handle);
      closeSync(unsynced);
    };
    const log: LogFile = {
      write: SYNCED === 0 ? writeAndSync(handle) : (bytes, offset, done) => writeAll(handle, bytes, offset, done),
      note: (bytes, offset) => void writeSync(unsynced, bytes, 0, bytes.length, offset),
      close,
    };
    try {
      await promisify(log.write)(head, 0);
      syncFolder(this.#folder);
    } catch (error) {
      close();
      this.remove(name);
      throw error;
    }
    return log;
  }

  async replace(name: string, bytes: Buffer): Promise<void> {
    const draft = `${name}.new`;
    const file = this.create(draft);
    try {
      await file.append(bytes);
      await file.finish();
    } catch (error) {
      file.abandon();
      throw error;
    }
    renameSync(this.pathOf(draft), this.pathOf(name));
    syncFolder(this.#folder);
  }

  remove(name: string): void {
    rmSync(this.pathOf(name), { force: true });
  }
}

/** Not on Windows. */
const SYNCED = constants.O_DSYNC ?? 0;

function writeAndSync(handle: number): LogFile['write'] {
  return (bytes, offset, done) =>
    writeAll(handle, bytes, offset, (error) => (error ? done(error) : fsync(handle, done)));
}

/** A write may take a part only; the rest follows. */
function writeAll(handle: number, bytes: Buffer, offset: number, done: (error: Error | null) => void): void {
  write(handle, bytes, 0, bytes.length, offset, (error, count) => {
    if (error || count === bytes.length) done(error);
    else writeAll(handle, bytes.subarray(count), offset + count, done);
  });
}

function readAt(handle: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  let done = 0;
  while (done < length) {
    const count = readSync(handle, bytes, done, length - done, offset + done);
    if (count === 0) break;
    done += count;
  }
  return bytes.subarray(0, done);
}
