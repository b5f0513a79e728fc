import { basename, dirname, relative, resolve, sep } from 'node:path';
import { realPath } from '../leases/guard.js';
import { UNKNOWN } from './shell-commands.js';

const EVERYTHING = () => true;
/** What the shell or git replaces by other text. */
const PATTERN = /[*?[{\\]/;

/**
 * Whether a pathspec in a shell command could mean a file of the repository. It is read as the shell and git read it, as
 * far as that can be told; where it cannot, it could mean every file.
 */
export function couldMean(pathspec: string, { root, from }: { root: string; from: string }): (file: string) => boolean {
  // Variables, substitutions and the home folder are not known here; nor is the magic of git in its long form.
  if (pathspec.includes(UNKNOWN) || /^(?:~|:\()/.test(pathspec)) return EVERYTHING;
  const magic = /^:([/!^]*):?/.exec(pathspec);
  // With only excluded files, git means all others.
  if (magic && /[!^]/.test(magic[1]!)) return EVERYTHING;
  const path = magic ? pathspec.slice(magic[0].length) : pathspec;
  const base = magic?.[1] ? root : from;
  const first = path.search(PATTERN);
  if (first < 0) return below(within(root, base, path), '');
  const rest = path.slice(first);
  if (first === 0 && /^[{\\]/.test(rest)) return EVERYTHING;
  if (rest.includes('..')) return EVERYTHING;
  const slash = path.lastIndexOf('/', first);
  const folder = within(root, base, path.slice(0, slash + 1) || '.');
  if (folder === undefined) return () => false;
  const start = `${folder === '' ? '' : `${folder}/`}${path.slice(slash + 1, first)}`;
  // What stands after the last star is the end of a name, unless another pattern is in it.
  const end = /[{[?\\]/.test(rest) ? '' : rest.slice(rest.lastIndexOf('*') + 1).replace(/\/+$/, '');
  return below(start, end, true);
}

/** Files that begin and end so, and those in folders that do; without a pattern, this file or folder alone. */
function below(start: string | undefined, end: string, isPattern = false): (file: string) => boolean {
  if (start === undefined) return () => false;
  if (start === '' && end === '') return EVERYTHING;
  const [head, tail] = [start.toLowerCase(), end.toLowerCase()];
  const matches = (path: string) =>
    isPattern
      ? path.length >= head.length + tail.length && path.startsWith(head) && path.endsWith(tail)
      : path === head;
  return (file) => {
    // A file system may take capital letters for small ones.
    const path = file.toLowerCase();
    for (let at = path.length; at > 0; at = path.lastIndexOf('/', at - 1)) {
      if (matches(path.slice(0, at))) return true;
    }
    return false;
  };
}

/** The path in the repository; undefined outside. A symbolic link at its end is meant itself. */
function within(root: string, base: string, path: string): string | undefined {
  const full = resolve(base, path);
  const found = full === root ? root : resolve(realPath(dirname(full)), basename(full));
  const inside = relative(root, found).split(sep).join('/');
  if (inside === '..' || inside.startsWith('../')) return root.startsWith(`${found}${sep}`) ? '' : undefined;
  return inside;
}
