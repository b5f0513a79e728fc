import { describeError, EclipticError } from '../runtime/errors.js';
import type { AnyRow, Table } from './table.js';

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

export function rowExists(table: Table, row: AnyRow): EclipticError {
  const key = table.key.map((column) => row[table.columns[column]!]!);
  const message = `${table.name} already has a row with the key ${JSON.stringify(key)}`;
  return storeFailed(message, { conflict: table.name, key });
}

/** Code of the file system, reason and message. */
const REASONS: Readonly<Record<string, readonly [reason: string, words: string]>> = {
  ENOSPC: ['full', 'the disk is full'],
  EDQUOT: ['full', 'the disk quota is used up'],
  EFBIG: ['full', 'the file would be too large'],
  EROFS: ['io', 'the disk is read-only'],
  EACCES: ['io', 'access is denied'],
  EPERM: ['io', 'access is denied'],
  ENOENT: ['io', 'it does not exist'],
  EIO: ['io', 'the disk reports an error'],
};

/** Errors of the file system as errors of the catalogue. */
export function toStoreError(error: unknown, file: string): EclipticError {
  if (error instanceof EclipticError) return error;
  const code = String((error as { code?: unknown } | undefined)?.code ?? '');
  const [reason, words] = REASONS[code] ?? ['other', describeError(error)];
  return storeFailed(`cannot use ${file}: ${words}`, { file, reason, code }, error);
}
