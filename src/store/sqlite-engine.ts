import type { EclipticError } from '../runtime/errors.js';
import { Changes, LogFigures } from './changes.js';
import { Connection } from './connection.js';
import { examine, prepareFiles } from './examine.js';
import { storeClosed, toStoreError } from './faults.js';
import { type StoreFiles, storeFiles } from './files.js';
import { findDamage } from './integrity.js';
import { migration, SCHEMA_VERSION } from './migrations.js';
import { canWait, Pending } from './pending.js';
import type { Change } from './plan.js';
import { Queries } from './queries.js';
import { Watch } from './watch.js';
import {
  type Call,
  type Counters,
  type Damage,
  type EngineOptions,
  encodeCalls,
  type Outcome,
  type WriteCall,
} from './wire.js';

/** Limit of pending changes in memory. */
const PENDING_CHARS = 16 * 1024 * 1024;
const DEFAULTS = { busyMs: 500, checkBytes: 4 * 1024 * 1024, checkpointFrames: 2_000, pendingChanges: 2_048 } as const;
/** Factor by which pending changes may exceed their number while they cannot be written to their tables. */
const PATIENCE = 16;

/**
 * The store inside its thread: synchronous, on one connection, with exclusive use of its files. A group of calls is one
 * transaction and one sync; a failing call does not affect the others.
 */
