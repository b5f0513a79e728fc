import { z } from 'zod';
import { JsonFile } from '../../system/files/private-file.js';
import { BranchReportSchema } from '../../work/branch-report.js';

const text = z.string();

/** A git worktree of an agent's task, as it is on disk. */
const WorktreeRecordSchema = z.object({
  id: text,
  agent: text,
  /** Tasks of one conversation continue in its worktree. */
  conversation: z.exactOptional(text),
  /** The correlation id of the last task. */
  thread: text,
  /** The last assignment, shortened. */
  title: text,
  /** Where git keeps the repository's data, and those of the worktree. */
  repository: text,
  gitDir: z.exactOptional(text),
  /** The top of the user's own worktree, for people; in a bare repository its folder. */
  root: text,
  folder: text,
  /** The configured folder within the worktree. */
  prefix: text,
  branch: text,
  base: z.object({ branch: z.exactOptional(text), commit: text }),
  state: BranchReportSchema.shape.state,
  reason: z.exactOptional(text),
  notes: z.array(text),
  mergedInto: z.exactOptional(text),
  patch: z.exactOptional(text),
  /** Of the branch, when its last task ended. */
  commitCount: z.int(),
  fileCount: z.int(),
  insertions: z.int(),
  deletions: z.int(),
  createdAt: z.number(),
  updatedAt: z.number(),
});

export type WorktreeRecord = z.infer<typeof WorktreeRecordSchema>;

/** The records of a node's worktrees, in one file. */
export class WorktreeRecords {
  readonly #file: JsonFile<WorktreeRecord[]>;
  readonly #records: Map<string, WorktreeRecord>;
  readonly #listeners = new Set<() => void>();

  constructor(file: string) {
    this.#file = new JsonFile(file, z.array(WorktreeRecordSchema));
    this.#records = new Map((this.#file.load() ?? []).map((record) => [record.id, record]));
  }

  /** Oldest use first. */
  get all(): WorktreeRecord[] {
    return [...this.#records.values()].sort((a, b) => a.updatedAt - b.updatedAt);
  }

  get(id: string): WorktreeRecord | undefined {
    return this.#records.get(id);
  }

  save(record: WorktreeRecord): void {
    this.#records.set(record.id, record);
    this.#store();
  }

  delete(id: string): void {
    if (this.#records.delete(id)) this.#store();
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  #store(): void {
    this.#file.save([...this.#records.values()]);
    for (const listener of this.#listeners) listener();
  }
}
