import { join } from 'node:path';
import type { EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { ProcessLock } from '../system/files/process-lock.js';
import type { ByteWriter } from './bytes.js';
import type { Database } from './database.js';
import { type Disk, FolderDisk } from './disk.js';
import { storeClosed, storeFailed, toStoreError } from './faults.js';
import { beginRecord, isEmptyRecord } from './log.js';
import type { Steps } from './query.js';
import type { Condition, Figures, Query, Store } from './store.js';
import { type Damage, StoreFiles } from './store-files.js';
import type { AnyRow, RowOf, Table, Write } from './table.js';

export interface FileStoreOptions {
  readonly tables: readonly Table[];
  readonly runtime?: Runtime;
  /** The files, if not in the folder: for simulation. */
  readonly disk?: Disk;
  /** Bytes of the log after which its rows are written to a run. */
  readonly logBytes?: number;
}

/** Something that takes its turn: changes, a read, or a task on the files that must be alone. */
interface Call {
  readonly writes?: readonly Write[];
  readonly read?: () => Steps<unknown>;
  alone?: () => Promise<unknown>;
  readonly done: (error: unknown, value?: unknown) => void;
}

/** A call that has run; its outcome is told when the group is on disk. */
interface Outcome {
  readonly call: Call;
  readonly error?: unknown;
  readonly value?: unknown;
}

/** Limits of a group, so that no group blocks the event loop for long. */
const MAX_CALLS = 128;
const MAX_GROUP_BYTES = 1_048_576;
/** The least room that a record begins with. */
const RECORD_BYTES = 1_024;

/**
 * A store in a folder, with exclusive use. Calls run in their order, in groups: the changes of a group are made in memory,
 * written to the log as one record, and acknowledged when it is on disk. Meanwhile the calls of the next group wait, so no
 * read sees a change that is not on disk.
 */
export class FileStore implements Store {
  readonly #runtime: Runtime;
  readonly #files: StoreFiles;
  readonly #database: Database;
  readonly #lock: ProcessLock | undefined;
  readonly #waiting = new Fifo<Call>();
  #record = beginRecord(RECORD_BYTES);
  /** From the start of a group, or of a task that must be alone, until its callers are told and the log has room. */
  #busy = false;
  #isDue = false;
  #closing: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

  private constructor(runtime: Runtime, files: StoreFiles, lock: ProcessLock | undefined) {
    this.#runtime = runtime;
    this.#files = files;
    this.#database = files.database;
    this.#lock = lock;
  }

  static async open(folder: string, options: FileStoreOptions): Promise<FileStore> {
    const { tables, logBytes } = options;
    // Real files finish on the real event loop, also where the node's time is simulated.
    const runtime = (options.disk && options.runtime) ?? systemRuntime({ logger: options.runtime?.logger });
    let lock: ProcessLock | undefined;
    try {
      const disk = options.disk ?? new FolderDisk(join(folder, 'store'));
      if (!options.disk) lock = ProcessLock.acquire(disk.pathOf('lock'), runtime, (pid) => inUse(disk.pathOf(''), pid));
      const files = await StoreFiles.open({ disk, runtime, tables, logBytes });
      return new FileStore(runtime, files, lock);
    } catch (error) {
      lock?.release();
      throw toStoreError(error, folder);
    }
  }

  write(writes: readonly Write[]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.commit(writes, (error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  commit(writes: readonly Write[], done: (error?: unknown) => void): void {
    if (this.#closing) done(storeClosed());
    else this.#enqueue({ writes, done });
  }

  read<T extends Table>(table: T, query?: Query<RowOf<T>>): Promise<RowOf<T>[]> {
    return this.#ask(table, () => this.#database.select(table, query as Query<AnyRow>));
  }

  count<T extends Table>(table: T, condition?: Condition<RowOf<T>>): Promise<number> {
    return this.#ask(table, () => this.#database.count(table, condition as Condition<AnyRow>));
  }

  figures(table: Table): Promise<Figures> {
    return this.#ask(table, () => this.#database.sizeOf(table));
  }

  /** Merges all data into one run: the smallest files, and the fastest reads. Other calls wait for it. */
  compact(): Promise<void> {
    return this.#queue<void>({ alone: () => this.#files.compact() });
  }

  /** Reads and checks all data; the damages found. Slow, and other calls wait for it. */
  check(): Promise<readonly Damage[]> {
    return this.#queue<readonly Damage[]>({ alone: () => this.#files.check() });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#busy || this.#waiting.length > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    try {
      await this.#files.close();
    } finally {
      this.#lock?.release();
    }
  }

  #ask<Result>(table: Table, read: () => Steps<Result>): Promise<Result> {
    if (!this.#files.has(table)) return Promise.reject(storeFailed(`there is no table ${table.name}`));
    if (!this.#busy && this.#waiting.length === 0 && !this.#closing) {
      try {
        const { done, value } = read().next();
        if (done) return Promise.resolve(value);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    return this.#queue<Result>({ read });
  }

  #queue<Result>(call: Pick<Call, 'read' | 'alone'>): Promise<Result> {
    if (this.#closing) return Promise.reject(storeClosed());
    return new Promise((resolve, reject) => {
      const done = (error: unknown, value: unknown) => (error === undefined ? resolve(value as Result) : reject(error));
      this.#enqueue({ ...call, done });
    });
  }

  #enqueue(call: Call): void {
    this.#waiting.push(call);
    this.#schedule();
  }

  /** Later in this turn of the event loop, so that the calls that follow from finished ones share the next group. */
  #schedule(): void {
    if (this.#isDue || this.#busy) return;
    this.#isDue = true;
    this.#runtime.defer(() => {
      this.#isDue = false;
      // Otherwise the end of what is under way schedules the next group.
      if (!this.#busy) this.#runGroup();
    });
  }

  #runGroup(): void {
    const alone = this.#waiting.peek()?.alone;
    if (alone) {
      this.#runAlone(alone, this.#waiting.shift()!);
      return;
    }
    this.#busy = true;
    const outcomes: Outcome[] = [];
    this.#record = this.#nextRecord();
    while (outcomes.length < MAX_CALLS && this.#record.length < MAX_GROUP_BYTES) {
      const call = this.#waiting.peek();
      if (!call || call.alone) break;
      const outcome = this.#run(call);
      if (!outcome) {
        // A long read is done in steps after this group, and before the calls that follow it.
        call.alone = () => this.#files.inSteps(call.read!());
        break;
      }
      outcomes.push(outcome);
      this.#waiting.shift();
    }
    this.#append((error) => {
      if (error) void this.#runSingly(outcomes, error);
      else this.#finish(outcomes);
    });
  }

  #runAlone(task: () => Promise<unknown>, call: Call): void {
    this.#busy = true;
    task()
      .then(
        (value): Outcome => ({ call, value }),
        (error): Outcome => ({ call, error: toStoreError(error, this.#files.path) }),
      )
      .then((outcome) => this.#finish([outcome]));
  }

  /** Undefined for a read that takes long. */
  #run(call: Call): Outcome | undefined {
    try {
      if (call.read) {
        const { done, value } = call.read().next();
        return done ? { call, value } : undefined;
      }
      this.#database.apply(call.writes!, this.#record);
      return { call };
    } catch (error) {
      return { call, error };
    }
  }

  /** A group is about as large as the one before. */
  #nextRecord(): ByteWriter {
    return beginRecord(Math.max(RECORD_BYTES, this.#record.length));
  }

  #append(done: (error: Error | null) => void): void {
    if (isEmptyRecord(this.#record)) {
      done(null);
      return;
    }
    const record = this.#record;
    this.#files.log.append(record, (error) => {
      if (error) this.#database.undo();
      else this.#database.keep();
      // Rows in memory are those of the record.
      record.trim();
      done(error);
    });
  }

  /** The group could not be written. On a nearly full disk single calls may still succeed. */
  async #runSingly(outcomes: readonly Outcome[], cause: unknown): Promise<void> {
    this.#runtime.logger.error({ err: cause }, 'store: a group of writes failed');
    for (const { call } of outcomes) {
      this.#record = this.#nextRecord();
      const outcome = this.#run(call) ?? (await this.#readInSteps(call));
      const error = await new Promise<Error | null>((resolve) => this.#append(resolve));
      this.#tell(error ? { call, error: toStoreError(error, this.#files.path) } : outcome);
    }
    this.#finish([]);
  }

  async #readInSteps(call: Call): Promise<Outcome> {
    try {
      return { call, value: await this.#files.inSteps(call.read!()) };
    } catch (error) {
      return { call, error: toStoreError(error, this.#files.path) };
    }
  }

  #finish(outcomes: readonly Outcome[]): void {
    for (const outcome of outcomes) this.#tell(outcome);
    if (this.#files.isLogFull) {
      this.#rotate();
      return;
    }
    this.#busy = false;
    if (this.#waiting.length > 0) this.#schedule();
    else this.#onIdle?.();
  }

  #rotate(): void {
    const log = (error: unknown) => this.#runtime.logger.error({ err: error }, 'store: the log could not be continued');
    const done = () => {};
    this.#runAlone(() => this.#files.rotate().catch(log), { done });
  }

  #tell({ call, error, value }: Outcome): void {
    try {
      call.done(error, value);
    } catch (failure) {
      this.#runtime.logger.error({ err: failure }, 'store: a callback failed');
    }
  }
}

function inUse(folder: string, pid: number): EclipticError {
  return storeFailed(`cannot use ${folder}: process ${pid} has it open`, { reason: 'locked', pid, file: folder });
}
