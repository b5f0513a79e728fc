import type { WorktreeDetail } from '../providers/worktree/worktrees.js';
import { describeBranch, describeSize } from '../work/branch-report.js';
import { flag, text, verb } from './command.js';
import { confirm } from './input.js';
import { printable, timeText } from './output.js';

const list = verb({
  summary: 'list the git worktrees of agents’ tasks',
  examples: ['', '--json'],
  async run({ call, output }) {
    const none =
      'no workspaces; set "workspace": { "worktree": true } for an agent in ecliptic.json, and each task gets one';
    output.rows(await call('workspaces'), none, (row) => ({
      ID: row.id,
      AGENT: row.agent,
      STATE: row.state,
      COMMITS: row.commitCount,
      CHANGES: row.commitCount === 0 ? '-' : describeSize(row),
      USED: timeText(row.updatedAt, 'seconds'),
      TASK: row.title,
      REMARK: row.reason ?? row.mergedInto ?? '-',
    }));
  },
});

const show = verb({
  summary: 'show a worktree: its branch, commits and changed files',
  args: ['ID'],
  options: { diff: flag('and the whole difference to its base') },
  examples: ['k3m9x2ab', 'k3m9x2ab --diff', 'k3m9x2ab --json'],
  async run({ call, words: [id], values: { diff }, output }) {
    const detail = await call('workspace', { id, diff });
    output.value(detail, () => printable(detailText(detail)));
  },
});

const merge = verb({
  summary: 'merge the branch of a worktree into its base; where that conflicts, nothing is changed',
  args: ['ID'],
  options: { into: text('BRANCH', 'another branch than its base') },
  examples: ['k3m9x2ab', 'k3m9x2ab --into release'],
  async run({ call, words: [id], values: { into }, output }) {
    const report = await call('workspace.merge', { id, into });
    output.value(report, () => printable(describeBranch(report)));
  },
});

const drop = verb({
  summary: 'remove a worktree and its branch; refused while its work is not merged',
  args: ['ID'],
  options: { force: flag('also with work that is not merged, which is lost'), yes: flag('do not ask') },
  examples: ['k3m9x2ab', 'k3m9x2ab --force --yes'],
  async run({ call, words: [id], values: { force, yes }, output }) {
    await confirm(output, yes, `Remove the workspace ${id} with its folder and branch?`);
    const row = await call('workspace.drop', { id, force });
    output.value(row, () => printable(`The workspace ${row.id} and the branch ${row.branch} are gone.`));
  },
});

function detailText(detail: WorktreeDetail): string {
  const { base, commits, commitCount, files, fileCount, notes, uncommitted, diff } = detail;
  const more = (shown: number, all: number) => (all > shown ? [`  … and ${all - shown} more`] : []);
  return [
    describeBranch(detail),
    `id          ${detail.id}`,
    `agent       ${detail.agent}`,
    `task        ${oneLineOf(detail.title)}`,
    `thread      ${detail.thread}`,
    `repository  ${detail.repository}`,
    `folder      ${detail.folder}`,
    `base        ${base.branch ?? 'no branch'} at ${base.commit.slice(0, 12)}`,
    `uncommitted ${uncommitted ?? 'unknown: the folder cannot be read'}`,
    ...(detail.patch === undefined ? [] : [`patch       ${detail.patch}`]),
    ...notes.map((note) => `note        ${note}`),
    ...(commits.length === 0 ? [] : ['commits']),
    ...commits.map(({ commit, author, subject }) => `  ${commit.slice(0, 12)} ${author}: ${oneLineOf(subject)}`),
    ...more(commits.length, commitCount),
    ...(files.length === 0 ? [] : ['files']),
    ...files.map(
      (file) => `  ${file.binary ? 'binary' : `+${file.insertions} -${file.deletions}`}  ${oneLineOf(file.path)}`,
    ),
    ...more(files.length, fileCount),
    ...(diff === undefined ? [] : ['', diff]),
  ].join('\n');
}

function oneLineOf(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ');
}

export const verbs = { list, show, merge, drop };
