import { mkdirSync, realpathSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import type { Identity, LinkedWorktree } from '../../system/git/worktree-git.js';
import type { OpenedPaths } from '../adapter/adapter.js';
import type { WorktreeRecord } from './records.js';

/** What follows from the record of a worktree. */

export function branchOf(agent: string, id: string): string {
  return `ecliptic/${agent}/${id}`;
}

/** The working folder of a task, which an earlier task may have replaced by a link that leads elsewhere. */
export function folderIn({ id, folder, prefix }: WorktreeRecord): string {
  const within = join(folder, prefix);
  mkdirSync(within, { recursive: true });
  const top = realpathSync(folder);
  const real = realpathSync(within);
  if (real === top || real.startsWith(top + sep)) return within;
  throw new EclipticError('WORKSPACE_REFUSED', `${within} leads out of the worktree, to ${real}`, { id });
}

export function linked({ gitDir, folder }: WorktreeRecord): LinkedWorktree {
  if (gitDir !== undefined) return { gitDir, workTree: folder };
  throw new EclipticError('GIT_FAILED', `the worktree ${folder} was not made completely`, { folder });
}

/**
 * What a jail opens of the repository: commits go to the branches of the agent; settings, hooks, other branches and other
 * worktrees are read-only.
 */
export function openedFor(record: WorktreeRecord): OpenedPaths {
  const { repository, agent, folder } = record;
  const branches = join('refs', 'heads', dirname(branchOf(agent, '-')));
  const write = ['objects', branches, join('logs', branches)].map((path) => join(repository, path));
  for (const path of write) mkdirSync(path, { recursive: true });
  return { read: [repository], write: [folder, linked(record).gitDir, ...write] };
}

/** The commits of a task are its agent's. */
export function identityOf({ agent }: WorktreeRecord): Identity {
  return { name: agent, email: `${agent}@ecliptic.invalid` };
}

export function messageOf({ agent, title, thread }: WorktreeRecord): string {
  return `${cutText(title.replace(/\s+/g, ' ').trim(), 72) || 'Work of a task'}\n\nUncommitted changes of ${agent} at the end of its task.\n\nEcliptic-Thread: ${thread}\n`;
}

export function sum<Key extends string>(files: readonly Readonly<Record<Key, number>>[], key: Key): number {
  return files.reduce((total, file) => total + file[key], 0);
}

export function about(record: WorktreeRecord) {
  const { id, agent, state, reason, root, folder, branch, base, notes, mergedInto, patch } = record;
  return {
    ...{ id, agent, state, repository: root, folder, branch, base, notes },
    ...(reason !== undefined && { reason }),
    ...(mergedInto !== undefined && state === 'merged' && { mergedInto }),
    ...(patch !== undefined && { patch }),
  };
}
