import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';

/** The text of a file that a person edits, too; undefined without a file. Other encodings would not survive a rewrite. */
export function readUtf8(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const bytes = readFileSync(file);
  const text = bytes.toString('utf8');
  if (Buffer.from(text).equals(bytes)) return text;
  throw new EclipticError('INVALID_CONFIG', 'it is not UTF-8; correct it first', { file });
}

/** Replaces the file atomically, with its mode (`mode` for a new file); a symbolic link stays a link. */
export function replaceText(file: string, text: string, mode: number): void {
  const target = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(dirname(target), { recursive: true });
  const present = statSync(target, { throwIfNoEntry: false });
  const temporary = `${target}.ecliptic`;
  writeFileSync(temporary, text, { mode: present ? present.mode & 0o777 : mode });
  renameSync(temporary, target);
}
