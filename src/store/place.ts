import { statSync } from 'node:fs';

/** Tells one file from every copy of it, as far as the file system can; nothing where there is no such file. */
export function placeOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.birthtimeMs}`;
}
