import type { Party } from '../mesh/policy.js';
import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { cutText } from '../runtime/text.js';
import type { Store } from '../store/store.js';
import { type Ask, type CallOptions, needsInput } from './call.js';
import type { Entry } from './catalogue.js';
import type { ToolDefinition } from './definitions.js';
import { withWordsSeen } from './result-text.js';
import type { McpService } from './service.js';
import { type ToolTaskRow, toolTaskEnds, toolTasks } from './tables.js';
import {
  answered,
  endOfFailure,
  isOver,
  questionOf,
  TASK_TIMEOUT_MS,
  type TaskEnd,
  type TaskStatus,
  type TaskView,
  type Waiting,
} from './tool-task.js';

/** How long the end of a task can be read at least. */
const READABLE_MS = 60 * 60_000;
/** How long a question of a task may wait for its answer. */
const PATIENCE_MS = 24 * 60 * 60_000;
/** Shares of one caller: tasks that have not ended; all that can be read; characters of their ends. */
const MAX_OPEN = 100;
const MAX_TASKS = 1_000;
const MAX_CHARS = 64 * 1_048_576;
/** Tasks of all callers. */
const MAX_ALL = 20_000;
const PAGE = 100;
const SWEEP_MS = 60_000;
const MESSAGE_CHARS = 1_000;
const ID_BYTES = 18;

type ToolAsk = Extract<Ask, { kind: 'tool' }>;

/** A task that has not ended. */
interface Open {
  row: ToolTaskRow;
  readonly entry: Entry | undefined;
  readonly ask: ToolAsk | undefined;
  readonly controller: AbortController;
  waiting: Waiting | undefined;
}

interface Share {
  open: number;
  tasks: number;
  chars: number;
}

export interface ToolTasksComponents {
  runtime: Runtime;
  service: McpService;
  store: Store;
  onCallbackFailed: CallbackFailed;
}

/**
 * Tool calls that their callers follow as tasks. Each belongs to its caller, and is on disk before the caller learns its
 * id. A call is never made again: what was under way when the node ended has failed.
 */
export class ToolTasks {
  readonly #components: ToolTasksComponents;
  readonly #open = new Map<string, Open>();
  readonly #shares = new Map<string, Share>();
  readonly #watchers: Callbacks<[view: TaskView]>;
  #sweep: Timer | undefined;
  #stopped = false;

  private constructor(components: ToolTasksComponents) {
    this.#components = components;
    this.#watchers = new Callbacks('toolTasks.onChange', components.onCallbackFailed);
  }

  /** Ends what an earlier process left under way, and counts what each caller has. */
  static async open(components: ToolTasksComponents): Promise<ToolTasks> {
    const tasks = new ToolTasks(components);
    for (const row of await components.store.read(toolTasks)) {
      tasks.#count(row.owner, 1, row.size, isOver(row.status) ? 0 : 1);
      if (isOver(row.status)) continue;
      const waiting = row.waiting === null ? undefined : (JSON.parse(row.waiting) as Waiting);
      const open: Open = { row, entry: undefined, ask: undefined, controller: new AbortController(), waiting };
      tasks.#open.set(row.id, open);
      if (row.status !== 'input_required' || waiting?.ask === undefined) await tasks.#interrupt(open);
    }
    tasks.#sweepLater();
    return tasks;
  }

  /** Tells of each change of a task. */
  onChange(watcher: (view: TaskView) => void): () => void {
    return this.#watchers.add(watcher);
  }

  /** Begins a call as a task. It goes on when the caller leaves. */
  async begin(entry: Entry, ask: ToolAsk, options: CallOptions): Promise<TaskView> {
    const { runtime, store } = this.#components;
    const owner = options.caller.address;
    this.#requireRoom(owner);
    const now = runtime.now();
    const limit = options.timeoutMs ?? entry.offer.timeoutMs ?? TASK_TIMEOUT_MS;
    const row: ToolTaskRow = {
      // In the order of creation, and not to be guessed.
      id: `${runtime.id()}.${Buffer.from(runtime.bytes(ID_BYTES)).toString('base64url')}`,
      owner,
      tool: entry.fullName,
      status: 'working',
      message: null,
      createdAt: now,
      updatedAt: now,
      expiresAt: now + limit + READABLE_MS,
      size: 0,
      waiting: null,
    };
    this.#count(owner, 1, 0, 1);
    try {
      await store.write([toolTasks.insert(row)]);
    } catch (error) {
      this.#count(owner, -1, 0, -1);
      throw error;
    }
    const open: Open = { row, entry, ask, controller: new AbortController(), waiting: undefined };
    this.#open.set(row.id, open);
    this.#sweepLater();
    void this.#run(open, entry, ask, options, 1);
    return { row };
  }

  async get(id: string, caller: Party): Promise<TaskView> {
    const row = await this.#own(id, caller);
    const open = this.#open.get(id);
    if (open) return viewOf(open);
    const [ended] = await this.#components.store.read(toolTaskEnds, { where: { id } });
    return { row, end: ended && (JSON.parse(ended.end) as TaskEnd) };
  }

