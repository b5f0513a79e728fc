import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Disk } from '../system/files/disk.js';
import { Database } from './database.js';
import { storeDamaged, storeFailed, toStoreError } from './faults.js';
import { indexKey, rowKey } from './key.js';
import { isUsedLog, Log, logName, readLog } from './log.js';
import { type LogRecord, type Manifest, readManifest, type TableRecord, writeManifest } from './manifest.js';
import type { Memtable } from './memtable.js';
import { mergeRuns, runsToMerge } from './merge.js';
import { Queries, type Steps } from './query.js';
import { BlockCache, Run, type RunRecord, RunWriter } from './run.js';
import { SortedKeys } from './sorted-keys.js';
import type { StoreState } from './store.js';
import { Table, type Tree } from './table.js';

export interface StoreFilesInit {
  readonly disk: Disk;
  readonly runtime: Runtime;
  readonly tables: readonly Table[];
  readonly logBytes?: number | undefined;
}

/** A part of the data that cannot be read. */
export interface Damage {
  readonly file: string;
  readonly what: string;
}

/** Bounds the time of the next start, which reads the log. */
const LOG_BYTES = 24 * 1_048_576;
/** After a flush that failed. */
const RETRY_MS = 5_000;
/** Of a key of an index. */
const NO_VALUE = Buffer.alloc(0);

/**
 * The files of a store: the log that is written, the runs, and the manifest that names them. A full log is continued in
 * another one while its rows are written to a run; then it is removed. Runs are merged in the background.
 */
