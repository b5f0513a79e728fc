import { EclipticError } from '../runtime/errors.js';
import { LOG_NAMES, type LogFigures } from './changes.js';
import type { Connection } from './connection.js';
import { toStoreError } from './faults.js';
import type { StoreFiles } from './files.js';
import { TABLE_NAMES } from './shapes.js';
import { measureRows, ROW_FORMATS, SELECT_ALL } from './statements.js';
import type { TableName } from './tables.js';
import type { Watch } from './watch.js';
import type { Damage } from './wire.js';

/** Checks everything: pages and log against their checksums, and each table's structure, rows and figures. */
export function findDamage(files: StoreFiles, connection: Connection, figures: LogFigures, watch: Watch): Damage[] {
  const { database } = files;
  const found: Damage[] = [];
  const note = (error: unknown, table?: string) => {
    const { details, message } = toStoreError(error, database, table);
    found.push({
      file: String(details.file ?? database),
      table: (details.table as string | undefined) ?? table,
      what: String(details.damaged ?? message),
    });
  };
  for (const error of watch.checkAll()) note(error);
  for (const table of TABLE_NAMES) {
    try {
      // As a blob: a name in a damaged schema may not be UTF-8.
      const said = connection.all(`SELECT CAST(integrity_check AS blob) FROM pragma_integrity_check('${table}')`);
      for (const [line] of said) {
        if (String(line) !== 'ok') found.push({ file: database, table, what: String(line) });
      }
    } catch (error) {
      note(error, table);
    }
    try {
      for (const error of damagedRows(database, connection, table)) note(error, table);
    } catch (error) {
      note(error, table);
    }
  }
  for (const log of LOG_NAMES) {
    try {
      const [[rows, bytes]] = connection.all(measureRows(log, []).text) as [[number, number]];
      const figure = figures.of(log);
      if (figure.rows === rows && figure.bytes === bytes) continue;
      const what = `it has ${rows} rows of ${bytes} bytes, and should have ${figure.rows} of ${figure.bytes}`;
      found.push({ file: database, table: log, what });
    } catch (error) {
      note(error, log);
    }
  }
  return found;
}

function* damagedRows(file: string, connection: Connection, table: TableName): Iterable<EclipticError> {
  const format = ROW_FORMATS[table];
  for (const raw of connection.each(SELECT_ALL[table])) {
    try {
      format.decode(file, raw);
    } catch (error) {
      if (!(error instanceof EclipticError)) throw error;
      yield error;
    }
  }
}
