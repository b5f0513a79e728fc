import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { Database } from './database.js';
import type { Disk } from './disk.js';
import { storeDamaged, storeFailed, toStoreError } from './faults.js';
import { indexKey, rowKey, type Tree, treesOf } from './key.js';
import { isUnusedLog, Log, logName, readLog, readLogHead } from './log.js';
import { type Manifest, type RunRecord, readManifest, type TableRecord, writeManifest } from './manifest.js';
import type { Memtable } from './memtable.js';
import { mergeRuns, runsToMerge } from './merge.js';
import { allSteps, type Steps } from './query.js';
import { BlockCache, Run, RunWriter, treeName } from './run.js';
import { SortedKeys } from './sorted-keys.js';
import { Table } from './table.js';

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
  #runs: readonly Run[] = [];
  #log!: Log;
  /** The length at which the log is continued in another one. */
  #fullAt: number;
  #firstLog = 1;
  #nextRun = 1;
  /** The figures of the tables at the beginning of the first log. */
  #logged: Manifest['tables'] = {};
  /** The figures when the frozen memtable was frozen. */
  #frozen: Manifest['tables'] = {};
  #flushing: Promise<void> | undefined;
  #merging: Promise<void> | undefined;
  #manifest: Promise<void> = Promise.resolve();
  /** Reads in steps that may still use runs that were merged, and these runs. */
  #reading = 0;
  readonly #retired: Run[] = [];
  #isDamaged = false;
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

  get log(): Log {
    return this.#log;
  }

  #idOf(table: Table): number {
    const id = this.#ids.get(table);
    if (id === undefined) throw storeFailed(`there is no table ${table.name}`);
    return id;
  }

  has(table: Table): boolean {
    return this.#ids.has(table);
  }

  /** Is it time to continue in another log? Not while the one before is being flushed, unless this one has grown too long. */
  get isLogFull(): boolean {
    return this.#log.length >= this.#fullAt && (!this.database.frozen || this.#log.length >= 4 * this.#logBytes);
  }

  /** Continues in another log, and flushes the full one in the background. No write may be under way. */
  async rotate(): Promise<void> {
    // Where this fails, as on a full disk, it is tried again when the log has grown as much again.
    this.#fullAt = this.#log.length + this.#logBytes;
    if (this.database.frozen) {
      await this.#flushing;
      // The flush has failed; it is tried again before memory fills up.
      if (this.database.frozen) await this.#flush(this.database.frozen);
    }
    const full = this.#log;
    this.#log = await Log.create(this.#disk, full.number + 1, full.length);
    this.#fullAt = this.#logBytes;
    full.continued();
    full.close();
    this.#freeze();
  }

  /** Writes everything to a single run. No write may be under way. */
  async compact(): Promise<void> {
    await this.rotate();
    await this.#settled();
    await this.#merge(this.#runs.length);
  }

  /** Reads all data, and returns the damages found. No write may be under way. */
  async check(): Promise<Damage[]> {
    await this.#settled();
    const found: Damage[] = [];
    const attempt = async (file: string, task: () => Promise<void>) => {
      await task().catch((error: unknown) => found.push(damageOf(toStoreError(error, file))));
    };
    for (const run of this.#runs) {
      for (const name of run.trees.keys()) await attempt(run.path, () => this.#checkTree(run, name));
    }
    for (const table of this.#tables) await attempt(this.path, () => this.#checkTable(table));
    // Several tables may have met the same damage.
    return [...new Map(found.map((damage) => [`${damage.file} ${damage.what}`, damage])).values()];
  }

  /** Leaves no log to replay, where the disk permits that. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#settled();
    if (!this.database.memtable.isEmpty || this.database.frozen) {
      await this.rotate().catch((error) => this.#report(error));
      await this.#settled();
    }
    this.#log.close();
    for (const run of this.#runs) run.close();
    this.#removeRetired();
  }

  async #open(tables: readonly Table[]): Promise<void> {
    const manifest = readManifest(this.#disk);
    const names = this.#disk.list();
    if (!manifest) this.#assertNew(names);
    await this.#adopt(manifest, tables);
    const { number, length } = manifest ? this.#replay(names, manifest.lastLog) : { number: 0, length: 0 };
    this.#log = await Log.create(this.#disk, number + 1, length);
    if (this.database.memtable.isEmpty) {
      this.#firstLog = this.#log.number;
      this.#logged = this.#records();
    }
    await this.#writeManifest();
    for (const name of names) if (this.#isLeftOver(name)) this.#disk.remove(name);
    if (!this.database.memtable.isEmpty) this.#freeze();
  }

  /** A folder without a manifest is new, unless something was stored in it. */
  #assertNew(names: readonly string[]): void {
    const used = names.find(
      (name) => name.startsWith('run-') || (name.startsWith('log-') && !isUnusedLog(this.#disk, name)),
    );
    if (used !== undefined) throw storeDamaged(this.#disk.pathOf('manifest'), `it is missing, but ${used} is there`);
  }

  async #adopt(manifest: Manifest | undefined, tables: readonly Table[]): Promise<void> {
    const stored = manifest?.tables ?? {};
    const known = new Map(tables.map((table) => [table.name, table]));
    for (const [name, { id, definition }] of Object.entries(stored)) {
      this.#tables[id] = known.get(name) ?? new Table(name, definition);
    }
    for (const table of tables) if (!this.#tables.includes(table)) this.#tables.push(table);
    for (const [id, table] of this.#tables.entries()) {
      this.#ids.set(table, id);
      const record = stored[table.name];
      if (record) assertSame(table, record);
      this.database.setFigures(table, record ?? { rows: 0, bytes: 0, last: 0 });
    }
    this.#logged = this.#records();
    if (!manifest) return;
    this.#nextRun = manifest.nextRun;
    this.#firstLog = manifest.firstLog;
    this.#runs = manifest.runs.map((record) => this.#openRun(record.name, record));
    this.database.setRuns(this.#runs);
    await this.#addIndexes(stored);
  }

  /** Indexes that the stored rows do not have yet. */
  async #addIndexes(stored: Manifest['tables']): Promise<void> {
    const isNew = (tree: Tree) => {
      const names = stored[tree.table.name]?.definition.indexes.map((index) => index.join()) ?? [];
      const index = tree.table.definition.indexes[tree.index];
      return index !== undefined && stored[tree.table.name] !== undefined && !names.includes(index.join());
    };
    const trees = this.#tables.flatMap((table) => treesOf(table)).filter(isNew);
    if (trees.length === 0) return;
    const run = await this.#writeRun(async (writer) => {
      for (const tree of trees) {
        const keys = new SortedKeys();
        for (const row of allSteps(this.database.select(tree.table))) {
          const key = indexKey(tree, row, rowKey(tree.table, row));
          if (key !== undefined) keys.add(key);
        }
        // Keys of an index of the same columns that an earlier release had, and that was not maintained since.
        const stale = new Set(this.database.keysOf(tree));
        const fresh = new Set(keys.range('', undefined, false));
        for (const key of stale) keys.add(key);
        writer.begin(treeName(tree));
        for (const key of keys.range('', undefined, false)) writer.add(key, fresh.has(key) ? NO_VALUE : undefined);
        writer.endTree();
      }
    });
    this.#runs = [run, ...this.#runs];
    this.database.setRuns(this.#runs);
  }

  #openRun(name: string, expected?: RunRecord): Run {
    try {
      const run = new Run(name, this.#disk.open(name), this.#cache);
      if (expected && (run.size !== expected.size || run.sum !== expected.sum)) {
        run.close();
        throw storeDamaged(run.path, 'it is another file than the one that the manifest names');
      }
      return run;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      throw storeDamaged(this.#disk.pathOf(name), 'it is missing');
    }
  }

  /** Makes the changes of the logs that are not in runs. Returns the number and length of the last one. */
  #replay(names: readonly string[], lastLog: number): { number: number; length: number } {
    const damaged = (number: number, what: string) => storeDamaged(this.#disk.pathOf(logName(number)), what);
    const missing = (number: number) => damaged(number, 'it is missing');
    const headless = (number: number) => damaged(number, 'its first bytes are not those of a log');
    const logs = names.filter((name) => /^log-\d{8}$/.test(name)).map((name) => Number(name.slice(4)));
    const numbers = logs.filter((number) => number >= this.#firstLog).sort((a, b) => a - b);
    let length = 0;
    for (let number = this.#firstLog; ; number++) {
      if (!numbers.includes(number)) throw missing(number);
      const hasNext = numbers.includes(number + 1);
      const next = hasNext ? readLogHead(this.#disk, number + 1) : undefined;
      const read = readLog(this.#disk, number, next?.lengthBefore, (record, source) => {
        this.database.replay(record, source, this.#tables);
      });
      length = read.length;
      if (next) continue;
      // A log without a head was being created, and has no records; but not one that was in use, or that has a successor.
      const isNeeded = read.continued || number < lastLog || numbers.some((other) => other > number + 1);
      if (isNeeded) throw hasNext ? headless(number + 1) : missing(number + 1);
      return { number, length };
    }
  }

  #isLeftOver(name: string): boolean {
    if (name.endsWith('.new')) return true;
    if (name.startsWith('run-')) return !this.#runs.some((run) => run.name === name);
    return name.startsWith('log-') && Number(name.slice(4)) < this.#firstLog;
  }

  #freeze(): void {
    this.#frozen = this.#records();
    const frozen = this.database.freeze();
    this.#flushing = this.#flush(frozen)
      .then(() => this.#mergeSome())
      .catch((error) => this.#report(error))
      .finally(() => {
        this.#flushing = undefined;
      });
  }

  /** Merges runs while there are too many, beside the flushes. */
  #mergeSome(): void {
    const count = runsToMerge(this.#runs);
    if (count < 2 || this.#merging || this.#isDamaged || this.#isClosing) return;
    this.#merging = this.#merge(count)
      .then(() => {
        this.#merging = undefined;
        this.#mergeSome();
      })
      .catch((error) => {
        this.#merging = undefined;
        if (!this.#isClosing) this.#report(error);
      });
  }

  /** Resolves when nothing is under way in the background. */
  async #settled(): Promise<void> {
    await this.#flushing;
    while (this.#merging) await this.#merging;
  }

  #report(error: unknown): void {
    // Nothing is lost: the rows stay in the log, or in the runs that were to be merged.
    this.#isDamaged ||= error instanceof EclipticError && error.code === 'STORE_DAMAGED';
    this.#runtime.logger.error({ err: error }, 'store: files could not be written or merged');
  }

  async #flush(frozen: Memtable): Promise<void> {
    const before = this.#firstLog;
    if (!frozen.isEmpty)
      this.#runs = [await this.#writeRun((writer) => this.#writeRows(frozen, writer)), ...this.#runs];
    this.#firstLog = this.#log.number;
    this.#logged = this.#frozen;
    await this.#writeManifest();
    this.database.thaw(this.#runs);
    for (let number = before; number < this.#firstLog; number++) this.#disk.remove(logName(number));
  }

  async #writeRows(frozen: Memtable, writer: RunWriter): Promise<void> {
    for (const table of this.#tables) {
      for (const tree of treesOf(table)) {
        while (frozen.sortSome(tree)) await this.#pause();
        writer.begin(treeName(tree));
        const keys = frozen.scan(tree, '', undefined, false);
        for (let { value } = keys.next(); value; { value } = keys.next()) {
          const { row, live, key } = value;
          writer.add(key, live ? (row?.bytes ?? NO_VALUE) : undefined);
          if (writer.isFull) await writer.write();
        }
        writer.endTree();
      }
    }
  }

  /** Merges the newest runs into one. */
  async #merge(count: number): Promise<void> {
    if (count < 2) return;
    const merged = this.#runs.slice(0, count);
    const trees = this.#tables.flatMap((table) => treesOf(table).map(treeName));
    const isOldest = count === this.#runs.length;
    const run = await this.#writeRun((writer) => {
      return mergeRuns(merged, trees, writer, { isOldest, isStopped: () => this.#isClosing });
    });
    const place = this.#runs.indexOf(merged[0]!);
    this.#runs = [...this.#runs.slice(0, place), run, ...this.#runs.slice(place + count)];
    await this.#writeManifest();
    this.database.setRuns(this.#runs);
    this.#retired.push(...merged);
    if (this.#reading === 0) this.#removeRetired();
  }

  #removeRetired(): void {
    for (const run of this.#retired.splice(0)) {
      run.close();
      this.#disk.remove(run.name);
    }
  }

  async #writeRun(write: (writer: RunWriter) => Promise<void>): Promise<Run> {
    const name = `run-${String(this.#nextRun++).padStart(8, '0')}`;
    const file = this.#disk.create(name);
    try {
      const writer = new RunWriter(file);
      await write(writer);
      await writer.finish();
    } catch (error) {
      file.abandon();
      throw toStoreError(error, this.#disk.pathOf(name));
    }
    return this.#openRun(name);
  }

  #records(): Manifest['tables'] {
    const entries = this.#tables.map((table, id): [string, TableRecord] => {
      return [table.name, { id, definition: table.definition, ...this.database.figures(table) }];
    });
    return Object.fromEntries(entries);
  }

  /** One at a time, each with the state at its turn. */
  #writeManifest(): Promise<void> {
    const write = () => {
      const runs = this.#runs.map(({ name, size, sum }) => ({ name, size, sum }));
      const [nextRun, firstLog, tables] = [this.#nextRun, this.#firstLog, this.#logged];
      return writeManifest(this.#disk, { nextRun, firstLog, lastLog: this.#log.number, runs, tables });
    };
    const written = this.#manifest.then(write);
    this.#manifest = written.catch(() => {});
    return written;
  }

  async #checkTree(run: Run, name: string): Promise<void> {
    let before: string | undefined;
    for (const { block } of run.blocks(name)) {
      for (let place = 0; place < block.count; place++) {
        const key = block.key(place);
        if (before !== undefined && key <= before) throw storeDamaged(run.path, `${name} is out of order`);
        before = key;
      }
      await this.#pause();
    }
  }

  /** Each row is in each of its indexes, and there are as many as there should be. */
  async #checkTable(table: Table): Promise<void> {
    const { rows } = this.database.figures(table);
    const counted = await this.inSteps(this.database.count(table, { where: {} }));
    if (counted !== rows) throw storeDamaged(this.path, `table ${table.name} has ${counted} of ${rows} rows`);
    for (const [place, index] of table.indexes.entries()) {
      if (index.some((column) => table.nullable[column])) continue;
      const keys = await this.inSteps(this.database.countKeys(treesOf(table)[place + 1]!));
      if (keys !== rows) throw storeDamaged(this.path, `an index of ${table.name} has ${keys} of ${rows} rows`);
    }
  }

  /** Takes the steps of a long computation, with other tasks between them. */
  async inSteps<Result>(steps: Steps<Result>): Promise<Result> {
    this.#reading++;
    try {
      for (;;) {
        const { done, value } = steps.next();
        if (done) return value;
        await this.#pause();
      }
    } finally {
      if (--this.#reading === 0) this.#removeRetired();
    }
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

function damageOf({ details, message }: EclipticError): Damage {
  return { file: String(details.file ?? ''), what: String(details.damaged ?? message) };
}
