import { join } from 'node:path';
import type { ByteWriter } from '../runtime/bytes.js';
import type { EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { type Disk, FolderDisk } from '../system/files/disk.js';
import { ProcessLock } from '../system/files/process-lock.js';
import type { Database } from './database.js';
import { storeClosed, storeFailed, toStoreError } from './faults.js';
import { beginRecord, isEmptyRecord } from './log.js';
import type { Steps } from './query.js';
import { type Condition, type Figures, PROVING_BYTES, type Query, type Store, type StoreState } from './store.js';
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
  /** Takes the calls that wait, until there are none. */
  #running: Promise<void> | undefined;
  #recordBytes = RECORD_BYTES;
  #closing: Promise<void> | undefined;
  #failedWrites = 0;
  #failure: EclipticError | undefined;
  /** A smaller write may still find room on a full disk, and does not end the failure. */
  #provingBytes = 0;

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

  state(): StoreState {
    return { ...this.#files.state, failedWrites: this.#failedWrites, failure: this.#failure };
  }

  /** Merges all data into one run: the smallest files, and the fastest reads. Other calls wait for it. */
  compact(): Promise<void> {
    return this.#queue<void>({ alone: () => this.#files.compact() });
  }

  /** Reads and checks all data; the damages found. Slow, and other calls wait for it. */
  check(): Promise<readonly Damage[]> {
    return this.#queue<readonly Damage[]>({ alone: () => this.#files.check() });
  }

  /** Runs a task while no file of the store changes: for a consistent copy of the folder. Other calls wait for it. */
  still<Result>(task: () => Promise<Result>): Promise<Result> {
    return this.#queue<Result>({ alone: () => this.#files.still(task) });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#running;
    try {
      await this.#files.close();
    } finally {
      this.#lock?.release();
    }
  }

  #ask<Result>(table: Table, read: () => Steps<Result>): Promise<Result> {
    if (!this.#files.has(table)) return Promise.reject(storeFailed(`there is no table ${table.name}`));
    if (!this.#running && !this.#closing) {
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
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      // Later in this turn of the event loop, so that the calls that follow from finished ones share the next group.
      await new Promise<void>((resolve) => this.#runtime.defer(resolve));
      for (const outcome of await this.#runSome(this.#waiting)) this.#tell(outcome);
      if (this.#files.isLogFull) await this.#rotate();
    }
    this.#running = undefined;
  }

  /** Runs the first call alone, or as many as make a group. */
  async #runSome(calls: Fifo<Call>): Promise<readonly Outcome[]> {
    const call = calls.peek()!;
    if (!call.alone) return this.#runGroup(calls);
    calls.shift();
    try {
      return [{ call, value: await call.alone() }];
    } catch (error) {
      return [{ call, error: toStoreError(error, this.#files.path) }];
    }
  }

  async #runGroup(calls: Fifo<Call>): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = [];
    const record = beginRecord(this.#recordBytes);
    while (outcomes.length < MAX_CALLS && record.length < MAX_GROUP_BYTES) {
      const call = calls.peek();
      if (!call || call.alone) break;
      const outcome = this.#try(call, record);
      if (!outcome) {
        // A long read is done in steps after this group, and before the calls that follow it.
        call.alone = () => this.#files.inSteps(call.read!());
        break;
      }
      outcomes.push(outcome);
      calls.shift();
    }
    const error = await this.#append(record);
    if (!error) return outcomes;
    if (outcomes.length === 1) return [{ call: outcomes[0]!.call, error: toStoreError(error, this.#files.path) }];
    this.#runtime.logger.error({ err: error }, 'store: a group of writes failed');
    return this.#runSingly(outcomes.map(({ call }) => call));
  }

  /** On a nearly full disk, single calls of a group may still succeed. */
  async #runSingly(calls: readonly Call[]): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = [];
    for (const call of calls) {
      const single = new Fifo<Call>();
      single.push(call);
      while (single.length > 0) outcomes.push(...(await this.#runSome(single)));
    }
    return outcomes;
  }

  /** Undefined for a read that takes long. */
  #try(call: Call, record: ByteWriter): Outcome | undefined {
    try {
      if (call.read) {
        const { done, value } = call.read().next();
        return done ? { call, value } : undefined;
      }
      this.#database.apply(call.writes!, record);
      return { call };
    } catch (error) {
      return { call, error };
    }
  }

  /** Resolves when the changes of a group are on disk, or with the error that undid them. */
  async #append(record: ByteWriter): Promise<Error | null> {
    if (isEmptyRecord(record)) return null;
    // A group is about as large as the one before.
    this.#recordBytes = Math.max(RECORD_BYTES, record.length);
    const error = await new Promise<Error | null>((resolve) => this.#files.log.append(record, resolve));
    if (error) {
      this.#failedWrites++;
      this.#failure = toStoreError(error, this.#files.path);
      this.#provingBytes = this.#failure.details.reason === 'full' ? Math.min(record.length, PROVING_BYTES) : 0;
      this.#database.undo();
    } else {
      if (record.length >= this.#provingBytes) this.#failure = undefined;
      this.#database.keep();
    }
    // Rows in memory are those of the record.
    record.trim();
    return error;
  }

  async #rotate(): Promise<void> {
    try {
      await this.#files.rotate();
    } catch (error) {
      this.#runtime.logger.error({ err: error }, 'store: the log could not be continued');
    }
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
