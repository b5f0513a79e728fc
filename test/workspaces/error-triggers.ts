import { join } from 'node:path';
import type { ErrorCode } from '../../src/runtime/errors.js';
import { Git } from '../../src/system/git/git.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

type Code = Extract<ErrorCode, `GIT_${string}` | `WORKSPACE${string}` | 'MERGE_CONFLICT'>;

/** A real trigger for each error code of workspaces. */
export function workspaceTriggers(cleanups: (() => unknown)[]): Record<Code, () => Promise<unknown>> {
  const workbench = async (repository = Repository.create()) => {
    const made = await Workbench.create(repository);
    cleanups.push(() => made.close());
    return made;
  };
  return {
    GIT_REQUIRED: async () => {
      const { runtime, children, data } = await workbench();
      return new Git({ runtime, children }, { folder: join(data, 'git') }).run({ folder: data }, ['status'], {
        env: { PATH: data },
      });
    },
    GIT_FAILED: async () => (await workbench(Repository.create({}))).open(),
    WORKSPACE_NOT_FOUND: async () => (await workbench()).worktrees.drop('nothing'),
    WORKSPACE_REFUSED: async () => {
      const bench = await workbench();
      const { id } = await bench.open();
      return bench.worktrees.drop(id, { force: true });
    },
    WORKSPACES_FULL: async () => {
      const bench = await workbench();
      await bench.open({ limit: 1 });
      return bench.open({ limit: 1 });
    },
    MERGE_CONFLICT: async () => {
      const bench = await workbench();
      const { id, folder, finish } = await bench.open();
      bench.repository.write({ 'a.txt': 'mine\n' }, folder);
      await finish();
      bench.repository.commit({ 'a.txt': 'other\n' });
      return bench.worktrees.merge(id);
    },
  };
}
