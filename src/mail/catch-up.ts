import { backoffMs } from '../runtime/backoff.js';

/** An entry of a numbered table. Numbers only grow. */
interface Numbered {
  readonly number: number;
}

export interface CatchUpInit<T> {
  /** Reads the next page of entries above a number, in order. An empty page means that none are left. */
  read: (above: number) => Promise<readonly T[]>;
  /** Receives every entry exactly once, in order. */
  take: (entry: T) => void;
  /** May the next page be read? Pages are taken whole. */
  hasRoom?: () => boolean;
  /** Does a new entry have to wait on disk? By default when there is no room for a page. */
  isFull?: () => boolean;
  /** Called when a read that `resume` started fails. The entries stay on disk; `resume` tries again. */
  onFailure: (error: unknown) => void;
  /** Entries up to this number are not wanted. */
  above?: number;
}

/**
 * A queue over a table: takes entries from disk until it has caught up, then from memory as they are written. When it is
 * full, new entries wait on disk until there is room again. An entry never overtakes another.
 */
export class CatchUp<T extends Numbered> {
  readonly #init: CatchUpInit<T>;
  #taken: number;
  #behind = true;
  /** Was an entry written during the current read? */
  #more = false;
  #reading: Promise<void> | undefined;
  #closed = false;

  constructor(init: CatchUpInit<T>) {
    this.#init = init;
    this.#taken = init.above ?? 0;
  }

  /** May there be entries on disk that were not taken? */
  get behind(): boolean {
    return this.#behind;
  }

  /** Offers an entry that was just written. Returns true if it was taken; otherwise `resume` reads it from disk. */
  offer(entry: T): boolean {
    if (entry.number <= this.#taken) return false;
    if (!this.#behind && !this.#isFull()) {
      this.#accept(entry);
      return true;
    }
    this.#behind = true;
    this.#more = true;
    return false;
  }

  /** Reads from disk while entries wait there and there is room for them. */
  resume(): void {
    if (this.#reading || !this.#canRead()) return;
    this.load().catch(this.#init.onFailure);
  }

  /** As `resume`; resolves when nothing more can be read for now, and rejects if a read fails. */
  load(): Promise<void> {
    if (!this.#reading && this.#canRead()) this.#reading = this.#readPages();
    return this.#reading ?? Promise.resolve();
  }

  /** Takes nothing more, not even a page that is being read. */
  close(): void {
    this.#closed = true;
  }

  async #readPages(): Promise<void> {
    try {
      while (this.#canRead()) {
        this.#more = false;
        const page = await this.#init.read(this.#taken);
        if (this.#closed) return;
        if (page.length === 0) this.#behind = this.#more;
        for (const entry of page) this.#accept(entry);
      }
    } finally {
      this.#reading = undefined;
    }
  }

  #accept(entry: T): void {
    this.#taken = entry.number;
    this.#init.take(entry);
  }

  #canRead(): boolean {
    return this.#behind && !this.#closed && this.#init.hasRoom?.() !== false;
  }

  #isFull(): boolean {
    const { isFull, hasRoom } = this.#init;
    return isFull ? isFull() : hasRoom?.() === false;
  }
}

const FIRST_RESEND_MS = 5_000;
const LONGEST_RESEND_MS = 60_000;

/** How long to wait for an acknowledgement before sending everything again: doubles until one arrives. */
export class ResendBackoff {
  #since: number | undefined;
  #resends = 0;

  acknowledged(now: number): void {
    this.#since = now;
    this.#resends = 0;
  }

  /** Is a resend due? To be asked regularly, with whether anything is unacknowledged. */
  isDue(now: number, waiting: boolean): boolean {
    if (!waiting) this.#since = undefined;
    else this.#since ??= now;
    if (this.#since === undefined || now - this.#since < backoffMs(this.#resends, FIRST_RESEND_MS, LONGEST_RESEND_MS)) {
      return false;
    }
    this.#since = now;
    this.#resends++;
    return true;
  }
}
