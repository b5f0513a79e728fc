import { z } from 'zod';

const text = z.string().max(4_096);
const count = z.int().nonnegative();

/** What a task left in its git worktree: a branch with commits. */
export const BranchReportSchema = z.object({
  /** Of the workspace, for `ecliptic workspace show`. */
  id: text,
  agent: text,
  /** `done` has a branch to merge, `unchanged` has none, `kept` is for inspection: the reason says why. */
  state: z.enum(['working', 'done', 'unchanged', 'merged', 'kept']),
  reason: z.exactOptional(text),
  repository: text,
  folder: text,
  branch: text,
  base: z.object({ branch: z.exactOptional(text), commit: text }),
  /** The last commit of the branch. */
  commit: text,
  commits: z.array(z.object({ commit: text, author: text, subject: text })).max(100),
  /** Commits of the branch, which may be more than are listed. */
  commitCount: count,
  files: z
    .array(z.object({ path: text, insertions: count, deletions: count, binary: z.exactOptional(z.boolean()) }))
    .max(200),
  fileCount: count,
  insertions: count,
  deletions: count,
  /** What the reader should know, such as changes of the base that the worktree does not have. */
  notes: z.array(text).max(16),
  mergedInto: z.exactOptional(text),
  patch: z.exactOptional(z.string()),
});

export type BranchReport = z.infer<typeof BranchReportSchema>;

/** The key of a progress report that carries a branch, and the name of the artifact that does. */
export const BRANCH = 'ecliptic/branch';
export const BRANCH_ARTIFACT = 'branch';

/** The branch in a progress report, if it carries one. The report comes from another agent. */
export function branchIn(report: unknown): BranchReport | undefined {
  if (typeof report !== 'object' || report === null || !(BRANCH in report)) return undefined;
  return BranchReportSchema.safeParse((report as Record<string, unknown>)[BRANCH]).data;
}

/** In words, for people: "branch ecliptic/mars/k3m9x2ab: 1 commit, 2 files changed, +10 -2". */
export function describeBranch(report: BranchReport): string {
  const { state, reason, branch, commitCount, mergedInto } = report;
  const size = commitCount === 0 ? 'no commits' : `${plural(commitCount, 'commit')}, ${describeSize(report)}`;
  const end = {
    working: ', at work',
    done: '',
    unchanged: '',
    merged: `, merged into ${mergedInto}`,
    kept: `, kept for inspection${reason === undefined ? '' : `: ${reason}`}`,
  };
  return `branch ${branch}: ${size}${end[state]}`;
}

export function describeSize({
  fileCount,
  insertions,
  deletions,
}: Pick<BranchReport, 'fileCount' | 'insertions' | 'deletions'>): string {
  return `${plural(fileCount, 'file')} changed, +${insertions} -${deletions}`;
}

function plural(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
