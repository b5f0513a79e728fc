import type { Connection } from './connection.js';
import { checkLog, type Found, linkLog, unlinkLog } from './examine.js';
import { storeDamaged, storeFailed } from './faults.js';
import type { StoreFiles } from './files.js';
import { Mark } from './mark.js';
import { scanWal, WalFollower } from './wal.js';

/** So many pages are checked at once, in a few milliseconds. */
const PAGES_PER_STEP = 256;
/** How long SQLite lets the log grow when nobody watches. */
const UNWATCHED_FRAMES = 1_000;

/**
 * Keeps watch over what is on disk: after each commit and each checkpoint it notes what must be there, and it checks
 * the pages that were left unchecked when the store was opened. Where it cannot keep its notes, there are none.
 */
export class Watch {
  readonly #files: StoreFiles;
  readonly #connection: Connection;
  readonly #log: WalFollower;
  #mark: Mark | undefined;
  /** The next page to check; nothing when all were. */
  #next: number | undefined;

  /** To be made when SQLite has opened the log, and before anything is acknowledged. */
  constructor(files: StoreFiles, connection: Connection, found: Found) {
    this.#files = files;
    this.#connection = connection;
    // Once more, for making the tables was a commit too.
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

  /** How long the log is, in frames. */
  get frames(): number {
    return this.#log.pages.size === 0 ? 0 : (this.#log.position?.frames ?? 0);
  }

  /** Never fails: what was committed stays committed. */
  committed(): void {
    this.#note((mark) => {
      // Without a change, the log may rightly be of no more use to anybody: it must not be asked for again.
      if (this.#log.advance()) this.#markPosition(mark);
    });
  }

  /** To be called when a transaction could not be committed. */
  failed(): void {
    this.#log.suspect();
  }

  /** Moves the log's pages into the database; false when that did not work for all. */
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

  /** Checks some more pages of the database; false when there are no more. STORE_DAMAGED when one is not as it was. */
  checkSome(): boolean {
    if (this.#next === undefined || !this.#mark) return false;
    const first = this.#next;
    const last = Math.min(first + PAGES_PER_STEP - 1, this.#mark.sums.last);
    const [damage] = this.#findDamage(this.#mark, first, last);
    if (damage !== undefined) throw this.#damaged(damage);
    this.#next = last < this.#mark.sums.last ? last + 1 : undefined;
    return this.#next !== undefined;
  }

  /** Checks everything that there are notes of; what is wrong with each page, and with the log. */
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

  /** To be called when everything is in the database. */
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

  /** Through SQLite, for opening and closing its file ourselves would take its lock away. */
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
    const what = `page ${page}${table === undefined ? '' : ` of ${table}`} is not what was written`;
    return storeDamaged(this.#files.database, what, { page, table });
  }

  /** The table or index that a page belongs to, if the file is whole enough to tell. */
  #ownerOf(page: number): string | undefined {
    try {
      const [found] = this.#connection.all('SELECT CAST(name AS blob) FROM dbstat WHERE pageno = ?', [page]);
      return found && String(found[0]);
    } catch {
      return undefined;
    }
  }

  /** A mark that is not kept up would raise false alarms later: rather none, and SQLite sees to the log by itself. */
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
        // Then the disk is beyond help, and a false alarm the least of it.
      }
    }
  }
}
