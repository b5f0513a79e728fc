import { createHash } from 'node:crypto';
import { appendFileSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeError, EclipticError } from '../runtime/errors.js';
import { usage } from './output.js';

/** The files that reports wrote into a folder, in the format of `sha256sum`. */
const MANIFEST = '.ecliptic-report';

/**
 * A folder of results and a report. It overwrites and removes only files that an earlier report wrote and that have not been
 * changed since.
 */
export class ReportFolder {
  readonly path: string;
  /** Hashes of the contents that were written, by name. Several, because a write may have been interrupted. */
  readonly #written = new Map<string, Set<string>>();

  constructor(path: string) {
    this.path = path;
    try {
      mkdirSync(path, { recursive: true });
      for (const line of this.#manifest()) {
        const [, hash, name] = /^([0-9a-f]{64}) {2}([^/\\]+)$/.exec(line) ?? [];
        if (hash !== undefined && name !== undefined) this.#remember(name, hash);
      }
    } catch (error) {
      throw unusable(path, error);
    }
  }

  /** Refuses if a file with one of these names is in the way. */
  assertFree(names: Iterable<string>): void {
    for (const name of names) {
      if (this.#isFree(name)) continue;
      const file = join(this.path, name);
      throw new EclipticError(
        'USAGE',
        `${file} exists, and is not of an earlier report; move it, or use another folder`,
        {
          file,
        },
      );
    }
  }

  /** Writes a file of the report. A crash leaves the old content or the new one. */
  write(name: string, content: string | Buffer): void {
    this.assertFree([name]);
    const file = join(this.path, name);
    const hash = createHash('sha256').update(content).digest('hex');
    try {
      if (!this.#written.get(name)?.has(hash)) appendFileSync(join(this.path, MANIFEST), `${hash}  ${name}\n`);
      this.#remember(name, hash);
      const draft = join(this.path, `${MANIFEST}.new`);
      rmSync(draft, { force: true });
      writeFileSync(draft, content, { flag: 'wx' });
      renameSync(draft, file);
    } catch (error) {
      throw unusable(file, error);
    }
  }

  /** Removes the files of earlier reports, except these. */
  removeAllBut(names: ReadonlySet<string>): void {
    for (const name of this.#written.keys()) {
      if (names.has(name) || !this.#isFree(name)) continue;
      try {
        rmSync(join(this.path, name), { force: true });
      } catch (error) {
        throw unusable(join(this.path, name), error);
      }
    }
  }

  #isFree(name: string): boolean {
    const file = join(this.path, name);
    const found = lstatSync(file, { throwIfNoEntry: false });
    if (!found) return true;
    const known = this.#written.get(name);
    if (!found.isFile() || !known) return false;
    return known.has(createHash('sha256').update(readFileSync(file)).digest('hex'));
  }

  #manifest(): string[] {
    const file = join(this.path, MANIFEST);
    const found = lstatSync(file, { throwIfNoEntry: false });
    // A link would lead out of the folder.
    if (found && !found.isFile()) throw usage(`${file} is no file`);
    return found ? readFileSync(file, 'utf8').split('\n') : [];
  }

  #remember(name: string, hash: string): void {
    const known = this.#written.get(name);
    if (known) known.add(hash);
    else this.#written.set(name, new Set([hash]));
  }
}

function unusable(path: string, error: unknown): EclipticError {
  return usage(`cannot write ${path}: ${describeError(error)}`);
}
