import { existsSync, readdirSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { pushConfigs } from '../../a2a/server/tables.js';
import { inbox, outbox } from '../../mail/tables.js';
import { EclipticError } from '../../runtime/errors.js';
import type { FileStore } from '../../store/file-store.js';
import type { AnyRow, Table } from '../../store/table.js';
import { type Backup, backUp } from './backup.js';

export interface StoreCheck {
  readonly intact: boolean;
  /** Rows and tables are null where the store cannot be opened. */
  readonly rows: number | null;
  readonly tables: number | null;
  /** The size of its files. */
  readonly bytes: number;
  readonly damages: readonly { readonly file: string; readonly what: string }[];
}

/** The size of the files, in bytes. */
export interface Compacted {
  readonly before: number;
  readonly after: number;
}

export interface ExportedRow {
  readonly table: string;
  readonly row: AnyRow;
}

const PAGE = 100;
/** Columns with credentials of others, which no command shows. */
const HIDDEN: ReadonlyMap<Table, string> = new Map([[pushConfigs, 'config']]);

/** What the owner can do with the store of a data folder. */
export class StoreOperations {
  readonly #store: FileStore;
  readonly #tables: readonly Table[];
  readonly #dataFolder: string;

  constructor(store: FileStore, tables: readonly Table[], dataFolder: string) {
    this.#store = store;
    this.#tables = tables;
    this.#dataFolder = dataFolder;
  }

  async check(): Promise<StoreCheck> {
    const damages = await this.#store.check();
    const counts = await Promise.all(this.#tables.map((table) => this.#store.count(table)));
    const rows = counts.reduce((sum, count) => sum + count, 0);
    const bytes = storeBytes(this.#dataFolder);
    return { intact: damages.length === 0, rows, tables: this.#tables.length, bytes, damages };
  }

  /** The size of the files, the space that is left on their disk, and the durable messages that wait. */
  async size(): Promise<{ bytes: number; freeBytes: number | null; outbox: number; inbox: number }> {
    const space = statfs(this.#dataFolder).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => null,
    );
    const counts = [this.#store.count(outbox), this.#store.count(inbox)];
    const [freeBytes, sent = 0, received = 0] = await Promise.all([space, ...counts]);
    return { bytes: storeBytes(this.#dataFolder), freeBytes, outbox: sent, inbox: received };
  }

  async compact(): Promise<Compacted> {
    const before = storeBytes(this.#dataFolder);
    await this.#store.compact();
    return { before, after: storeBytes(this.#dataFolder) };
  }

  /** Copies the whole data folder; the store stands still only while what has changed meanwhile is copied again. */
  backUp(to: string): Promise<Backup> {
    return backUp(this.#dataFolder, to, (task) => this.#store.still(task));
  }

  /**
   * The rows of a table, or of all; page by page, so rows that are written meanwhile may be missing. A damaged table ends
   * at the damage, the others follow, and the error comes last.
   */
  async *export(name: string | undefined): AsyncGenerator<ExportedRow> {
    const damages: string[] = [];
    for (const table of name === undefined ? this.#tables : [this.#tableNamed(name)]) {
      const hidden = HIDDEN.get(table);
      try {
        for await (const row of rowsOf(this.#store, table)) {
          yield { table: table.name, row: hidden === undefined ? row : { ...row, [hidden]: '(hidden)' } };
        }
      } catch (error) {
        if (!(error instanceof EclipticError) || error.code !== 'STORE_DAMAGED') throw error;
        damages.push(`${table.name} (${error.message})`);
      }
    }
    if (damages.length > 0) {
      throw new EclipticError('STORE_DAMAGED', `not all rows could be exported: ${damages.join('; ')}`, { damages });
    }
  }

  #tableNamed(name: string): Table {
    const table = this.#tables.find((one) => one.name === name);
    if (table) return table;
    const names = this.#tables.map((one) => one.name);
    throw new EclipticError('USAGE', `there is no table "${name}"; there are ${names.join(', ')}`, { names });
  }
}

/** The outcome of a check where the store cannot even be opened. */
export function damagedStore(error: EclipticError, dataFolder: string): StoreCheck {
  const { file = join(dataFolder, 'store'), damaged = error.message } = error.details;
  const damages = [{ file: String(file), what: String(damaged) }];
  return { intact: false, rows: null, tables: null, bytes: storeBytes(dataFolder), damages };
}

/**
 * Reads in the order of the key. After a full page: the rows with the same key but for a greater last column; when there
 * are no more, those that are greater in the column before it, and so on.
 */
async function* rowsOf(store: FileStore, table: Table): AsyncGenerator<AnyRow> {
  const { key } = table.definition;
  let page: AnyRow[] = await store.read(table, { limit: PAGE });
  yield* page;
  for (let depth = page.length < PAGE ? 0 : key.length, last = page.at(-1)!; depth > 0; ) {
    const column = key[depth - 1]!;
    const where = Object.fromEntries(key.slice(0, depth - 1).map((name) => [name, last[name]]));
    page = await store.read(table, { where, above: { [column]: last[column] }, limit: PAGE });
    yield* page;
    if (page.length === PAGE) {
      last = page.at(-1)!;
      depth = key.length;
    } else {
      depth--;
    }
  }
}

function storeBytes(dataFolder: string): number {
  const folder = join(dataFolder, 'store');
  if (!existsSync(folder)) return 0;
  const sizes = readdirSync(folder).map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0);
  return sizes.reduce((sum, size) => sum + size, 0);
}
