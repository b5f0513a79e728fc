import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { GIT_ENVIRONMENT, GIT_FLAGS } from '../../system/git/git-settings.js';
import { LOG_FORMAT } from './history.js';
import type { SourceFile } from './workspace-files.js';

const GIT_MS = 20_000;
const MAX_BYTES = 64 * 1_048_576;
const MAX_COMMITS = 2_000;
/** Reading history must neither fetch what is missing, nor check signatures with a program that the repository names. */
const READ_ONLY = ['-c', 'protocol.allow=never', '-c', 'log.showSignature=false', '-c', 'gpg.program=false'];

/** The output, or undefined where git fails or is missing. Blocks: it belongs into a process of its own. */
function git(folder: string, args: readonly string[], input?: string): Buffer | undefined {
  if (!hasOwnHistory(folder)) return undefined;
  const { PATH, HOME, SYSTEMROOT } = process.env;
  const { status, stdout } = spawnSync('git', ['-C', folder, ...GIT_FLAGS, ...READ_ONLY, ...args], {
    env: { PATH, HOME, SYSTEMROOT, ...GIT_ENVIRONMENT, GIT_NO_LAZY_FETCH: '1', GIT_OPTIONAL_LOCKS: '0' },
    input: input ?? '',
    timeout: GIT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_BYTES,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  return status === 0 ? stdout : undefined;
}

/** Parts of a repository that, as links, would lead to those of another one. */
const OWN_PARTS = ['HEAD', 'config', 'objects', 'refs', 'packed-refs'];

/** Is the history that git would read that of this folder? A `.git` can name any other repository of the user. */
function hasOwnHistory(folder: string): boolean {
  try {
    let top = realpathSync(folder);
    while (!lstatSync(join(top, '.git'), { throwIfNoEntry: false })) {
      if (top === dirname(top)) return false;
      top = dirname(top);
    }
    const entry = join(top, '.git');
    const found = lstatSync(entry);
    if (found.isDirectory()) {
      const isLink = (part: string) => lstatSync(join(entry, part), { throwIfNoEntry: false })?.isSymbolicLink();
      return !existsSync(join(entry, 'commondir')) && !OWN_PARTS.some(isLink);
    }
    if (!found.isFile()) return false;
    const named = /^gitdir: (.+?)\s*$/.exec(readFileSync(entry, 'utf8'))?.[1];
    if (named === undefined) return false;
    const data = realpathSync(resolve(top, named));
    // A worktree's data names the worktree; a submodule's are in the repository around it.
    const back = join(data, 'gitdir');
    if (existsSync(back)) return realpathSync(resolve(data, readFileSync(back, 'utf8').trim())) === entry;
    const around = data.indexOf(join(sep, '.git', 'modules', sep));
    return around > 0 && top.startsWith(data.slice(0, around) + sep);
  } catch {
    return false;
  }
}

/** The log that `readHistory` reads; undefined in a folder without a history. */
export function historyLog(folder: string): string | undefined {
  const options = ['--no-merges', '--no-renames', '--no-ext-diff', '--no-textconv', '--numstat', '-z', '--relative'];
  return git(folder, [
    'log',
    ...options,
    `--max-count=${MAX_COMMITS}`,
    `--format=${LOG_FORMAT}`,
    '--',
    '.',
  ])?.toString();
}

/** The numbers of lines that are new or different since the revision, by file; files without any are left out. */
export function changedLines(folder: string, revision: string, files: readonly SourceFile[]): Map<string, Set<number>> {
  if (/^-|[\s\0]|\.\./.test(revision) || revision === '') {
    throw new EclipticError('INVALID_ARGUMENTS', `"${revision.slice(0, 100)}" is no revision`, { revision });
  }
  const commit = git(folder, ['rev-parse', '--verify', '--quiet', '--end-of-options', `${revision}^{commit}`])
    ?.toString()
    .trim();
  if (!commit) {
    throw new EclipticError('INVALID_ARGUMENTS', `${folder} has no revision "${revision}" that git can find`, {
      revision,
    });
  }
  // Files are compared here: git would run filters that the repository names.
  const listing = git(folder, ['ls-tree', '-r', '-z', commit]) ?? Buffer.alloc(0);
  const before = new Map<string, string>();
  for (const entry of listing.toString().split('\0')) {
    const [, id, path] = /^\d+ blob ([0-9a-f]+)\t(.+)$/s.exec(entry) ?? [];
    if (path !== undefined) before.set(path, id!);
  }
  const touched = files.filter(({ path, text }) => before.get(path) !== blobId(text, before.get(path)));
  const wanted = touched.flatMap(({ path }) => before.get(path) ?? []);
  const contents = blobs(folder, wanted);
  const changed = new Map<string, Set<number>>();
  for (const { path, text } of touched) {
    const id = before.get(path);
    const lines = newLines(id === undefined ? '' : (contents.get(id) ?? ''), text);
    if (lines.size > 0) changed.set(path, lines);
  }
  return changed;
}

function blobId(text: string, like: string | undefined): string {
  const content = Buffer.from(text);
  return createHash(like?.length === 64 ? 'sha256' : 'sha1')
    .update(`blob ${content.length}\0`)
    .update(content)
    .digest('hex');
}

function blobs(folder: string, ids: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  if (ids.length === 0) return found;
  const out = git(folder, ['cat-file', '--batch'], ids.map((id) => `${id}\n`).join(''));
  for (let at = 0; out && at < out.length; ) {
    const end = out.indexOf(10, at);
    const [, id, size] = /^([0-9a-f]+) blob (\d+)$/.exec(out.subarray(at, end).toString()) ?? [];
    if (id === undefined) break;
    found.set(id, out.subarray(end + 1, end + 1 + Number(size)).toString());
    at = end + 2 + Number(size);
  }
  return found;
}

/** Lines that the text before does not have, or has fewer times. */
function newLines(before: string, after: string): Set<number> {
  const left = new Map<string, number>();
  for (const line of before.split('\n')) left.set(line, (left.get(line) ?? 0) + 1);
  const found = new Set<number>();
  for (const [at, line] of after.split('\n').entries()) {
    const known = left.get(line) ?? 0;
    if (known > 0) left.set(line, known - 1);
    else found.add(at + 1);
  }
  return found;
}
