import type { EclipticError } from '../runtime/errors.js';
import type { Call, Counters, Damage, Outcome } from './calls.js';
import { Changes } from './changes.js';
import { Connection } from './connection.js';
import { examine, prepareFiles } from './examine.js';
import { storeClosed, toStoreError } from './faults.js';
import { type StoreFiles, storeFiles } from './files.js';
import { findDamage } from './integrity.js';
import { LogFigures } from './log-figures.js';
import { migration, SCHEMA_VERSION } from './migrations.js';
import type { Change } from './plan.js';
import { ROW_FORMATS } from './row-format.js';
import { countRows, selectRows } from './statements.js';
import { Watch } from './watch.js';

export interface EngineOptions {
  /** How long another process may take to let the file go. */
  readonly busyMs?: number;
  /** How many bytes of the database are checked before it is opened; the rest is checked afterwards. */
  readonly checkBytes?: number;
  /** How long the write-ahead log grows, in frames, before its pages are moved into the database. */
  readonly checkpointFrames?: number;
  /** How large the database may become, in pages: a disk that is full, for tests. */
  readonly maxPages?: number;
}

const DEFAULTS = { busyMs: 500, checkBytes: 16 * 1024 * 1024, checkpointFrames: 2_000 } as const;

/**
 * The store as it works inside its thread: synchronously, on one connection, alone on its files. A group of calls is
 * one transaction and one sync; a call that fails fails alone.
 */
export class SqliteEngine {
  readonly #files: StoreFiles;
  readonly #lock: Connection;
  readonly #connection: Connection;
  readonly #figures: LogFigures;
  readonly #changes: Changes;
  readonly #watch: Watch;
  readonly #checkpointFrames: number;
  /** Why nothing works any more. */
  #failure: EclipticError | undefined;
  #counts = { writes: 0, transactions: 0, checkpoints: 0 };

  static open(folder: string, options: EngineOptions = {}): SqliteEngine {
    const files = storeFiles(folder);
    let lock: Connection | undefined;
    try {
      lock = acquireLock(files, options.busyMs ?? DEFAULTS.busyMs);
      return new SqliteEngine(files, lock, options);
    } catch (error) {
      lock?.close();
      throw toStoreError(error, files.database);
    }
  }

  private constructor(files: StoreFiles, lock: Connection, options: EngineOptions) {
    const found = examine(files, SCHEMA_VERSION, options.checkBytes ?? DEFAULTS.checkBytes);
    prepareFiles(files, found.scan);
    this.#files = files;
    this.#lock = lock;
    this.#connection = openDatabase(files, options);
    this.#figures = new LogFigures(this.#connection);
    this.#changes = new Changes(files.database, this.#connection, this.#figures);
    this.#watch = new Watch(files, this.#connection, found);
    this.#checkpointFrames = options.checkpointFrames ?? DEFAULTS.checkpointFrames;
  }

