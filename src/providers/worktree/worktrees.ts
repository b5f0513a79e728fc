import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { untilAborted } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Git } from '../../system/git/git.js';
import type { Checkout, GitPlace } from '../../system/git/known-repositories.js';
import { type BranchChanges, WorktreeGit } from '../../system/git/worktree-git.js';
import type { BranchReport } from '../../work/branch-report.js';
import type { OpenedPaths } from '../adapter/adapter.js';
import { about, branchOf, folderIn, identityOf, linked, messageOf, openedFor, sum } from './facts.js';
import { type WorktreeRecord, WorktreeRecords } from './records.js';
import { WorkQueues } from './work-queues.js';

/** How the tasks of an agent use worktrees. */
export interface WorktreeSettings {
  /** The branch, tag or commit that a task begins with. Default: the HEAD of the repository. */
  readonly base?: string | undefined;
  /** What becomes of the branch of a task that is done: it stays, is merged into its base, or is written as a patch. */
  readonly onSuccess?: 'keep' | 'merge' | 'patch' | undefined;
  /** Worktrees of the agent. Default 32. */
  readonly limit?: number | undefined;
}

/** The task that needs a worktree. */
export interface WorktreeRequest {
  readonly agent: string;
  /** The configured working folder, in the repository. */
  readonly cwd: string;
  readonly settings: WorktreeSettings;
  readonly conversation?: string | undefined;
  readonly thread: string;
  readonly title: string;
  readonly signal?: AbortSignal | undefined;
}

/** A worktree that one task has for itself until it calls `finish`. */
export interface OpenWorktree {
  readonly id: string;
  /** The working folder of the task. */
  readonly folder: string;
  /** What git needs there to commit to the branch. */
  readonly opened: OpenedPaths;
  /** Commits what the task did; with a failure, everything stays as it is. */
  finish(failure?: string): Promise<BranchReport>;
  /** The text of the patch that `finish` made, if it fits into a message. */
  patch(): Promise<string | undefined>;
}

/** A worktree in a list. */
export type WorktreeRow = Omit<WorktreeRecord, 'gitDir' | 'prefix' | 'conversation'>;

export interface WorktreeDetail extends BranchReport {
  readonly title: string;
  readonly thread: string;
  /** Files in the folder with changes that are not committed; null where the folder cannot be read. */
  readonly uncommitted: number | null;
  readonly diff?: string;
}

const DEFAULT_LIMIT = 32;
const MAX_TITLE = 200;
const MAX_NOTE = 1_000;
const MAX_FILES = 200;
const MAX_PATCH_BYTES = 4 * 1_048_576;
const MAX_SENT_PATCH_BYTES = 262_144;
const MAX_DIFF_BYTES = 1_048_576;

/** The git worktrees of a node's tasks: each task of an agent with `worktree` has one, with a branch of its own. */
export class Worktrees {
  readonly #runtime: Runtime;
  readonly #folder: string;
  readonly #git: WorktreeGit;
  readonly #records: WorktreeRecords;
  /** Work in one conversation, and in one repository, goes one after the other. */
  readonly #queues = new WorkQueues();
  readonly #running = new Set<string>();

  constructor(components: { runtime: Runtime; git: Git }, { folder }: { folder: string }) {
    this.#runtime = components.runtime;
    this.#folder = join(folder, 'worktrees');
    this.#git = new WorktreeGit(components.git);
    this.#records = new WorktreeRecords(join(folder, 'worktrees.json'));
    for (const record of this.#records.all) {
      if (record.state !== 'working') continue;
      this.#save(record, { state: 'kept', reason: 'the node stopped while its task ran' });
    }
  }

  get rows(): WorktreeRow[] {
    return this.#records.all.reverse().map(({ gitDir: _, prefix: __, conversation: ___, ...row }) => row);
  }

