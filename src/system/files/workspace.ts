import { constants, realpathSync } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { lineDiff } from '../../runtime/line-diff.js';

/** What fits into a message. */
const MAX_FILE_BYTES = 8 * 1_048_576;

/** Folders that hold no work of people. */
const SKIPPED: ReadonlySet<string> = new Set(['.git', 'node_modules']);

export interface FileList {
  /** Paths within the workspace; a folder ends with a slash. */
  readonly paths: readonly string[];
  /** There are more than the limit allowed. */
  readonly isCut: boolean;
}

/** The folder that an agent works in. Nothing outside is read or written, whatever links lead there. */
export class Workspace {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = realpathSync(folder);
  }

  /** The real path, links followed. Refused where that is outside the folder. */
  async locate(path: string): Promise<string> {
    const real = await realPathOf(resolve(this.folder, path));
    if (this.#holds(real)) return real;
    throw new EclipticError('PROVIDER_POLICY_DENIED', `${path} is outside ${this.folder}`, { path });
  }

  shown(path: string): string {
    return relative(this.folder, path) || '.';
  }

  /** The text of a file, or `limit` lines from `line` on; the first line is 1. */
  async read(path: string, line?: number | null, limit?: number | null): Promise<string> {
    const text = await this.#open(path, constants.O_RDONLY, async (file) => {
      const { size } = await file.stat();
      if (size > MAX_FILE_BYTES) {
        throw new EclipticError('PAYLOAD_TOO_LARGE', `${path} has ${size} bytes, more than ${MAX_FILE_BYTES}`, {
          path,
        });
      }
      return file.readFile('utf8');
    });
    if (line == null && limit == null) return text;
    const from = Math.max(0, (line ?? 1) - 1);
    return text
      .split('\n')
      .slice(from, limit == null ? undefined : from + limit)
      .join('\n');
  }

  /** What writing a file would change, as lines; a file that cannot be read counts as empty. */
  async difference(path: string, content: string): Promise<string[]> {
    return lineDiff(await this.read(path).catch(() => ''), content);
  }

  /** Files and folders below a folder, `depth` levels deep, in order of their names. Links are listed, not followed. */
  async list(path: string, { depth, most }: { depth: number; most: number }): Promise<FileList> {
    const paths: string[] = [];
    const visit = async (folder: string, level: number): Promise<boolean> => {
      const entries = await readdir(folder, { withFileTypes: true }).catch((error) => {
        throw new EclipticError('RESOURCE_NOT_FOUND', `${path} cannot be listed: ${error.code}`, { path }, error);
      });
      for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        if (entry.isDirectory() && SKIPPED.has(entry.name)) continue;
        if (paths.length >= most) return false;
        const full = join(folder, entry.name);
        paths.push(entry.isDirectory() ? `${this.shown(full)}/` : this.shown(full));
        if (entry.isDirectory() && level < depth && !(await visit(full, level + 1))) return false;
      }
      return true;
    };
    return { isCut: !(await visit(await this.locate(path), 1)), paths };
  }

  async write(path: string, content: string): Promise<void> {
    if (Buffer.byteLength(content) > MAX_FILE_BYTES) {
      throw new EclipticError('PAYLOAD_TOO_LARGE', `more than ${MAX_FILE_BYTES} bytes for ${path}`, { path });
    }
    await mkdir(dirname(await this.locate(path)), { recursive: true });
    await this.#open(path, constants.O_WRONLY | constants.O_CREAT, async (file) => {
      await file.truncate(0);
      await file.writeFile(content);
    });
  }

  /** Opens a file for reading while `work` lasts. */
  use<T>(path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
    return this.#open(path, constants.O_RDONLY, work);
  }

  /** Checks the path again after opening: a link may have been put there meanwhile. */
  async #open<T>(path: string, flags: number, work: (file: FileHandle) => Promise<T>): Promise<T> {
    const real = await this.locate(path);
    // Opening a pipe must not block.
    const file = await open(real, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600).catch((error) => {
      throw new EclipticError('RESOURCE_NOT_FOUND', `${path} cannot be opened: ${error.code}`, { path }, error);
    });
    try {
      const opened = process.platform === 'linux' ? await readlink(`/proc/self/fd/${file.fd}`) : real;
      if (!this.#holds(opened) || !(await file.stat()).isFile()) {
        throw new EclipticError('PROVIDER_POLICY_DENIED', `${path} is no file in ${this.folder}`, { path });
      }
      return await work(file);
    } finally {
      await file.close();
    }
  }

  #holds(real: string): boolean {
    return real === this.folder || real.startsWith(this.folder.endsWith(sep) ? this.folder : this.folder + sep);
  }
}

/** The real path; of a path that does not exist yet, the path that writing would create. */
async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path) {
      throw new EclipticError('RESOURCE_NOT_FOUND', `${path} cannot be used: ${code}`, { path }, error);
    }
    // Writing to a dangling link would create its target.
    const target = await readlink(path).catch(() => undefined);
    if (target !== undefined) return realPathOf(resolve(above, target));
    return join(await realPathOf(above), basename(path));
  }
}
