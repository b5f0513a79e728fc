import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Runtime } from '../../runtime/runtime.js';

/** Of a repository's data, what git reads and writes where it is. Settings and hooks are not among it. */
const LINKED = ['HEAD', 'info', 'logs', 'objects', 'refs', 'reftable', 'shallow', 'worktrees'];
/** Git makes this file through the link where there is none. */
const MADE = 'packed-refs';

/** A folder that git takes for that of a repository, with settings that nothing outside this process can change. */
export interface PinnedRepository {
  readonly folder: string;
  release(): void;
}

/**
 * A repository's settings can change between the moment in which they are checked and the one in which git reads them. So
 * each command of git has settings of its own, in a folder that only the node can write.
 */
export class PinnedRepositories {
  readonly #runtime: Runtime;
  readonly #folder: string;
  #isOpen = false;

  /** The folder loses what it has. */
  constructor(runtime: Runtime, folder: string) {
    this.#runtime = runtime;
    this.#folder = folder;
  }

  pin(commonDir: string, settings: string): PinnedRepository {
    this.#open();
    const folder = join(this.#folder, this.#runtime.id());
    mkdirSync(folder, { mode: 0o700 });
    const release = () => rmSync(folder, { recursive: true, force: true });
    try {
      writeFileSync(join(folder, 'config'), settings, { mode: 0o600 });
      for (const name of LINKED) {
        const path = join(commonDir, name);
        if (existsSync(path)) symlinkSync(path, join(folder, name));
      }
      symlinkSync(join(commonDir, MADE), join(folder, MADE));
      return { folder, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #open(): void {
    if (this.#isOpen) return;
    // What a killed node left behind.
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#isOpen = true;
  }
}