  /** The data of the repository that a folder belongs to. */
  async repositoryOf(cwd: string): Promise<string> {
    return (await this.#git.locate(cwd)).gitDir;
  }

  /** Where an agent's worktrees are. */
  folderOf(agent: string): string {
    const folder = join(this.#folder, agent);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  /** The folders in which agents change files, and the repositories that these belong to. */
  get places(): { folder: string; place: GitPlace; of: string; agents: string[]; active: boolean }[] {
    return this.#records.all.flatMap((record) => {
      const { folder, root, repository, agent, gitDir, state } = record;
      if (gitDir === undefined || !existsSync(folder)) return [];
      const active = state === 'working';
      const user = root === repository ? [] : [{ folder: root, place: { folder: root }, of: root, agents: [], active }];
      return [{ folder, place: linked(record), of: root, agents: [agent], active }, ...user];
    });
  }

  /** Calls back when `places` may have changed. */
  onChange(listener: () => void): void {
    this.#records.onChange(listener);
  }

  /** Throws where the folder cannot have worktrees. */
  async check(cwd: string, { base }: WorktreeSettings): Promise<void> {
    await this.#git.locate(cwd);
    await this.#git.base(cwd, base);
  }

  /** The worktree of the conversation, when its earlier tasks are over, or else a new one. */
  async open(request: WorktreeRequest): Promise<OpenWorktree> {
    const { agent, conversation, signal } = request;
    const checkout = await this.#git.locate(request.cwd);
    const { gitDir: repository } = checkout;
    const key = conversation === undefined ? request.thread : `${agent} ${repository} ${conversation}`;
    const { release, turn } = this.#queues.enter(key);
    try {
      await (signal ? untilAborted(turn, signal) : turn);
      const record = this.#known(request, repository) ?? (await this.#create(request, checkout));
      return this.#opened(record, request, release);
    } catch (error) {
      void turn.then(release);
      throw error;
    }
  }

  async show(id: string, { diff = false } = {}): Promise<WorktreeDetail> {
    const record = this.#require(id);
    const { title, thread, repository, base } = record;
    const report = await this.#report(record);
    const uncommitted = await this.#git.changedFiles(linked(record), true).catch(() => null);
    const text = diff && { diff: await this.#git.diff(repository, base.commit, report.commit, MAX_DIFF_BYTES) };
    return { ...report, title, thread, uncommitted, ...text };
  }

  /** Merges the branch into its base, or into another branch. Nothing is changed where that conflicts. */
  async merge(id: string, into?: string): Promise<BranchReport> {
    return this.#alone(id, async (record) => {
      await this.#merge(record, into);
      return this.#report(this.#require(id));
    });
  }