export class SqliteEngine {
  readonly #files: StoreFiles;
  readonly #lock: Connection;
  readonly #connection: Connection;
  readonly #figures: LogFigures;
  readonly #changes: Changes;
  readonly #pending: Pending;
  readonly #queries: Queries;
  readonly #watch: Watch;
  readonly #checkpointFrames: number;
  readonly #pendingChanges: number;
  /** The calls of this transaction whose rows are pending. */
  #taken: Call[] = [];
  #isInTransaction = false;
  /** Is the transaction in a state that requires a rollback? */
  #isHalfDone = false;
  /** Set when the store is unusable. */
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
    this.#pending = new Pending(files.database, this.#connection, this.#figures, this.#changes);
    this.#queries = new Queries(files.database, this.#connection, this.#pending);
    this.#pending.restore();
    this.#figures.committed();
    this.#watch = new Watch(files, this.#connection, found);
    this.#checkpointFrames = options.checkpointFrames ?? DEFAULTS.checkpointFrames;
    this.#pendingChanges = options.pendingChanges ?? DEFAULTS.pendingChanges;
  }

  /** Runs calls in their order; writes are on disk when it returns. `texts` are the calls as they were received. */
  run(calls: readonly Call[], texts?: readonly string[]): Outcome[] {
    const failure = this.#failure;
    if (failure) return calls.map(() => ({ error: failure }));
    const writes = calls.filter((call) => call.kind === 'write').length;
    if (writes === 0) return calls.map((call) => this.#attempt(call));
    try {
      const outcomes = this.#transaction(() => {
        // Settling failed while the store was idle; pending changes must not grow without limit.
        if (this.#pending.size >= PATIENCE * this.#pendingChanges) this.#settle();
        const attempted = calls.map((call) => this.#attempt(call));
        if (this.#taken.length === writes && texts) for (const text of texts) this.#pending.append(text);
        else if (this.#taken.length > 0) this.#pending.append(encodeCalls(this.#taken));
        return attempted;
      });
      this.#counts.transactions++;
      this.#counts.writes += outcomes.filter((outcome) => 'value' in outcome && outcome.value === undefined).length;
      return outcomes;
    } catch (error) {
      // The whole transaction failed. On a nearly full disk, single calls may still succeed.
      if (calls.length > 1) return calls.flatMap((call) => this.run([call]));
      return [{ error: toStoreError(error, this.#files.database) }];
    }
  }

  /** Writes pending changes to their tables, and runs a checkpoint, when there is much of either. */
  tidy(): void {
    if (this.#pending.size >= this.#pendingChanges || this.#pending.chars >= PENDING_CHARS) this.settle();
    if (this.#watch.frames >= this.#checkpointFrames) this.checkpoint();
  }

  /** Writes all pending changes to their tables; false when that failed: they stay pending, which is as safe. */
  settle(): boolean {
    try {
      if (this.#pending.size > 0) this.#transaction(() => this.#settle());
      return true;
    } catch (error) {
      const reason = toStoreError(error, this.#files.database);
      if (reason.code === 'STORE_DAMAGED') this.#failure = reason;
      return false;
    }
  }

  checkpoint(): boolean {
    try {
      if (!this.settle() || !this.#watch.checkpoint()) return false;
      this.#counts.checkpoints++;
      return true;
    } catch {
      // The pages stay in the log, where they are safe until the next attempt.
      return false;
    }
  }

  /** Checks some pages that were not checked at the start; false when all are checked. */
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
      return { value: call.kind === 'write' ? this.#apply(call) : this.#answer(call) };
    } catch (error) {
      // Some errors roll the whole transaction back.
      if (this.#isHalfDone || (this.#isInTransaction && !this.#connection.inTransaction)) throw error;
      return { error: toStoreError(error, this.#files.database, tableOf(call)) };
    }
  }

  #answer(call: Exclude<Call, WriteCall>): unknown {
    switch (call.kind) {
      case 'read':
        return this.#queries.read(call.selection);
      case 'count':
        return this.#queries.count(call.selection);
      case 'figures': {
        const { rows, bytes } = this.#figures.of(call.log);
        return { rows, bytes };
      }
      case 'integrity':
        if (this.#isInTransaction) this.#settle();
        else this.settle();
        return findDamage(this.#files, this.#connection, this.#figures, this.#watch) satisfies Damage[];
      case 'counters':
        return { ...this.#counts, marked: this.#watch.isMarked } satisfies Counters;
    }
  }

  /** All changes of a call or none. */
  #apply(call: WriteCall): void {
    const { changes } = call;
    if (!changes.every(canWait)) {
      this.#applyDirectly(changes);
      return;
    }
    const { steps } = this.#pending;
    const figures = changes.length > 1 ? this.#figures.snapshot() : undefined;
    try {
      for (const change of changes) this.#pending.take(change);
    } catch (error) {
      this.#pending.rollBack(steps);
      if (figures) this.#figures.restore(figures);
      throw error;
    }
    this.#taken.push(call);
  }

  /** Changes that must search for their rows require all rows to be in their tables. */
  #applyDirectly(changes: readonly Change[]): void {
    this.#settle();
    const { steps } = this.#pending;
    const figures = this.#figures.snapshot();
    this.#connection.run('SAVEPOINT call');
    try {
      for (const change of changes) this.#applyNow(change);
      this.#figures.flush();
    } catch (error) {
      this.#pending.rollBack(steps);
      this.#figures.restore(figures);
      if (this.#connection.inTransaction) this.#connection.run('ROLLBACK TO call');
      throw error;
    } finally {
      if (this.#connection.inTransaction) this.#connection.run('RELEASE call');
    }
  }

  #applyNow(change: Change): void {
    if (canWait(change)) {
      this.#pending.take(change);
      this.#pending.settle();
    } else if (change.kind === 'delete') {
      this.#changes.delete(change.table, change.terms);
    } else if (change.kind === 'update') {
      this.#changes.update(change.table, change.terms, change.set);
    }
  }

  #settle(): void {
    this.#isHalfDone = true;
    this.#pending.settle();
    this.#figures.flush();
    this.#taken = [];
    this.#isHalfDone = false;
  }

  #transaction<Result>(task: () => Result): Result {
    try {
      this.#connection.run('BEGIN IMMEDIATE');
      this.#isInTransaction = true;
      const result = task();
      this.#connection.run('COMMIT');
      this.#figures.committed();
      this.#pending.keep();
      this.#watch.committed();
      return result;
    } catch (error) {
      this.#figures.rolledBack();
      this.#pending.rollBack();
      this.#watch.failed();
      if (this.#connection.inTransaction) this.#connection.run('ROLLBACK');
      throw error;
    } finally {
      this.#taken = [];
      this.#isInTransaction = false;
      this.#isHalfDone = false;
    }
  }
}

function tableOf(call: Call): string | undefined {
  if (call.kind === 'write') return [...new Set(call.changes.map((change) => change.table))].join(', ');
  if (call.kind === 'figures') return call.log;
  return 'selection' in call ? call.selection.table : undefined;
}

/**
 * Ensures that one process at a time uses the files: an SQLite lock on an empty file, which the system releases when the
 * process dies.
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
    // Checkpoints run only on request, so that the page checksums can follow them.
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
