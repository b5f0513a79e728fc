import { crc32 } from 'node:zlib';
import type Libsql from 'libsql';
import { EclipticError } from '../runtime/errors.js';
import { storeDamaged, toStoreError } from '../store/faults.js';
import type { AnyRow, Table, Value, Write } from '../store/table.js';

/** The tables of release 0.1, in the order in which its pending calls number them. */
const NAMES = [
  ...['journal', 'outbox', 'inbox', 'receipts', 'watches', 'cursors', 'addresses', 'permits', 'agentState', 'audit'],
  ...['tasks', 'taskEvents', 'pushConfigs', 'sessions', 'stateSegments', 'projects', 'profiles', 'letters', 'members'],
  ...['acquaintances', 'runs', 'runEvents', 'proposals', 'swarms', 'swarmLog', 'swarmFindings', 'leases', 'keepers'],
  'meta',
];
const VERSION = 1;
/** "ECLP", in the header of the file. */
const APPLICATION_ID = 0x45434c50;

/** The last number that a table gave to a row, and how many rows it has. */
interface Numbered {
  readonly table: Table;
  readonly rows: number;
  readonly last: number;
}

type OldChange =
  | readonly [isPut: 0 | 1, table: number, values: readonly Value[]]
  | { readonly kind: 'update'; readonly table: string; readonly terms: Terms; readonly set: readonly [number, Value][] }
  | { readonly kind: 'delete'; readonly table: string; readonly terms: Terms };

/** Pending changes name their rows by key: each term has the value, or the values, of a column. */
type Terms = readonly { readonly column: number; readonly value?: Value; readonly values?: readonly Value[] }[];

/**
 * The data of a store of release 0.1. Its rows have checksums. Nothing is read as text: the binding ends the process when
 * a text is not UTF-8, which one flipped bit can cause.
 */
export class SqliteFile {
  /** For messages: where the data comes from. */
  readonly #file: string;
  readonly #database: Libsql.Database;
  readonly tables: readonly Table[];

  constructor(file: string, database: Libsql.Database, tables: readonly Table[]) {
    this.#file = file;
    this.#database = database;
    const known = new Map(tables.map((table) => [table.name, table]));
    this.tables = NAMES.map((name) => known.get(name)!);
  }

  /** Refuses files of other programs and releases, and damaged ones; false for a file without tables. */
  examine(): boolean {
    const [version] = this.#first('PRAGMA user_version');
    if (version === 0) return false;
    if (version !== VERSION) {
      const details = { file: this.#file, expected: VERSION, found: version };
      throw new EclipticError('SCHEMA_VERSION_MISMATCH', `${this.#file} was written by a later release`, details);
    }
    if (this.#first('PRAGMA application_id')[0] !== APPLICATION_ID) throw this.#damaged('it is not a store');
    for (const [line] of this.#all('SELECT CAST(integrity_check AS blob) FROM pragma_integrity_check')) {
      if (String(line) !== 'ok') throw this.#damaged(String(line));
    }
    return true;
  }

  /** Frames of the write-ahead log that are valid; not positive where there is no log. */
  frames(): number {
    return this.#first('PRAGMA wal_checkpoint(PASSIVE)')[1] as number;
  }

  *rows(): Iterable<Write> {
    for (const table of this.tables) {
      const texts = table.columns.filter((_, index) => table.types[index] === 'text');
      const columns = [
        ...table.columns.map((name, index) => {
          return table.types[index] === 'text' ? `octet_length("${name}")` : `CAST("${name}" AS ${table.types[index]})`;
        }),
        'CAST("_sum" AS integer)',
        `CAST(${texts.map((name) => `coalesce("${name}", '')`).join(' || ')} AS blob)`,
      ];
      const statement = this.#database.prepare(`SELECT ${columns.join(', ')} FROM "${table.name}"`).raw(true);
      for (const raw of statement.iterate()) yield table.insert(this.#decode(table, raw as unknown[]));
    }
  }

  numbered(): Numbered[] {
    return this.tables
      .filter(({ numberColumn }) => numberColumn >= 0)
      .map((table) => {
        const [rows, last] = this.#first(`SELECT rows, last FROM "_figures" WHERE name = '${table.name}'`) as number[];
        if (!Number.isSafeInteger(rows) || !Number.isSafeInteger(last)) throw this.#damaged('its figures are missing');
        return { table, rows: rows!, last: last! };
      });
  }

  /** Changes that are not in the tables yet, in their order. */
  *pending(): Iterable<Write[]> {
    const select = 'SELECT number, CAST(calls AS blob), CAST(sum AS integer) FROM "_pending" ORDER BY number';
    for (const [index, [number, bytes, sum]] of this.#all(select).entries()) {
      if (number !== index + 1 || !Buffer.isBuffer(bytes) || crc32(bytes) !== sum) {
        throw this.#damaged('the pending calls cannot be read', { table: '_pending' });
      }
      // Reads are in the list too, and are not lists themselves.
      const calls: unknown[] = JSON.parse(bytes.toString());
      yield calls
        .filter(Array.isArray)
        .flatMap((changes: OldChange[]) => changes.map((change) => this.#toWrite(change)));
    }
  }

  #toWrite(change: OldChange): Write {
    if (Array.isArray(change)) {
      const [isPut, number, values] = change;
      const table = this.tables[number]!;
      return isPut ? table.put(toRow(table, values)) : table.insert(toRow(table, values));
    }
    const { table: name, terms } = change as Exclude<OldChange, readonly unknown[]>;
    const table = this.tables[NAMES.indexOf(name)]!;
    const where = Object.fromEntries(
      terms.map(({ column, value, values }) => [table.columns[column], values ?? value]),
    );
    if (!('set' in change)) return table.delete(where);
    return table.update(where, Object.fromEntries(change.set.map(([column, value]) => [table.columns[column], value])));
  }

  /** A row is read as its numbers, the lengths of its texts, its checksum, and one blob with all texts. */
  #decode(table: Table, raw: readonly unknown[]): AnyRow {
    const width = table.columns.length;
    const body = (raw[width + 1] as Buffer | null) ?? Buffer.alloc(0);
    let head = table.name;
    let offset = 0;
    const values = table.types.map((type, index) => {
      const value = raw[index] as number | null;
      head += value === null ? '|' : type === 'text' ? `|:${value}` : `|${value}`;
      if (value === null || type !== 'text') return value;
      offset += value;
      return body.toString('utf8', offset - value, offset);
    });
    // Node's crc32 of nothing is 0, whatever its initial value.
    const sum = body.length === 0 ? crc32(head) : crc32(body, crc32(head));
    if (sum === raw[width]) return toRow(table, values);
    const key = table.key.map((column) => values[column]);
    const what = `the row ${JSON.stringify(key)} of table ${table.name} has a wrong checksum`;
    throw this.#damaged(what, { table: table.name, key });
  }

  #first(text: string): unknown[] {
    return this.#all(text)[0] ?? [];
  }

  #all(text: string): unknown[][] {
    return this.#database.prepare(text).raw(true).all() as unknown[][];
  }

  #damaged(what: string, details?: Record<string, unknown>): EclipticError {
    return storeDamaged(this.#file, what, details);
  }
}

/** Errors of SQLite as errors of the catalogue. */
export function toSqliteError(error: unknown, file: string): EclipticError {
  const { code, message } = error as { code?: unknown; message: string };
  const isDamage = String(code).startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB';
  return isDamage ? storeDamaged(file, message) : toStoreError(error, file);
}

function toRow(table: Table, values: readonly Value[]): AnyRow {
  return Object.fromEntries(table.columns.map((name, index) => [name, values[index]!]));
}
