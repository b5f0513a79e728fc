import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';

/** Replaces a file atomically, readable by its owner only: a crash leaves the old version or the new one. */
export function writePrivately(file: string, text: string): void {
  const draft = draftOf(file);
  rmSync(draft, { force: true });
  writeDraft(draft, text);
  renameSync(draft, file);
  syncFolder(dirname(file));
}

/**
 * Creates a file atomically, readable by its owner only; false where the file exists. Of several processes that try at
 * once, each with a `token` of its own, one succeeds.
 */
export function createPrivately(file: string, text: string, token: string): boolean {
  const draft = `${file}.${token}.new`;
  try {
    writeDraft(draft, text);
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  syncFolder(dirname(file));
  return true;
}

/** Removes a file and the draft that an interrupted write may have left. */
export function removePrivately(file: string): void {
  rmSync(draftOf(file), { force: true });
  rmSync(file, { force: true });
}

/** One value in a private JSON file, replaced atomically. */
export class JsonFile<T> {
  readonly #file: string;
  readonly #schema: z.ZodType<T>;

  constructor(file: string, schema: z.ZodType<T>) {
    this.#file = file;
    this.#schema = schema;
  }

  /** Undefined when the file does not exist. A file that does not parse is refused, never treated as absent. */
  load(): T | undefined {
    if (!existsSync(this.#file)) return undefined;
    try {
      return this.#schema.parse(JSON.parse(readFileSync(this.#file, 'utf8')));
    } catch (error) {
      const message = `${this.#file} is damaged; restore it, or remove it to start empty`;
      throw new EclipticError('DATA_FOLDER', message, { file: this.#file, reason: describeError(error) }, error);
    }
  }

  save(value: T): void {
    try {
      writePrivately(this.#file, `${JSON.stringify(value)}\n`);
    } catch (error) {
      throw new EclipticError('DATA_FOLDER', `cannot write ${this.#file}: ${describeError(error)}`, {}, error);
    }
  }
}

/** Opens a file (created for its owner only) for the duration of `use`. */
export function withFile<Result>(path: string, flags: string, use: (handle: number) => Result): Result {
  const handle = openSync(path, flags, 0o600);
  try {
    return use(handle);
  } finally {
    closeSync(handle);
  }
}

/** Makes the names in a folder survive a power cut. Windows cannot open folders and does not need this. */
export function syncFolder(folder: string): void {
  if (process.platform !== 'win32') withFile(folder, 'r', (handle) => fsyncSync(handle));
}

/** Tells a file from its copies, as far as the file system can; undefined where there is no such file. */
export function placeOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.birthtimeMs}`;
}

function writeDraft(draft: string, text: string): void {
  withFile(draft, 'wx', (handle) => {
    writeFileSync(handle, text);
    fsyncSync(handle);
  });
}

function draftOf(file: string): string {
  return `${file}.new`;
}
