import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { evidenceOf, type Finding, isSample } from './finding.js';
import type { SourceFile } from './workspace-files.js';

/** MERCURY: files that a package.json promises and that are not there, unless a build makes them. */
export function reviewPackages(
  root: string,
  files: readonly SourceFile[],
  isIgnored: (path: string) => boolean,
): Finding[] {
  return files.flatMap((file) => {
    if (posix.basename(file.path) !== 'package.json' || isSample(file.path)) return [];
    const manifest = read(file.text);
    // What a private package or one with a build step names may be made later.
    if (manifest === undefined || hasBuild(manifest)) return [];
    return promised(manifest).flatMap(({ key, path }) => {
      const target = posix.normalize(posix.join(posix.dirname(file.path), path));
      if (target.startsWith('../') || exists(root, target) || isIgnored(target)) return [];
      return [missing(file, key, path)];
    });
  });
}

interface Manifest {
  readonly main?: unknown;
  readonly bin?: unknown;
  readonly types?: unknown;
  readonly exports?: unknown;
  readonly scripts?: Readonly<Record<string, unknown>>;
}

function read(text: string): Manifest | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Manifest) : undefined;
  } catch {
    return undefined;
  }
}

function hasBuild({ scripts }: Manifest): boolean {
  if (typeof scripts !== 'object' || scripts === null) return false;
  return Object.keys(scripts).some((name) => /build|compile|bundle|dist|prepare|prepack|prepublish/.test(name));
}

function promised({ main, bin, types, exports }: Manifest): { key: string; path: string }[] {
  const found: { key: string; path: string }[] = [];
  const add = (key: string, value: unknown, depth = 0): void => {
    if (typeof value === 'string') {
      if (!/[*?]/.test(value) && !/^[a-z]+:|^@|^#/.test(value)) found.push({ key, path: value });
    } else if (typeof value === 'object' && value !== null && depth < 8) {
      for (const inner of Object.values(value)) add(key, inner, depth + 1);
    }
  };
  add('main', main);
  add('bin', bin);
  add('types', types);
  add('exports', exports);
  return found
    .filter(({ path }, at) => path !== '' && found.findIndex((one) => one.path === path) === at)
    .slice(0, 100);
}

function exists(root: string, path: string): boolean {
  return ['', '.js', '.cjs', '.mjs', '.json', '.node', '/index.js'].some((end) => existsSync(join(root, path + end)));
}

function missing({ path: file, text }: SourceFile, key: string, path: string): Finding {
  const lines = text.split('\n');
  const at = Math.max(
    0,
    lines.findIndex((line) => line.includes(JSON.stringify(path))),
  );
  const message = `"${key}" names ${path}, which does not exist`;
  return {
    agent: 'mercury',
    rule: 'package/missing-file',
    // Without its types a package still runs.
    severity: /\.d\.[cm]?ts$/.test(path) ? 'medium' : 'high',
    file,
    line: at + 1,
    message,
    evidence: evidenceOf(lines[at]!),
  };
}
