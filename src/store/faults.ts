import { basename } from 'node:path';
import { describeError, EclipticError, isErrorCode } from '../runtime/errors.js';

/** A call failed; it may succeed later. */
export function storeFailed(message: string, details: Record<string, unknown> = {}, cause?: unknown): EclipticError {
  return new EclipticError('STORE_FAILED', message, details, cause);
}

/** Stored data is damaged. */
export function storeDamaged(file: string, what: string, details: Record<string, unknown> = {}): EclipticError {
  return new EclipticError('STORE_DAMAGED', `${file} is damaged: ${what}`, { file, damaged: what, ...details });
}

export function storeClosed(): EclipticError {
  return storeFailed('the store is closed', { reason: 'closed' });
}

export function rowExists(table: string, key: readonly unknown[]): EclipticError {
  return storeFailed(`${table} already has a row with the key ${JSON.stringify(key)}`, { conflict: table, key });
}

/** Prefix of SQLite's error code, reason and message. */
const REASONS: readonly (readonly [string, string, string])[] = [
  ['SQLITE_FULL', 'full', 'the disk is full'],
  ['SQLITE_BUSY', 'locked', 'another process holds it'],
  ['SQLITE_LOCKED', 'locked', 'another process holds it'],
  ['SQLITE_IOERR', 'io', 'the disk reports an error'],
  ['SQLITE_CANTOPEN', 'io', 'it cannot be opened'],
  ['SQLITE_READONLY', 'io', 'it cannot be written'],
];

/** Errors of SQLite or the file system as errors of the catalogue. */
export function toStoreError(error: unknown, file: string, table?: string): EclipticError {
  if (error instanceof EclipticError) return error;
  const code = String((error as { code?: unknown } | undefined)?.code ?? '');
  const text = describeError(error);
  const where = table === undefined ? {} : { table };
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    return storeDamaged(file, table === undefined ? text : `table ${table}: ${text}`, where);
  }
  const known = REASONS.find(([prefix]) => code.startsWith(prefix));
  const [, reason, words] = known ?? ['', 'other', text];
  return storeFailed(`cannot use ${basename(file)}: ${words}`, { file, reason, code, ...where }, error);
}

/** An error as it is sent between threads. */
export interface Fault {
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export function toFault(error: EclipticError): Fault {
  return { code: error.code, message: error.message, details: error.details };
}

export function fromFault({ code, message, details }: Fault): EclipticError {
  return new EclipticError(isErrorCode(code) ? code : 'STORE_FAILED', message, details);
}