  /** Gives answers to a task that waits for input; it goes on once all are there. Others are ignored. */
  async update(id: string, caller: Party, answers: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#own(id, caller);
    const open = this.#open.get(id);
    if (!open?.waiting || open.row.status !== 'input_required') return;
    const waiting = answered(open.waiting, answers);
    if (Object.keys(waiting.requests).length > 0) {
      await this.#change(open, 'input_required', { waiting });
      return;
    }
    const ask = open.ask ?? (waiting.ask as ToolAsk | undefined);
    const { service, runtime } = this.#components;
    const limit = open.entry?.offer.timeoutMs ?? TASK_TIMEOUT_MS;
    await this.#change(open, 'working', { waiting: undefined, expiresAt: runtime.now() + limit + READABLE_MS });
    if (isOver(open.row.status)) return;
    try {
      const entry = open.entry ?? service.find('tool', open.row.tool, caller, 'safe');
      const { capabilities, state } = waiting;
      const given = { caller, answers: waiting.answers, ...(state !== undefined && { state }) };
      const options = { ...given, ...(capabilities && { capabilities }) };
      void this.#run(open, entry, ask!, options, waiting.round + 1);
    } catch (error) {
      await this.#end(open, endOfFailure(toEclipticError(error, 'HANDLER_FAILED')));
    }
  }

  /** Ends a task. One that has ended stays as it is. */
  async cancel(id: string, caller: Party): Promise<TaskView> {
    await this.#own(id, caller);
    const open = this.#open.get(id);
    if (open) await this.#end(open, undefined, 'cancelled');
    return this.get(id, caller);
  }

  /** A page of the caller's tasks, oldest first. */
  async list(caller: Party, cursor?: string): Promise<{ rows: ToolTaskRow[]; nextCursor?: string }> {
    const { store } = this.#components;
    const where = { owner: caller.address };
    const above = cursor === undefined ? {} : { above: { id: cursor } };
    const rows = await store.read(toolTasks, { where, ...above, orderBy: 'id', limit: PAGE + 1 });
    if (rows.length <= PAGE) return { rows };
    return { rows: rows.slice(0, PAGE), nextCursor: rows[PAGE - 1]!.id };
  }

  /** Resolves once the task has ended or waits for input. */
  async settled(id: string, caller: Party, signal: AbortSignal): Promise<TaskView> {
    for (;;) {
      const change = this.#nextChange(id, signal);
      try {
        const view = await this.get(id, caller);
        if (view.row.status !== 'working' || signal.aborted) return view;
        await change.seen;
      } finally {
        change.stop();
      }
    }
  }

  /** Resolves at the next change of a task that has not ended. */
  async changed(id: string, signal: AbortSignal): Promise<void> {
    const change = this.#nextChange(id, signal);
    if (this.#open.has(id)) await change.seen;
    change.stop();
  }

  #nextChange(id: string, signal: AbortSignal): { seen: Promise<void>; stop: () => void } {
    let stop = () => {};
    const seen = new Promise<void>((resolve) => {
      const unwatch = this.onChange(({ row }) => {
        if (row.id === id) resolve();
      });
      const cancelled = () => resolve();
      signal.addEventListener('abort', cancelled);
      stop = () => {
        unwatch();
        signal.removeEventListener('abort', cancelled);
      };
      if (signal.aborted) resolve();
    });
    return { seen, stop };
  }

