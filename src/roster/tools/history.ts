import { languageOf } from './code-text.js';
import { type Finding, isSample } from './finding.js';
import type { SourceFile } from './workspace-files.js';

/** What git says about one file in the period. */
export interface FileHistory {
  readonly file: string;
  readonly commits: number;
  readonly added: number;
  readonly removed: number;
  /** Names and their commits to the file, most first. */
  readonly authors: readonly (readonly [string, number])[];
  /** Of the latest commit, as `YYYY-MM-DD`. */
  readonly latest: string;
  /** Lines that it has now. */
  readonly lines: number;
}

export interface History {
  readonly commits: number;
  readonly authors: number;
  readonly files: readonly FileHistory[];
}

/** The format of `git log` that `readHistory` reads: a mark, the author and the day, then the lines of `--numstat`. */
export const LOG_FORMAT = '%x01%aN%x02%as';
/** A commit that touches more files moves or formats them. */
const MAX_FILES_OF_COMMIT = 200;
const MIN_COMMITS = 20;
const MIN_LINES = 300;
const MAX_HOT_SPOTS = 5;

/** NEPTUNE: churn and ownership of the files that exist now, from `git log --numstat -z`. */
export function readHistory(log: string, files: readonly SourceFile[]): History {
  const present = new Map(files.map(({ path, text }) => [path, text]));
  const found = new Map<
    string,
    { commits: number; added: number; removed: number; authors: Map<string, number>; latest: string }
  >();
  const everyone = new Set<string>();
  let commits = 0;
  for (const entry of log.split('\u0001').slice(1)) {
    const [head, ...rest] = entry.split('\0');
    const [author = '', day = ''] = head!.trim().split('\u0002');
    commits++;
    everyone.add(author);
    const changes = rest.map((line) => /^\n?(\d+)\t(\d+)\t(.+)$/s.exec(line)).filter((one) => one !== null);
    if (changes.length > MAX_FILES_OF_COMMIT) continue;
    for (const [, added, removed, path] of changes) {
      if (!present.has(path!)) continue;
      const known = found.get(path!) ?? { commits: 0, added: 0, removed: 0, authors: new Map(), latest: day };
      known.commits++;
      known.added += Number(added);
      known.removed += Number(removed);
      known.authors.set(author, (known.authors.get(author) ?? 0) + 1);
      found.set(path!, known);
    }
  }
  const histories = [...found].map(([file, { authors, ...rest }]) => ({
    file,
    ...rest,
    authors: [...authors].sort((a, b) => b[1] - a[1]),
    lines: present.get(file)!.split('\n').length,
  }));
  return { commits, authors: everyone.size, files: histories.sort((a, b) => b.commits - a.commits) };
}

/** Large files that change most: faults gather there. Observations, and no faults. */
export function hotSpots({ files, commits }: History): Finding[] {
  const least = Math.max(MIN_COMMITS, commits / 20);
  return files
    .filter(({ file, commits: own, lines }) => own >= least && lines >= MIN_LINES && isCode(file))
    .sort((a, b) => b.commits * b.lines - a.commits * a.lines)
    .slice(0, MAX_HOT_SPOTS)
    .map(({ file, commits: own, lines, authors, added, removed, latest }) => {
      const [name, most] = authors[0]!;
      const share = Math.round((100 * most) / own);
      return {
        agent: 'neptune',
        rule: 'history/hot-spot',
        severity: 'info',
        file,
        line: 1,
        message: `a hot spot: ${lines} lines that ${own} of the latest ${commits} commits changed`,
        evidence: `+${added} −${removed} by ${authors.length === 1 ? name : `${authors.length} authors, ${share} % of the commits by ${name}`}; latest ${latest}`,
      };
    });
}

/** Documents and tests change with the code. */
function isCode(path: string): boolean {
  return languageOf(path) !== undefined && !isSample(path);
}
