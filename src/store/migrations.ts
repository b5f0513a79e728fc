import { APPLICATION_ID } from './examine.js';
import { SHAPES, TABLE_NAMES } from './shapes.js';
import { createTable } from './statements.js';

/**
 * The way from each schema version to the next: the first leads from 1 to 2. A file without tables gets the present
 * tables at once; one that an earlier release made goes every step, and must end with the same tables. A step that
 * changes a table's columns must write its rows anew, for their checksums cover all columns.
 */
const MIGRATIONS: readonly (readonly string[])[] = [];

/** The figures of each log: how many rows and bytes of text it has, and the highest number it ever gave. */
export const FIGURES_TABLE = '_figures';

/** Calls whose rows are not in their tables yet, as they travel between the threads: see `pending.ts`. */
export const PENDING_TABLE = '_pending';

/** The statements that bring a file of that version (0: without tables) to the present one, version included. */
export function migration(from: number, steps = MIGRATIONS): string[] {
  const version = steps.length + 1;
  if (from === version) return [];
  const statements = from === 0 ? createAll() : steps.slice(from - 1).flat();
  return [...statements, `PRAGMA user_version = ${version}`];
}

export const SCHEMA_VERSION = MIGRATIONS.length + 1;

function createAll(): string[] {
  const logs = TABLE_NAMES.filter((name) => SHAPES[name].numbered);
  return [
    `PRAGMA application_id = ${APPLICATION_ID}`,
    ...TABLE_NAMES.flatMap(createTable),
    `CREATE TABLE "${FIGURES_TABLE}" (name text PRIMARY KEY, rows integer, bytes integer, last integer) STRICT, WITHOUT ROWID`,
    `CREATE TABLE "${PENDING_TABLE}" (number integer PRIMARY KEY, calls text, sum integer) STRICT`,
    ...logs.map((name) => `INSERT INTO "${FIGURES_TABLE}" VALUES ('${name}', 0, 0, 0)`),
  ];
}
