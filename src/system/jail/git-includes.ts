import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';

const GIT_MS = 10_000;
const MAX_FILES = 100;
const PATHS = ['--no-includes', '--null', '--path', '--get-regexp', String.raw`^include(if\..*)?\.path$`];
const NOTHING_FOUND = 1;

/** The files that files of git's settings include, also by way of others and under conditions; some may not exist. */
export function includedFiles(files: readonly string[]): string[] {
  const found = new Set<string>();
  const waiting = [...files];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    for (const path of includedIn(file)) {
      if (found.has(path)) continue;
      found.add(path);
      waiting.push(path);
    }
    if (found.size > MAX_FILES) throw unreadable(file, `they are more than ${MAX_FILES}`);
  }
  return [...found];
}

function includedIn(file: string): string[] {
  if (!/include/i.test(textOf(file))) return [];
  const { status, stdout, stderr, error } = spawnSync('git', ['config', '--file', file, ...PATHS], {
    encoding: 'utf8',
    timeout: GIT_MS,
  });
  if (status !== 0 && status !== NOTHING_FOUND) throw unreadable(file, error?.message ?? stderr.trim());
  const entries = (stdout ?? '').split('\0').filter((entry) => entry.includes('\n'));
  return entries.map((entry) => resolve(dirname(file), entry.slice(entry.indexOf('\n') + 1)));
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function unreadable(file: string, reason: string): EclipticError {
  const message = `a jail cannot protect the files that ${file} includes: ${reason}`;
  return new EclipticError('INVALID_CONFIG', message, { path: file, faults: [file] });
}