export class StoreFiles {
  readonly database = new Database((table) => this.#idOf(table));
  readonly #disk: Disk;
  readonly #runtime: Runtime;
  readonly #logBytes: number;
  readonly #cache = new BlockCache();
  /** All tables, by their number in the log; also those that only an earlier or later release knows. */
  readonly #tables: Table[] = [];
  readonly #ids = new Map<Table, number>();
  #trees: readonly Tree[] = [];
  #runs: readonly Run[] = [];
  /** Merged runs, which a long read may still use. */
  #retired: Run[] = [];
  #logs: readonly LogRecord[] = [];
  #log!: Log;
  /** A log that was created, and that the manifest does not name yet. */
  #nextLog: Log | undefined;
  /** The length at which the log is continued in another one. */
  #fullAt: number;
  /** The number of the next file. */
  #next = 1;
  #flushing: Promise<void> | undefined;
  #retry: Timer | undefined;
  #merging: Promise<void> | undefined;
  #manifest: Promise<void> = Promise.resolve();
  #isDamaged = false;
  #failedFlushes = 0;
  #isClosing = false;

  private constructor({ disk, runtime, logBytes = LOG_BYTES }: StoreFilesInit) {
    this.#disk = disk;
    this.#runtime = runtime;
    this.#logBytes = logBytes;
    this.#fullAt = logBytes;
  }

  static async open(init: StoreFilesInit): Promise<StoreFiles> {
    const files = new StoreFiles(init);
    await files.#open(init.tables);
    return files;
  }

  /** For messages. */
  get path(): string {
    return this.#disk.pathOf('');
  }

  get state(): Pick<StoreState, 'logs' | 'logBytes' | 'runs' | 'runBytes' | 'failedFlushes'> {
    const before = this.#logs.filter(({ number }) => number !== this.#log.number);
    return {
      logs: before.length + 1,
      logBytes: before.reduce((sum, { length }) => sum + length, this.#log.length),
      runs: this.#runs.length,
      runBytes: this.#runs.reduce((sum, { record }) => sum + record.size, 0),
      failedFlushes: this.#failedFlushes,
    };
  }

  get log(): Log {
    return this.#log;
  }

  has(table: Table): boolean {
    return this.#ids.has(table);
  }

  #idOf(table: Table): number {
    const id = this.#ids.get(table);
    if (id === undefined) throw storeFailed(`there is no table ${table.name}`);
    return id;
  }

  /** Is it time to continue in another log? Not while the one before is being flushed, unless this one has grown too long. */
  get isLogFull(): boolean {
    return this.#log.length >= this.#fullAt && (!this.database.frozen || this.#log.length >= 4 * this.#logBytes);
  }

  /** Continues in another log, and flushes the full one in the background. No other call may be under way. */
  async rotate(): Promise<void> {
    this.#removeRetired();
    // Where this fails, as on a full disk, it is tried again when the log has grown as much again.
    this.#fullAt = this.#log.length + this.#logBytes;
    if (this.database.frozen) {
      await this.#flushing;
      this.#retry?.cancel();
      // The flush has failed; it is tried again before memory fills up.
      if (this.database.frozen) await this.#flush(this.database.frozen);
    }
    await this.#beginLog();
    this.#freeze();
  }

  /** Writes everything to a single run. No other call may be under way. */
  async compact(): Promise<void> {
    await this.rotate();
    await this.#settled();
    await this.#merge(this.#runs.length);
    this.#removeRetired();
  }

  /** Reads all data, and returns the damages found. No other call may be under way. */
  async check(): Promise<Damage[]> {
    await this.#settled();
    const found = new Map<string, Damage>();
    const attempt = async (task: () => Promise<void>) => {
      try {
        await task();
      } catch (error) {
        const { details, message } = toStoreError(error, this.path);
        // Several trees may meet the same damage.
        found.set(message, { file: String(details.file ?? ''), what: String(details.damaged ?? message) });
      }
    };
    for (const run of this.#runs) for (const tree of this.#trees) await attempt(() => this.#checkBlocks(run, tree));
    for (const tree of this.#trees) await attempt(() => this.#checkKeys(tree));
    return [...found.values()];
  }

  /** Runs a task while no file changes. No other call may be under way. */
  async still<Result>(task: () => Promise<Result>): Promise<Result> {
    await this.#settled();
    return task();
  }

  /** Leaves no log to replay, where the disk permits that. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#retry?.cancel();
    await this.#settled();
    if (!this.database.memtable.isEmpty || this.database.frozen) {
      await this.rotate().catch((error) => this.#report(error));
      await this.#settled();
    }
    this.#removeRetired();
    this.#log.close();
    this.#nextLog?.close();
    for (const run of this.#runs) run.close();
  }

  /** Takes the steps of a long computation, with other tasks between them. */
  async inSteps<Result>(steps: Steps<Result>): Promise<Result> {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
      await this.#pause();
    }
  }

  async #open(tables: readonly Table[]): Promise<void> {
    const manifest = readManifest(this.#disk);
    this.#adopt(manifest, tables);
    const found = this.#disk.list();
    this.#logs = manifest.logs.map((log, place) => ({ ...log, length: this.#replay(log, manifest.logs[place + 1]) }));
    await this.#addIndexes(manifest.tables);
    if (this.database.memtable.isEmpty) this.#logs = [];
    await this.#beginLog();
    const used = new Set([
      ...this.#runs.map(({ record }) => record.name),
      ...this.#logs.map((log) => logName(log.number)),
    ]);
    for (const name of found) {
      if (/^(run|log)-\d+$|\.new$/.test(name) && !used.has(name)) this.#disk.remove(name);
    }
    if (!this.database.memtable.isEmpty) this.#freeze();
  }

  #adopt({ tables: stored, runs, logs, next }: Manifest, tables: readonly Table[]): void {
    for (const record of stored) {
      const table = tables.find(({ name }) => name === record.name) ?? new Table(record.name, record.definition);
      assertSame(table, record);
      this.#tables.push(table);
    }
    this.#tables.push(...tables.filter((table) => !this.#tables.includes(table)));
    for (const [id, table] of this.#tables.entries()) {
      this.#ids.set(table, id);
      const figures = logs[0]?.figures[table.name];
      if (figures) this.database.setFigures(table, figures);
    }
    this.#trees = this.#tables.flatMap((table) => table.trees);
    this.#next = next;
    this.#runs = runs.map((record) => this.#openRun(record));
    this.database.setRuns(this.#runs);
  }

  #openRun({ name, size, trees }: RunRecord): Run {
    // An index that this release does not know is forgotten, because it is no longer maintained.
    const known = this.#trees.filter((tree) => trees[tree.name]).map((tree) => [tree.name, trees[tree.name]!]);
    try {
      return new Run({ name, size, trees: Object.fromEntries(known) }, this.#disk.open(name), this.#cache);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      throw storeDamaged(this.#disk.pathOf(name), 'it is missing');
    }
  }

  /** Makes the changes of a log, and returns its length. */
  #replay({ number, length }: LogRecord, next: LogRecord | undefined): number {
    // If the next log was named but could not be used, this one has more than the manifest says.
    const isContinued = next !== undefined && isUsedLog(this.#disk, logName(next.number));
    return readLog(this.#disk, number, { length, isContinued }, (record, source) => {
      this.database.replay(record, source, this.#tables);
    });
  }

  /** Makes the indexes that the rows in the runs do not have yet. */
  async #addIndexes(stored: readonly TableRecord[]): Promise<void> {
    const isNew = ({ table, index }: Tree) => {
      const indexes = stored.find(({ name }) => name === table.name)?.definition.indexes;
      const columns = table.definition.indexes[index]?.join();
      return indexes && columns !== undefined && !indexes.some((other) => other.join() === columns);
    };
    const trees = this.#trees.filter(isNew);
    if (trees.length === 0) return;
    const runs = new Queries(() => this.#runs);
    const run = await this.#writeRun(async (writer) => {
      for (const tree of trees) {
        const keys = new SortedKeys();
        for (const stored of runs.rows(tree.table.trees[0]!)) {
          const row = stored?.read(tree.table);
          const key = row && indexKey(tree, row, rowKey(tree.table, row));
          if (key !== undefined) keys.add(key);
        }
        for (const key of keys.range('', undefined, false)) writer.add(key, NO_VALUE);
        writer.endTree(tree.name);
      }
    });
    this.#runs = [run, ...this.#runs];
    this.database.setRuns(this.#runs);
  }

  /** Creates another log, which is used from the moment when the manifest names it. */
  async #beginLog(): Promise<void> {
    this.#nextLog ??= await Log.create(this.#disk, this.#next++);
    const before = this.#logs;
    const figures = Object.fromEntries(this.#tables.map((table) => [table.name, { ...this.database.figures(table) }]));
    const ended = before.map((log) => (log.number === this.#log?.number ? { ...log, length: this.#log.length } : log));
    this.#logs = [...ended, { number: this.#nextLog.number, length: 0, figures }];
    try {
      await this.#writeManifest();
    } catch (error) {
      this.#logs = before;
      throw error;
    }
    this.#log?.close();
    this.#log = this.#nextLog;
    this.#nextLog = undefined;
    this.#fullAt = this.#logBytes;
  }

  #freeze(): void {
    this.#flushInBackground(this.database.freeze());
  }

  #flushAgain(): void {
    const { frozen } = this.database;
    if (frozen && !this.#flushing && !this.#isClosing) this.#flushInBackground(frozen);
  }

  #flushInBackground(frozen: Memtable): void {
    this.#flushing = this.#flush(frozen)
      .catch((error) => {
        this.#failedFlushes++;
        this.#report(error);
        // A full disk may have room later. Damage stays.
        if (!this.#isDamaged && !this.#isClosing)
          this.#retry = this.#runtime.setTimer(() => this.#flushAgain(), RETRY_MS);
      })
      .finally(() => {
        this.#flushing = undefined;
        this.#merging ??= this.#mergeSome().finally(() => {
          this.#merging = undefined;
        });
      });
  }

