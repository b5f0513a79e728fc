import { closeSync, constants, fstatSync, openSync, readdirSync, readlinkSync, readSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { IgnoreRules } from './ignore-rules.js';

/** What one look at a workspace may take. */
export interface FileLimits {
  readonly files: number;
  /** Of one file. */
  readonly fileBytes: number;
  readonly totalBytes: number;
  /** Folders within folders. */
  readonly depth: number;
}

export const FILE_LIMITS: FileLimits = {
  files: 20_000,
  fileBytes: 1_048_576,
  totalBytes: 128 * 1_048_576,
  depth: 64,
};

export interface SourceFile {
  /** Within the workspace, with `/`. */
  readonly path: string;
  readonly text: string;
}

/** Files that were left out, by reason. */
export interface Skipped {
  links: number;
  tooLarge: number;
  binary: number;
  unreadable: number;
  /** Not looked at, because a limit was reached. */
  beyondLimits: number;
}

export interface WorkspaceFiles {
  readonly root: string;
  readonly files: readonly SourceFile[];
  readonly skipped: Readonly<Skipped>;
  /** Do the `.gitignore` files exclude that path, whether it exists or not? */
  readonly isIgnored: (path: string) => boolean;
}

/** Folders that hold no work of the repository's authors. */
const PASSED_OVER: ReadonlySet<string> = new Set(['.git', '.hg', '.svn', '.jj', 'node_modules']);
const BINARY_SNIFF_BYTES = 8_000;
const IGNORE_FILE = '.gitignore';
const MAX_IGNORE_BYTES = 262_144;

interface Rules {
  /** The folder of the `.gitignore`, with a slash at its end, or empty. */
  readonly base: string;
  readonly rules: IgnoreRules;
}

/**
 * Reads the text files of a folder that its `.gitignore` files do not exclude. Links are not followed, and nothing outside
 * is opened. Blocks: it belongs into a process of its own.
 */
export function readWorkspace(
  folder: string,
  { limits = FILE_LIMITS, hidden = [] }: { limits?: FileLimits; hidden?: readonly string[] | undefined } = {},
): WorkspaceFiles {
  const root = realRoot(folder);
  const files: SourceFile[] = [];
  const skipped: Skipped = { links: 0, tooLarge: 0, binary: 0, unreadable: 0, beyondLimits: 0 };
  const allRules: Rules[] = [];
  let bytes = 0;
  const visit = (path: string, above: readonly Rules[], depth: number): void => {
    let entries: import('node:fs').Dirent[];
    try {
      entries = readdirSync(join(root, path), { withFileTypes: true });
    } catch {
      skipped.unreadable++;
      return;
    }
    const base = path === '' ? '' : `${path}/`;
    const own = entries.some((entry) => entry.name === IGNORE_FILE && entry.isFile())
      ? readText(root, `${base}${IGNORE_FILE}`, MAX_IGNORE_BYTES).text
      : undefined;
    const added = own !== undefined ? { base, rules: new IgnoreRules(own) } : undefined;
    if (added) allRules.push(added);
    const rules = added ? [...above, added] : above;
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const inside = `${base}${entry.name}`;
      if (entry.isSymbolicLink()) skipped.links++;
      else if (entry.isDirectory()) {
        if (PASSED_OVER.has(entry.name) || isIgnored(rules, `${inside}/`) || hidden.includes(join(root, inside)))
          continue;
        if (depth >= limits.depth) skipped.beyondLimits++;
        else visit(inside, rules, depth + 1);
      } else if (entry.isFile() && !isIgnored(rules, inside)) {
        if (files.length >= limits.files || bytes >= limits.totalBytes) {
          skipped.beyondLimits++;
          continue;
        }
        const { text, skipped: reason } = readText(root, inside, limits.fileBytes);
        if (text === undefined) skipped[reason]++;
        else {
          files.push({ path: inside, text });
          bytes += text.length;
        }
      }
    }
  };
  visit('', [], 0);
  const excluded = (path: string) =>
    isIgnored(
      allRules.filter(({ base }) => path.startsWith(base)),
      path,
    );
  return { root, files, skipped, isIgnored: (path) => foldersOf(path).some(excluded) };
}

export function realRoot(folder: string): string {
  try {
    const root = realpathSync(folder);
    readdirSync(root);
    return root;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new EclipticError(
      'RESOURCE_NOT_FOUND',
      `${folder} is no folder that can be read: ${code}`,
      { folder },
      error,
    );
  }
}

/** The folders of a path, and the path. */
function foldersOf(path: string): string[] {
  const parts = path.split('/');
  return parts.map((_, at) => `${parts.slice(0, at + 1).join('/')}${at + 1 < parts.length ? '/' : ''}`);
}

/** As git decides: the last rule that matches wins, and deeper files come later. */
function isIgnored(rules: readonly Rules[], path: string): boolean {
  for (let at = rules.length - 1; at >= 0; at--) {
    const { base, rules: own } = rules[at]!;
    const isIgnored = own.test(path.slice(base.length));
    if (isIgnored !== undefined) return isIgnored;
  }
  return false;
}

/** The text of a file, or why it has none. */
type ReadText =
  | { readonly text: string; readonly skipped?: undefined }
  | { readonly text?: undefined; readonly skipped: Exclude<keyof Skipped, 'beyondLimits'> };

/** Reads a file within the folder. */
export function readText(root: string, path: string, maxBytes: number): ReadText {
  let file: number | undefined;
  try {
    // Opening a pipe must not block, and a link may have been put there since the folder was listed.
    file = openSync(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(file);
    if (!status.isFile()) return { skipped: 'unreadable' };
    if (!isInside(root, realPathOf(root, path, file))) return { skipped: 'links' };
    if (status.size > maxBytes) return { skipped: 'tooLarge' };
    const bytes = Buffer.allocUnsafe(status.size);
    let length = 0;
    while (length < bytes.length) {
      const read = readSync(file, bytes, length, bytes.length - length, length);
      if (read === 0) break;
      length += read;
    }
    const content = bytes.subarray(0, length);
    if (content.subarray(0, BINARY_SNIFF_BYTES).includes(0)) return { skipped: 'binary' };
    const text = content.toString('utf8');
    return { text: text.charCodeAt(0) === 0xfeff ? text.slice(1) : text };
  } catch (error) {
    return { skipped: (error as NodeJS.ErrnoException).code === 'ELOOP' ? 'links' : 'unreadable' };
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function realPathOf(root: string, path: string, file: number): string {
  return process.platform === 'linux' ? readlinkSync(`/proc/self/fd/${file}`) : realpathSync(join(root, path));
}

export function isInside(root: string, real: string): boolean {
  return real === root || real.startsWith(root.endsWith(sep) ? root : root + sep);
}