  /** Carries out calls in their order; what was written is on disk when it returns. */
  run(calls: readonly Call[]): Outcome[] {
    const failure = this.#failure;
    if (failure) return calls.map(() => ({ error: failure }));
    if (!calls.some((call) => call.kind === 'write')) return calls.map((call) => this.#attempt(call));
    try {
      return this.#transaction(() => calls.map((call) => this.#attempt(call)));
    } catch (error) {
      // Not one of them but the whole transaction failed. One alone may still go, if the disk is nearly full.
      if (calls.length > 1) return calls.flatMap((call) => this.run([call]));
      return [{ error: toStoreError(error, this.#files.database) }];
    }
  }

  /** Moves the log's pages into the database when it has grown long. To be called when nobody waits. */
  tidy(): void {
    if (this.#watch.frames >= this.#checkpointFrames) this.checkpoint();
  }

  checkpoint(): boolean {
    try {
      if (!this.#watch.checkpoint()) return false;
      this.#counts.checkpoints++;
      return true;
    } catch {
      // The pages stay in the log, where they are safe; the next time it may go.
      return false;
    }
  }

  /** Checks some of what was not checked when the store was opened; false when there is no more. */
  checkSome(): boolean {
    try {
      return this.#watch.checkSome();
    } catch (error) {
      this.#failure = toStoreError(error, this.#files.database);
      return false;
    }
  }

  close(): void {
    if (this.#failure === undefined && this.checkpoint()) this.#watch.complete();
    this.#failure = storeClosed();
    this.#watch.close();
    this.#connection.close();
    this.#lock.close();
  }

  #attempt(call: Call): Outcome {
    try {
      return { value: this.#carryOut(call) };
    } catch (error) {
      // Some errors end the transaction, and everything that was done in it.
      if (call.kind === 'write' && !this.#connection.inTransaction) throw error;
      return { error: toStoreError(error, this.#files.database, tableOf(call)) };
    }
  }

  #carryOut(call: Call): unknown {
    const { database } = this.#files;
    switch (call.kind) {
      case 'write':
        return this.#apply(call.changes);
      case 'read': {
        const { text, values } = selectRows(call.selection);
        const format = ROW_FORMATS[call.selection.table];
        return this.#connection.all(text, values).map((raw) => format.decode(database, raw));
      }
      case 'count': {
        const { text, values } = countRows(call.selection.table, call.selection.terms);
        return this.#connection.all(text, values)[0]![0];
      }
      case 'figures': {
        const { rows, bytes } = this.#figures.of(call.log);
        return { rows, bytes };
      }
      case 'integrity':
        return findDamage(this.#files, this.#connection, this.#figures, this.#watch) satisfies Damage[];
      case 'counters':
        return { ...this.#counts, marked: this.#watch.isMarked } satisfies Counters;
    }
  }

  /** All changes of a call, or none. A single statement is that by itself. */
  #apply(changes: readonly Change[]): void {
    if (changes.length === 1 && changes[0]!.kind !== 'update') {
      this.#changes.apply(changes[0]!);
      return;
    }
    const figures = this.#figures.snapshot();
    this.#connection.run('SAVEPOINT call');
    try {
      for (const change of changes) this.#changes.apply(change);
    } catch (error) {
      this.#figures.restore(figures);
      if (this.#connection.inTransaction) this.#connection.run('ROLLBACK TO call');
      throw error;
    } finally {
      if (this.#connection.inTransaction) this.#connection.run('RELEASE call');
    }
  }

  #transaction(task: () => Outcome[]): Outcome[] {
    let outcomes: Outcome[];
    try {
      this.#connection.run('BEGIN IMMEDIATE');
      outcomes = task();
      this.#figures.flush();
      this.#connection.run('COMMIT');
    } catch (error) {
      this.#figures.rolledBack();
      this.#watch.failed();
      if (this.#connection.inTransaction) this.#connection.run('ROLLBACK');
      throw error;
    }
    this.#figures.committed();
    this.#watch.committed();
    this.#counts.transactions++;
    this.#counts.writes += outcomes.filter((outcome) => 'value' in outcome && outcome.value === undefined).length;
    return outcomes;
  }
}

function tableOf(call: Call): string | undefined {
  if (call.kind === 'write') return [...new Set(call.changes.map((change) => change.table))].join(', ');
  if (call.kind === 'figures') return call.log;
  return 'selection' in call ? call.selection.table : undefined;
}

/**
 * One process at a time, before anybody looks at the files: the lock is SQLite's own on an empty file, which the system
 * takes back from a process that dies.
 */
function acquireLock(files: StoreFiles, busyMs: number): Connection {
  const lock = new Connection(files.lock, busyMs);
  try {
    lock.exec('PRAGMA journal_mode = OFF');
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

function openDatabase(files: StoreFiles, options: EngineOptions): Connection {
  const connection = new Connection(files.database, options.busyMs ?? DEFAULTS.busyMs);
  try {
    connection.exec('PRAGMA locking_mode = EXCLUSIVE');
    connection.exec('PRAGMA journal_mode = WAL');
    // The log is moved when we say so: only then do we know what is where.
    connection.exec('PRAGMA wal_autocheckpoint = 0');
    connection.exec('PRAGMA synchronous = FULL');
    connection.exec('PRAGMA cache_size = -8192');
    connection.exec('PRAGMA journal_size_limit = 67108864');
    connection.exec('PRAGMA cell_size_check = ON');
    connection.exec('PRAGMA trusted_schema = OFF');
    const [[version]] = connection.all('PRAGMA user_version') as [[number]];
    const steps = migration(version);
    connection.exec('BEGIN IMMEDIATE');
    for (const step of steps) connection.exec(step);
    connection.exec('COMMIT');
    if (options.maxPages !== undefined) connection.exec(`PRAGMA max_page_count = ${options.maxPages}`);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}
