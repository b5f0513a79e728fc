import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parse } from 'jsonc-parser';

/**
 * The data folder that a configuration file names, without checking the rest of it: what a command must know to find
 * the running node. A file that cannot be read names none; `up` and `config check` say what is wrong with it.
 */
export function dataFolderOf(name: string | undefined, cwd: string): string | undefined {
  const file = resolve(cwd, name ?? 'ecliptic.json');
  let config: { data?: unknown } | undefined;
  try {
    config = parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
  return typeof config?.data === 'string' ? resolve(dirname(file), config.data) : undefined;
}
