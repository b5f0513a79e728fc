import type { Git } from '../../system/git/git.js';
import type { GitPlace } from '../../system/git/known-repositories.js';

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

/** Takes no lock of the index, which the agent at work may need; a path is no pattern. */
const ENVIRONMENT = { GIT_OPTIONAL_LOCKS: '0', GIT_LITERAL_PATHSPECS: '1' };

/** The changed files of a worktree, or of these paths in it. */
export async function dirtyFiles(git: Git, place: GitPlace, paths: readonly string[] = []): Promise<Dirty> {
  const scope = paths.length === 0 ? [] : ['--', ...paths];
  const said = await git.run(place, [...STATUS, ...scope], { timeoutMs: STATUS_MS, env: ENVIRONMENT });
  return readStatus(said);
}

/** What is known, with these paths read again. */
export function withPaths({ files }: Dirty, paths: readonly string[], read: Dirty): Dirty {
  const again = new Set(paths);
  const kept = files.filter((file) => !isIn(file, again));
  return { ...read, files: [...new Set([...kept, ...read.files])].sort() };
}

/** Is the file one of the paths, or in a folder that is? */
function isIn(file: string, paths: ReadonlySet<string>): boolean {
  for (let end = file.length; end > 0; end = file.lastIndexOf('/', end - 1)) {
    if (paths.has(file.slice(0, end))) return true;
  }
  return false;
}

export function readStatus(output: string): Dirty {
  let branch: string | undefined;
  const files: string[] = [];
  let more = 0;
  for (const line of output.split('\0')) {
    if (line.startsWith(BRANCH)) branch = line.slice(BRANCH.length);
    const path = pathIn(line);
    // A repository within the repository is no file of it.
    if (path === undefined || path.endsWith('/')) continue;
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
