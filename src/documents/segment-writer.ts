import { type EclipticError, toEclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Segment } from './segment.js';
import type { SegmentRecords } from './segment-records.js';

/** A failing disk is tried again this often. */
const RETRY_MS = 1_000;
/** Segments that are stored in one call. */
const MAX_TOGETHER = 256;

/** A segment that is added, or another change of the records. */
type Change = Segment | ((records: SegmentRecords) => Promise<void>);

interface SegmentWriterComponents {
  readonly runtime: Runtime;
  readonly records: SegmentRecords;
  readonly thread: string;
  readonly agentId: string;
  /** Called once for each time in which the store fails. */
  readonly onFailed: (error: EclipticError) => void;
  /** Called when a segment is on disk. */
  readonly onStored: (segment: Segment) => void;
}

/**
 * Stores a replica's segments in the order in which they were made or applied. While the store fails, they wait and are
 * tried again: no replica could apply what follows a segment that is left out.
 */
export class SegmentWriter {
  readonly #components: SegmentWriterComponents;
  readonly #waiting = new Fifo<Change>();
  #added = 0;
  #stored = 0;
  #waiters: { readonly upTo: number; readonly resolve: () => void; readonly reject: (error: EclipticError) => void }[] =
    [];
  #isWriting = false;
  #failure: EclipticError | undefined;
  #retry: Timer | undefined;
  #isClosed = false;

  constructor(components: SegmentWriterComponents) {
    this.#components = components;
  }

  /** Is something not on disk yet? */
  get isBusy(): boolean {
    return this.#waiting.length > 0;
  }

  /** Did the latest attempt fail? */
  get isFailing(): boolean {
    return this.#failure !== undefined;
  }

  add(change: Change): void {
    this.#waiting.push(change);
    this.#added++;
    if (!this.#failure) void this.#write();
  }

  /** Resolves when everything that was added is on disk; rejects if the next attempt fails. */
  written(): Promise<void> {
    if (this.#stored === this.#added) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waiters.push({ upTo: this.#added, resolve, reject });
      void this.#write();
    });
  }

  /** What still waits is lost. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
  }

  async #write(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    this.#retry?.cancel();
    while (this.#waiting.length > 0) {
      const group = this.#nextGroup();
      try {
        await this.#store(group);
      } catch (error) {
        this.#isWriting = false;
        this.#failed(toEclipticError(error, 'STORE_FAILED'));
        return;
      }
      this.#failure = undefined;
      this.#written(group);
    }
    this.#isWriting = false;
  }

  /** The segments at the front, or the other change there. After a failure a single one, for which there may be room. */
  #nextGroup(): Change[] {
    const group: Change[] = [this.#waiting.peek()!];
    const most = this.#failure || typeof group[0] === 'function' ? 1 : MAX_TOGETHER;
    while (group.length < most) {
      const next = this.#waiting.at(group.length);
      if (next === undefined || typeof next === 'function') break;
      group.push(next);
    }
    return group;
  }

  #store(group: readonly Change[]): Promise<void> {
    const { records, thread, agentId } = this.#components;
    const [first] = group;
    return typeof first === 'function' ? first(records) : records.keep(thread, agentId, group as readonly Segment[]);
  }

  #written(group: readonly Change[]): void {
    for (const change of group) {
      this.#waiting.shift();
      this.#stored++;
      if (typeof change !== 'function') this.#components.onStored(change);
    }
    const due = this.#waiters.filter(({ upTo }) => upTo <= this.#stored);
    if (due.length === 0) return;
    this.#waiters = this.#waiters.filter(({ upTo }) => upTo > this.#stored);
    for (const { resolve } of due) resolve();
  }

  #failed(error: EclipticError): void {
    if (!this.#failure) this.#components.onFailed(error);
    this.#failure = error;
    for (const { reject } of this.#waiters.splice(0)) reject(error);
    if (!this.#isClosed) this.#retry = this.#components.runtime.setTimer(() => void this.#write(), RETRY_MS);
  }
}