  /** Merges runs while there are too many, beside the flushes. */
  async #mergeSome(): Promise<void> {
    try {
      while (!this.#isDamaged && !this.#isClosing && runsToMerge(this.#runs) > 1) {
        await this.#merge(runsToMerge(this.#runs));
      }
    } catch (error) {
      if (!this.#isClosing) this.#report(error);
    }
  }

  /** Resolves when nothing is under way in the background. */
  async #settled(): Promise<void> {
    await this.#flushing;
    await this.#merging;
  }

  #report(error: unknown): void {
    // Nothing is lost: the rows stay in the log, or in the runs that were to be merged.
    this.#isDamaged ||= error instanceof EclipticError && error.code === 'STORE_DAMAGED';
    this.#runtime.logger.error({ err: error }, 'store: files could not be written or merged');
  }

  async #flush(frozen: Memtable): Promise<void> {
    if (!frozen.isEmpty) {
      const run = await this.#writeRun((writer) => this.#writeRows(frozen, writer));
      this.#runs = [run, ...this.#runs];
    }
    const flushed = this.#logs.slice(0, -1);
    this.#logs = this.#logs.slice(-1);
    await this.#writeManifest();
    this.database.thaw(this.#runs);
    for (const { number } of flushed) this.#disk.remove(logName(number));
  }

  async #writeRows(frozen: Memtable, writer: RunWriter): Promise<void> {
    for (const tree of this.#trees) {
      while (frozen.sortSome(tree)) await this.#pause();
      const keys = frozen.scan(tree, '', undefined, false);
      for (let { value } = keys.next(); value; { value } = keys.next()) {
        const { row, live, key } = value;
        writer.add(key, live ? (row?.bytes ?? NO_VALUE) : undefined);
        if (writer.isFull) await writer.write();
      }
      writer.endTree(tree.name);
    }
  }

  /** Merges the newest runs into one. */
  async #merge(count: number): Promise<void> {
    if (count < 2) return;
    const merged = this.#runs.slice(0, count);
    const isOldest = count === this.#runs.length;
    const run = await this.#writeRun((writer) => {
      return mergeRuns(merged, this.#trees, writer, { isOldest, isStopped: () => this.#isClosing });
    });
    const place = this.#runs.indexOf(merged[0]!);
    this.#runs = [...this.#runs.slice(0, place), run, ...this.#runs.slice(place + count)];
    await this.#writeManifest();
    this.database.setRuns(this.#runs);
    this.#retired.push(...merged);
  }

  /** No read may be under way. */
  #removeRetired(): void {
    for (const run of this.#retired.splice(0)) {
      run.close();
      this.#disk.remove(run.record.name);
    }
  }

  async #writeRun(write: (writer: RunWriter) => Promise<void>): Promise<Run> {
    const name = `run-${String(this.#next++).padStart(8, '0')}`;
    const file = this.#disk.create(name);
    const writer = new RunWriter(file);
    try {
      await write(writer);
      return this.#openRun(await writer.finish(name));
    } catch (error) {
      file.abandon();
      throw toStoreError(error, this.#disk.pathOf(name));
    }
  }

  /** One at a time, each with the state at its turn. */
  #writeManifest(): Promise<void> {
    const written = this.#manifest.then(() => {
      const runs = this.#runs.map(({ record }) => record);
      const tables = this.#tables.map(({ name, definition }) => ({ name, definition }));
      return writeManifest(this.#disk, { next: this.#next, runs, logs: this.#logs, tables });
    });
    this.#manifest = written.catch(() => {});
    return written;
  }

  async #checkBlocks(run: Run, { name }: Tree): Promise<void> {
    for (const _ of run.blocks(name)) await this.#pause();
  }

  /** Each tree has a key for each row, but for an index that leaves out rows with a null. */
  async #checkKeys(tree: Tree): Promise<void> {
    const { table, index, name } = tree;
    const keys = await this.inSteps(this.database.countKeys(tree));
    const { rows } = this.database.figures(table);
    if (table.indexes[index]?.some((column) => table.nullable[column])) return;
    if (keys !== rows) throw storeDamaged(this.path, `${name} has ${keys} keys for ${rows} rows`);
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#runtime.defer(resolve));
  }
}

function assertSame(table: Table, { definition }: TableRecord): void {
  const text = ({ columns, key }: TableRecord['definition']) => JSON.stringify([Object.entries(columns), key]);
  if (text(definition) === text(table.definition)) return;
  const message = `the stored columns of table ${table.name} are not those of this release: use the release that wrote it`;
  throw storeFailed(message, { reason: 'version', table: table.name });
}
