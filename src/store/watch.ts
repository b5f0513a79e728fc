import type { Connection } from './connection.js';
import { checkLog, type Found, linkLog, unlinkLog } from './examine.js';
import { storeDamaged, storeFailed } from './faults.js';
import type { StoreFiles } from './files.js';
import { Mark } from './mark.js';
import { scanWal, WalFollower } from './wal.js';

/** Pages checked in one step, which takes a few milliseconds. */
const PAGES_PER_STEP = 256;
/** Frames after which SQLite runs a checkpoint when there is no mark. */
const UNWATCHED_FRAMES = 1_000;

/**
 * Detects damaged files: records the expected content in the mark after each commit and checkpoint, and checks the pages
 * that were not checked at the start. Where the mark cannot be written, it is removed.
 */
export class Watch {
  readonly #files: StoreFiles;
  readonly #connection: Connection;
  readonly #log: WalFollower;
  #mark: Mark | undefined;
  /** The next page to check; undefined when all are checked. */
  #next: number | undefined;

  /** To be created when SQLite has opened the log, before anything is acknowledged. */
  constructor(files: StoreFiles, connection: Connection, found: Found) {
    this.#files = files;
    this.#connection = connection;
    // Scanned again: creating the tables was a commit.
    this.#log = new WalFollower(files.wal, scanWal(files.wal));
    this.#next = found.unchecked;
    this.#mark = found.mark ?? Mark.create(files.mark);
    this.#note((mark) => {
      linkLog(files);
      this.#markPosition(mark);
    });
  }

  get isMarked(): boolean {
    return this.#mark !== undefined;
  }

  get frames(): number {
    return this.#log.pages.size === 0 ? 0 : (this.#log.position?.frames ?? 0);
  }

  /** Never fails: committed data stays committed. */
  committed(): void {
    this.#note((mark) => {
      // Without a change, the mark must not require a log that may be reset.
      if (this.#log.advance()) this.#markPosition(mark);
    });
  }

  /** To be called when a transaction could not be committed. */
  failed(): void {
    this.#log.suspect();
  }

  /** Moves the log's pages into the database; false when some could not be moved. */
  checkpoint(): boolean {
    const [[busy, frames, moved]] = this.#connection.all('PRAGMA wal_checkpoint(PASSIVE)') as [
      [number, number, number],
    ];
    if (busy !== 0 || moved < frames) return false;
    this.#note((mark) => {
      const { position, pages } = this.#log;
      if (Math.max(0, frames) !== (position?.frames ?? 0)) throw storeFailed('the log is not as long as it should be');
      for (const [page, frame] of pages) mark.sums.set(page, this.#log.read(frame));
      mark.checkpointed(position);
    });
    this.#log.forgetPages();
    return true;
  }

  checkSome(): boolean {
    if (this.#next === undefined || !this.#mark) return false;
    const first = this.#next;
    const last = Math.min(first + PAGES_PER_STEP - 1, this.#mark.sums.last);
    const [damage] = this.#findDamage(this.#mark, first, last);
    if (damage !== undefined) throw this.#damaged(damage);
    this.#next = last < this.#mark.sums.last ? last + 1 : undefined;
    return this.#next !== undefined;
  }

  /** Checks all pages and the log. */
  *checkAll(): Iterable<Error> {
    if (!this.#mark) return;
    for (let page = 1; page <= this.#mark.sums.last; page += PAGES_PER_STEP) {
      const last = Math.min(page + PAGES_PER_STEP - 1, this.#mark.sums.last);
      for (const damaged of this.#findDamage(this.#mark, page, last)) yield this.#damaged(damaged);
    }
    try {
      checkLog(this.#files.wal, scanWal(this.#files.wal, this.#mark.state.position?.frames), this.#mark);
    } catch (error) {
      yield error as Error;
    }
  }

  /** To be called when the database has everything. */
  complete(): void {
    unlinkLog(this.#files);
  }

  close(): void {
    this.#log.close();
    this.#mark?.close();
  }

  #markPosition(mark: Mark): void {
    const { position } = this.#log;
    if (position && position.frames > 0) mark.committed(position);
  }

  /** Reads through SQLite: opening and closing its file here would release its lock. */
  #findDamage({ sums }: Mark, first: number, last: number): number[] {
    const damaged: number[] = [];
    const there = this.#connection.all('SELECT pgno, data FROM sqlite_dbpage WHERE pgno BETWEEN ? AND ?', [
      first,
      last,
    ]);
    const pages = new Map(there as [number, Buffer][]);
    for (let page = first; page <= last; page++) {
      if (this.#log.pages.has(page)) continue;
      if (!sums.check(page, pages.get(page) ?? Buffer.alloc(0))) damaged.push(page);
    }
    return damaged;
  }

  #damaged(page: number): Error {
    const table = this.#ownerOf(page);
    const what = `page ${page}${table === undefined ? '' : ` of ${table}`} has a wrong checksum`;
    return storeDamaged(this.#files.database, what, { page, table });
  }

  /** The table or index that a page belongs to, if the file is intact enough to tell. */
  #ownerOf(page: number): string | undefined {
    try {
      const [found] = this.#connection.all('SELECT CAST(name AS blob) FROM dbstat WHERE pageno = ?', [page]);
      return found && String(found[0]);
    } catch {
      return undefined;
    }
  }

  /** A mark that is not updated would cause false alarms: it is removed, and SQLite runs checkpoints automatically. */
  #note(task: (mark: Mark) => void): void {
    if (!this.#mark) return;
    try {
      task(this.#mark);
    } catch {
      const mark = this.#mark;
      this.#mark = undefined;
      try {
        this.#connection.exec(`PRAGMA wal_autocheckpoint = ${UNWATCHED_FRAMES}`);
        mark.remove();
      } catch {
        // The disk is failing; a false alarm does no further harm.
      }
    }
  }
}
