import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Records that are kept for reuse. */
const MAX_SPARE = 16;
/** All records have the same length, so that one replaces another completely. */
const RECORD_CHARS = 64;

/**
 * The files of one folder, one for each running child, named after its process group. A file system may take longer to
 * create a file than it takes to start a small program, so the file of a child that is gone becomes that of another; until
 * then its name begins with a dot, and neither the guard nor the sweep takes it for a group.
 */
export class ChildRecords {
  readonly #folder: string;
  readonly #spare: string[] = [];
  #made = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Spaces follow the record. */
  write(pid: number, record: string): void {
    const path = this.#at(String(pid));
    const text = record.padEnd(RECORD_CHARS);
    const spare = this.#spare.pop();
    if (spare === undefined) {
      writeFileSync(path, text, { mode: 0o600 });
      return;
    }
    // Without truncation, which some file systems answer with a flush.
    writeFileSync(spare, text, { flag: 'r+' });
    renameSync(spare, path);
  }

  remove(pid: number): void {
    const path = this.#at(String(pid));
    if (this.#spare.length >= MAX_SPARE) {
      rmSync(path, { force: true });
      return;
    }
    const spare = this.#at(`.spare-${++this.#made}`);
    renameSync(path, spare);
    this.#spare.push(spare);
  }

  #at(name: string): string {
    return join(this.#folder, name);
  }
}
