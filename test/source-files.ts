import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** The built program. */
export const BIN = join(ROOT, 'bin', 'ecliptic');

export interface SourceFile {
  /** From the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** The TypeScript files below a folder of this repository, but for installed ones. */
export function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .map((name) => join(folder, name).replaceAll('\\', '/'))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));
}

/** The files a file imports from this repository, types included. */
export function localImports(file: SourceFile): string[] {
  const found: string[] = [];
  for (const [, specifier] of file.text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)) {
    const target = resolve(ROOT, dirname(file.path), specifier!.replace(/\.js$/, '.ts'));
    found.push(relative(ROOT, target).replaceAll('\\', '/'));
  }
  return found;
}