  /** Calls under way end with the node. Tasks that wait for input remain. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sweep?.cancel();
    for (const open of [...this.#open.values()]) {
      if (open.row.status === 'working' || !open.waiting?.ask) await this.#interrupt(open);
    }
  }

  async #run(open: Open, entry: Entry, ask: ToolAsk, options: CallOptions, round: number): Promise<void> {
    const { service, runtime } = this.#components;
    const { onProgress: _, onLog: __, ...terms } = options;
    try {
      const result = await service.call(entry, ask, {
        ...terms,
        signal: open.controller.signal,
        onProgress: ({ progress, total, message }) => {
          const text = message ?? (total === undefined ? `${progress}` : `${progress} of ${total}`);
          open.row = { ...open.row, message: cutText(text, MESSAGE_CHARS), updatedAt: runtime.now() };
          this.#tell(open);
        },
      });
      if (!needsInput(result)) {
        await this.#end(open, { result: withWordsSeen(result as object, entry.definition as ToolDefinition) });
        return;
      }
      const storable = (entry.offer.secrets ?? []).length === 0 ? { ask } : {};
      const { capabilities } = options;
      const waiting = questionOf(result, round, { ...storable, ...(capabilities && { capabilities }) });
      await this.#change(open, 'input_required', { waiting, expiresAt: runtime.now() + PATIENCE_MS });
      if (Object.keys(waiting.requests).length === 0) await this.update(open.row.id, options.caller, {});
    } catch (error) {
      const failure = toEclipticError(error, 'HANDLER_FAILED');
      await this.#end(open, endOfFailure(failure)).catch((failed) =>
        this.#components.onCallbackFailed(`the end of task ${open.row.id}`, failed),
      );
    }
  }

  #interrupt(open: Open): Promise<void> {
    const reason = 'the node stopped before the call had ended; it is not made again, and may have had effects';
    return this.#end(open, endOfFailure(new EclipticError('NODE_STOPPED', reason, { outcome: 'unknown' })));
  }

  async #change(
    open: Open,
    status: TaskStatus,
    more: { waiting: Waiting | undefined; expiresAt?: number },
  ): Promise<void> {
    if (this.#open.get(open.row.id) !== open) return;
    const { waiting, expiresAt = open.row.expiresAt } = more;
    const stored = waiting?.ask ? JSON.stringify(waiting) : null;
    open.waiting = waiting;
    open.row = {
      ...open.row,
      ...{ status, waiting: stored, updatedAt: this.#components.runtime.now() },
      // A caller was told how long the task can be read: that time only grows.
      expiresAt: Math.max(expiresAt, open.row.expiresAt),
    };
    await this.#components.store.write([toolTasks.put(open.row)]);
    this.#tell(open);
  }

  async #end(open: Open, end: TaskEnd | undefined, status = statusOf(end)): Promise<void> {
    const { id, owner } = open.row;
    if (this.#open.get(id) !== open) return;
    const { store, runtime } = this.#components;
    this.#open.delete(id);
    const text = end && JSON.stringify(end);
    const size = text?.length ?? 0;
    const now = runtime.now();
    const message = end && 'error' in end ? (end.error as { message: string }).message : null;
    open.row = {
      ...open.row,
      ...{ status, message, size, waiting: null, updatedAt: now },
      expiresAt: Math.max(open.row.expiresAt, now + READABLE_MS),
    };
    open.waiting = undefined;
    this.#count(owner, 0, size, -1);
    try {
      await store.write([toolTasks.put(open.row), ...(text ? [toolTaskEnds.put({ id, end: text })] : [])]);
    } finally {
      open.controller.abort();
    }
    this.#tell(open, end);
  }

  #tell(open: Open, end?: TaskEnd): void {
    this.#watchers.call({ ...viewOf(open), end });
  }

  /** To others than its owner, a task does not exist. */
  async #own(id: string, caller: Party): Promise<ToolTaskRow> {
    const row = this.#open.get(id)?.row ?? (await this.#components.store.read(toolTasks, { where: { id } }))[0];
    if (row && row.owner === caller.address && row.expiresAt > this.#components.runtime.now()) return row;
    throw new EclipticError('TASK_NOT_FOUND', `there is no task "${id}"`, { taskId: id });
  }

  #requireRoom(owner: string): void {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
    const { open = 0, tasks = 0, chars = 0 } = this.#shares.get(owner) ?? {};
    let all = 0;
    for (const share of this.#shares.values()) all += share.tasks;
    if (open < MAX_OPEN && tasks < MAX_TASKS && chars < MAX_CHARS && all < MAX_ALL) return;
    throw new EclipticError('QUEUE_FULL', `${owner} has ${open} tool calls under way and ${tasks} tasks in all`, {
      open,
      tasks,
    });
  }

  #count(owner: string, tasks: number, chars: number, open: number): void {
    const share = this.#shares.get(owner) ?? { open: 0, tasks: 0, chars: 0 };
    share.open += open;
    share.tasks += tasks;
    share.chars += chars;
    if (share.tasks > 0) this.#shares.set(owner, share);
    else this.#shares.delete(owner);
  }

  #sweepLater(): void {
    if (this.#stopped || this.#shares.size === 0) return;
    this.#sweep ??= this.#components.runtime.setTimer(() => {
      this.#sweep = undefined;
      this.#forgetExpired()
        .catch((error) => this.#components.onCallbackFailed('the removal of expired tasks', error))
        .finally(() => this.#sweepLater());
    }, SWEEP_MS);
  }

  async #forgetExpired(): Promise<void> {
    const { store, runtime } = this.#components;
    const below = { expiresAt: runtime.now() };
    const gone = await store.read(toolTasks, { below, orderBy: 'expiresAt', limit: PAGE });
    // A row is older than an open task's own: that one may have been given more time.
    for (const { id } of gone) {
      const open = this.#open.get(id);
      const late = new EclipticError('EXPIRED', 'no answer came in time', { outcome: 'unknown' });
      if (open) await this.#end(open, endOfFailure(late));
    }
    const rows = gone.filter(({ id }) => !this.#open.has(id));
    const id = rows.map((row) => row.id);
    if (id.length === 0) return;
    await store.write([toolTasks.delete({ id }), toolTaskEnds.delete({ id })]);
    for (const { owner, size } of rows) this.#count(owner, -1, -size, 0);
  }
}

function statusOf(end: TaskEnd | undefined): TaskStatus {
  return end && 'result' in end ? 'completed' : 'failed';
}

function viewOf({ row, waiting }: Open): TaskView {
  return { row, requests: waiting?.requests };
}
