import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type OpenWorktree,
  type WorktreeRequest,
  type WorktreeSettings,
  Worktrees,
} from '../../src/providers/worktree/worktrees.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Git } from '../../src/system/git/git.js';
import { Children } from '../../src/system/process/children.js';
import { Repository } from './repository.js';

/** A repository, and the worktrees of a node's agents in it. */
export class Workbench {
  readonly repository: Repository;
  readonly data = mkdtempSync(join(tmpdir(), 'ecliptic-worktrees-'));
  readonly runtime = systemRuntime();
  readonly children: Children;
  readonly git: Git;
  worktrees: Worktrees;

  private constructor(repository: Repository, children: Children) {
    this.repository = repository;
    this.children = children;
    this.git = new Git({ runtime: this.runtime, children }, { folder: join(this.data, 'git') });
    this.worktrees = this.#start();
  }

  static async create(repository = Repository.create()): Promise<Workbench> {
    return new Workbench(repository, await Children.open(systemRuntime()));
  }

  /** What a node does that starts on the same folder. */
  restart(): void {
    this.worktrees = this.#start();
  }

  open(settings: WorktreeSettings = {}, more: Partial<WorktreeRequest> = {}): Promise<OpenWorktree> {
    const { folder: cwd } = this.repository;
    const thread = this.runtime.id();
    return this.worktrees.open({ agent: 'mars', cwd, settings, thread, title: 'Do it.', ...more });
  }

  async close(): Promise<void> {
    await this.children.close();
    this.repository.remove();
    rmSync(this.data, { recursive: true, force: true });
  }

  #start(): Worktrees {
    return new Worktrees({ runtime: this.runtime, git: this.git }, { folder: this.data });
  }
}
