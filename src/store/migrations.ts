import { APPLICATION_ID } from './examine.js';
import { SHAPES, TABLE_NAMES } from './shapes.js';
import { createTable } from './statements.js';

/**
 * The migration from each schema version to the next, beginning with 1 to 2. A file without tables gets the present
 * tables at once; a file of an earlier release takes every step, and must end with the same tables. A step that changes
 * the columns of a table must rewrite its rows, because their checksums cover all columns.
 */
const MIGRATIONS: readonly (readonly string[])[] = [];

/** Rows, bytes of text and highest number of each numbered table. */
export const FIGURES_TABLE = '_figures';

/** Pending calls, in the form of `wire.ts`; see `pending.ts`. */
export const PENDING_TABLE = '_pending';

/** The statements that migrate a file from a version (0: without tables) to the present one. */
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
