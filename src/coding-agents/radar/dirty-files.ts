import type { Git, GitPlace } from '../../system/git/git.js';

/** What git says about one worktree. */
export interface Dirty {
  readonly branch: string | undefined;
  /** Changed, new, deleted and renamed files that git does not ignore, by their paths in the repository. */
  readonly files: readonly string[];
  /** How many more there are. */
  readonly more: number;
}

export const MAX_DIRTY_FILES = 1_000;
const MAX_PATH_CHARS = 1_024;
const STATUS = [
  ...['status', '--porcelain=v2', '--branch', '-z', '--no-renames', '--untracked-files=all'],
  ...['--ignore-submodules=all', '--no-ahead-behind'],
];
const STATUS_MS = 10_000;
/** Fields before the path, by the first character of a line. */
const FIELDS: Readonly<Record<string, number>> = { '1': 8, u: 10, '?': 1 };
const BRANCH = '# branch.head ';

/** Reads without taking the lock of the index, which the agent at work may need. */
export async function dirtyFiles(git: Git, place: GitPlace): Promise<Dirty> {
  const said = await git.run(place, STATUS, { timeoutMs: STATUS_MS, env: { GIT_OPTIONAL_LOCKS: '0' } });
  return readStatus(said);
}

export function readStatus(output: string): Dirty {
  let branch: string | undefined;
  const files: string[] = [];
  let more = 0;
  for (const line of output.split('\0')) {
    if (line.startsWith(BRANCH)) branch = line.slice(BRANCH.length);
    const path = pathIn(line);
    if (path === undefined) continue;
    if (files.length < MAX_DIRTY_FILES && path.length <= MAX_PATH_CHARS) files.push(path);
    else more++;
  }
  return { branch: branch === '(detached)' ? undefined : branch, files, more };
}

function pathIn(line: string): string | undefined {
  const fields = FIELDS[line[0] ?? ''];
  if (fields === undefined || line[1] !== ' ') return undefined;
  let at = 0;
  for (let field = 0; field < fields; field++) at = line.indexOf(' ', at) + 1;
  return at > 0 ? line.slice(at) : undefined;
}