  /** Removes the worktree and its branch. Refuses, without `force`, where that would lose work. */
  async drop(id: string, { force = false } = {}): Promise<WorktreeRow> {
    return this.#alone(id, async (record) => {
      if (!force) await this.#requireNothingLost(record);
      await this.#remove(record);
      return record;
    });
  }

  #opened(record: WorktreeRecord, { thread, title, settings }: WorktreeRequest, release: () => void): OpenWorktree {
    const { id } = record;
    const folder = folderIn(record);
    this.#running.add(id);
    const { reason: _, ...rest } = record;
    this.#save({ ...rest, thread, title: cutText(title.split('\n')[0]!, MAX_TITLE) }, { state: 'working' });
    let report: Promise<BranchReport> | undefined;
    const finish = (failure?: string) => {
      report ??= this.#finish(this.#require(id), settings, failure).finally(() => {
        this.#running.delete(id);
        release();
      });
      return report;
    };
    return { id, folder, opened: openedFor(record), finish, patch: () => this.#patchOf(id) };
  }

  async #finish(
    record: WorktreeRecord,
    settings: WorktreeSettings,
    failure: string | undefined,
  ): Promise<BranchReport> {
    let changes: BranchChanges | undefined;
    if (failure !== undefined) {
      const isEmpty = await this.#isEmpty(record);
      this.#save(record, { state: isEmpty ? 'unchanged' : 'kept', reason: cutText(failure, 1_000) });
    } else {
      try {
        await this.#queues.run(record.repository, async () => {
          changes = await this.#keep(record);
          await this.#deliver(this.#require(record.id), changes, settings);
        });
      } catch (error) {
        this.#save(this.#require(record.id), { state: 'kept', reason: cutText(describeError(error), 1_000) });
      }
    }
    return this.#report(this.#require(record.id), changes).catch((error) => this.#unreadable(record.id, error));
  }

  async #patchOf(id: string): Promise<string | undefined> {
    const { patch } = this.#require(id);
    if (patch === undefined || statSync(patch).size > MAX_SENT_PATCH_BYTES) return undefined;
    return readFile(patch, 'utf8');
  }

  /** Commits the task's work. */
  async #keep(record: WorktreeRecord): Promise<BranchChanges> {
    const { id, branch, repository, base } = record;
    const worktree = linked(record);
    const fault = await this.#git.fault(worktree, branch);
    if (fault !== undefined) throw new EclipticError('WORKSPACE_REFUSED', fault, { id });
    const leftOut = await this.#git.commitAll(worktree, messageOf(record), identityOf(record));
    const notes = leftOut
      .slice(0, 10)
      .map((path) => cutText(`${JSON.stringify(path)} is a repository of its own; it is not in the branch`, MAX_NOTE));
    const changes = await this.#git.changes(repository, base.commit, branch);
    const { commitCount, files } = changes;
    this.#save(record, {
      ...{ state: commitCount === 0 ? 'unchanged' : 'done', commitCount, fileCount: files.length },
      ...{ insertions: sum(files, 'insertions'), deletions: sum(files, 'deletions') },
      notes: [...new Set([...record.notes, ...notes])].slice(0, 16),
    });
    return changes;
  }

  /** Does with the branch what the settings say. */
  async #deliver(
    record: WorktreeRecord,
    { commit, commitCount }: BranchChanges,
    { onSuccess = 'keep' }: WorktreeSettings,
  ): Promise<void> {
    const { id, agent, repository, base } = record;
    if (commitCount === 0 || onSuccess === 'keep') return;
    if (onSuccess === 'merge') return this.#merge(record);
    const file = join(this.#folder, agent, `${id}.patch`);
    writeFileSync(file, await this.#git.patch(repository, base.commit, commit, MAX_PATCH_BYTES), { mode: 0o600 });
    this.#save(record, { patch: file });
  }

  async #merge(record: WorktreeRecord, to = record.base.branch): Promise<void> {
    const { id, repository, branch } = record;
    if (to === undefined) {
      const message = `its base is no branch, so there is none to merge into; name one: ecliptic workspace merge ${id} --into BRANCH`;
      throw new EclipticError('WORKSPACE_REFUSED', message, { id });
    }
    const commit = await this.#git.tip(repository, branch);
    if (commit === undefined) throw new EclipticError('GIT_FAILED', `the branch ${branch} is gone`, { id });
    await this.#git.merge(repository, to, commit, `Merge ${branch} into ${to}\n`, identityOf(record));
    const { reason: _, ...rest } = record;
    this.#save(rest, { state: 'merged', mergedInto: to });
  }

  /** Without a conversation, each task has a worktree of its own. */
  #known({ agent, conversation }: WorktreeRequest, repository: string): WorktreeRecord | undefined {
    if (conversation === undefined) return undefined;
    return this.#records.all.find(
      (one) =>
        one.agent === agent &&
        one.conversation === conversation &&
        one.repository === repository &&
        one.gitDir !== undefined &&
        !this.#running.has(one.id) &&
        existsSync(one.folder),
    );
  }

  async #create(
    { agent, cwd, settings, conversation, thread, title }: WorktreeRequest,
    { gitDir: repository, root, prefix }: Checkout,
  ): Promise<WorktreeRecord> {
    return this.#queues.run(repository, async () => {
      const base = await this.#git.base(cwd, settings.base);
      await this.#makeRoom(agent, settings.limit ?? DEFAULT_LIMIT);
      const id = await this.#freeId(thread, agent, repository);
      const folder = join(this.folderOf(agent), id);
      const dirty = root === undefined ? 0 : await this.#git.changedFiles({ folder: root }).catch(() => 0);
      const now = this.#runtime.now();
      const draft: WorktreeRecord = {
        ...{ id, agent, thread, title, repository, root: root ?? repository, folder, prefix },
        ...(conversation !== undefined && { conversation }),
        branch: branchOf(agent, id),
        base: { commit: base.commit, ...(base.branch !== undefined && { branch: base.branch }) },
        state: 'working',
        notes:
          dirty === 0
            ? []
            : [`${dirty} changed file(s) of the repository were not committed, so this worktree does not have them`],
        ...{ commitCount: 0, fileCount: 0, insertions: 0, deletions: 0, createdAt: now, updatedAt: now },
      };
      // Known before it is made, so that a node that dies meanwhile leaves nothing unknown.
      this.#records.save(draft);
      try {
        const { gitDir } = await this.#git.add(repository, folder, draft.branch, base.commit);
        return this.#save(draft, { gitDir });
      } catch (error) {
        await this.#remove(draft).catch(() => {});
        throw error;
      }
    });
  }

  /** Drops the worktrees that no work is in any more, oldest first, as far as the limit wants it. */
  async #makeRoom(agent: string, limit: number): Promise<void> {
    const own = this.#records.all.filter((record) => record.agent === agent);
    let excess = own.length - limit + 1;
    for (const record of own) {
      if (excess <= 0) return;
      if (this.#running.has(record.id) || !(await this.#isSpare(record))) continue;
      await this.#remove(record);
      excess--;
    }
    if (excess <= 0) return;
    const message = `${agent} has ${own.length} worktrees with work that is not merged; see ecliptic workspace list, then merge or drop some`;
    throw new EclipticError('WORKSPACES_FULL', message, { agent, limit });
  }

  async #isSpare(record: WorktreeRecord): Promise<boolean> {
    if (record.state !== 'merged' && record.state !== 'unchanged') return false;
    return this.#requireNothingLost(record).then(
      () => true,
      () => false,
    );
  }

  /** Failed work without a trace needs no inspection. */
  async #isEmpty(record: WorktreeRecord): Promise<boolean> {
    const { repository, branch, base } = record;
    try {
      return (
        (await this.#git.tip(repository, branch)) === base.commit &&
        (await this.#git.changedFiles(linked(record), true)) === 0
      );
    } catch {
      return false;
    }
  }

  async #requireNothingLost(record: WorktreeRecord): Promise<void> {
    const { id, branch, repository, base } = record;
    const refuse = (what: string) => {
      const message = `${what}; it would be lost. Drop it all the same with: ecliptic workspace drop ${id} --force`;
      throw new EclipticError('WORKSPACE_REFUSED', message, { id, branch });
    };
    if (record.gitDir !== undefined && existsSync(record.folder)) {
      const changed = await this.#git.changedFiles(linked(record), true);
      if (changed > 0) refuse(`${changed} file(s) in ${record.folder} are not committed`);
    }
    const commit = await this.#git.tip(repository, branch);
    if (commit === undefined || commit === base.commit) return;
    if (!(await this.#git.isElsewhere(repository, commit, branch))) refuse(`the branch ${branch} is not merged`);
  }

  async #remove(record: WorktreeRecord): Promise<void> {
    const { id, agent, folder, repository, branch } = record;
    rmSync(folder, { recursive: true, force: true });
    if (existsSync(repository)) await this.#git.remove(repository, folder, branch);
    rmSync(join(this.#folder, agent, `${id}.patch`), { force: true });
    this.#records.delete(id);
  }

  async #report(record: WorktreeRecord, known?: BranchChanges): Promise<BranchReport> {
    const { repository, base, branch } = record;
    const changes = known ?? (await this.#git.changes(repository, base.commit, branch));
    const { commit, commits, commitCount, files } = changes;
    return {
      ...about(record),
      ...{ commit, commits: [...commits], commitCount, files: files.slice(0, MAX_FILES), fileCount: files.length },
      ...{ insertions: sum(files, 'insertions'), deletions: sum(files, 'deletions') },
    };
  }

  /** The stored facts of a worktree whose repository cannot be read. */
  #unreadable(id: string, error: unknown): BranchReport {
    const record = this.#require(id);
    const { commitCount, fileCount, insertions, deletions, base } = record;
    const numbers = { commitCount, fileCount, insertions, deletions };
    const reason = record.reason ?? cutText(describeError(error), 1_000);
    return { ...about({ ...record, state: 'kept', reason }), ...numbers, commit: base.commit, commits: [], files: [] };
  }

  /** The end of the thread's id, which is random, where it is one. */
  async #freeId(thread: string, agent: string, repository: string): Promise<string> {
    for (let candidate = thread; ; candidate = this.#runtime.id()) {
      const id = /[0-9A-Za-z]{8}$/.exec(candidate)?.[0].toLowerCase();
      if (id === undefined || this.#records.get(id) || existsSync(join(this.#folder, agent, id))) continue;
      if (!(await this.#git.branchExists(repository, branchOf(agent, id)))) return id;
    }
  }

  #save(record: WorktreeRecord, change: Partial<WorktreeRecord>): WorktreeRecord {
    const saved = { ...record, ...change, updatedAt: this.#runtime.now() };
    this.#records.save(saved);
    return saved;
  }

  #require(id: string): WorktreeRecord {
    const record = this.#records.get(id);
    if (record) return record;
    throw new EclipticError('WORKSPACE_NOT_FOUND', `there is no workspace "${id}"`, { id });
  }

  /** Does work in a worktree that no task is in, and that none continues in meanwhile. */
  async #alone<T>(id: string, work: (record: WorktreeRecord) => Promise<T>): Promise<T> {
    const record = this.#require(id);
    if (this.#running.has(id)) {
      const message = `a task of ${record.agent} works in ${id}; wait for its end, or cancel it`;
      throw new EclipticError('WORKSPACE_REFUSED', message, { id });
    }
    this.#running.add(id);
    try {
      return await this.#queues.run(record.repository, () => work(record));
    } finally {
      this.#running.delete(id);
    }
  }
}
