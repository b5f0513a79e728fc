import { storeDamaged } from './faults.js';
import type { Figures, Store, Write } from './store.js';
import type { AuditRow, JournalRow } from './tables.js';

/** The logs that are cut at their beginning. */
type RetainedLog = 'journal' | 'audit';

/** Limits of a log. Default: none. */
export interface RetentionLimits {
  readonly maxAgeMs?: number;
  readonly maxRows?: number;
  /** Bytes of its texts, as in `Store.figures`. */
  readonly maxBytes?: number;
}

/** The predecessor of the oldest row: the last row that was cut off. */
interface ChainStart {
  readonly seq: number;
  readonly digest: string;
}

interface Aged {
  readonly at: number;
  readonly bytes: number;
}

const AUDIT_START = 'audit.start';
/** Limits of one step, so that other calls do not wait for long. */
const STEP_BYTES = 1_048_576;
const STEP_ROWS = 500;

/**
 * Number of oldest rows to delete. A log is cut at its beginning only: the first row that may stay ends the cut, even if
 * the clock was set back and a later row looks older. The newest row always stays, because the number and digest of the
 * next row depend on it.
 */
export function rowsToCut(limits: RetentionLimits, now: number, present: Figures, oldest: readonly Aged[]): number {
  const {
    maxAgeMs = Number.POSITIVE_INFINITY,
    maxRows = Number.POSITIVE_INFINITY,
    maxBytes = Number.POSITIVE_INFINITY,
  } = limits;
  let { rows, bytes } = present;
  let cut = 0;
  for (const row of oldest) {
    const mayStay = rows <= maxRows && bytes <= maxBytes && row.at >= now - maxAgeMs;
    if (mayStay || rows <= 1) break;
    rows--;
    bytes -= row.bytes;
    cut++;
  }
  return cut;
}

/** The writes that delete these oldest rows of a log. For the audit log they also store the start of the chain. */
export function cutBehind(log: RetainedLog, rows: readonly (JournalRow | AuditRow)[]): Write[] {
  const last = rows.at(-1);
  if (!last) return [];
  const removal = { delete: log, where: {}, below: { seq: last.seq + 1 } } as Write;
  if (!('digest' in last)) return [removal];
  const start: ChainStart = { seq: last.seq, digest: last.digest };
  return [{ put: 'meta', row: { name: AUDIT_START, value: JSON.stringify(start) } }, removal];
}

/** Cuts a log to its limits in steps of bounded size, each a separate write. Returns the number of deleted rows. */
export async function retain(store: Store, log: RetainedLog, limits: RetentionLimits, now: number): Promise<number> {
  let total = 0;
  for (;;) {
    const present = await store.figures(log);
    const average = Math.max(1, present.bytes / Math.max(1, present.rows));
    const limit = Math.min(STEP_ROWS, Math.max(1, Math.floor(STEP_BYTES / average)));
    const oldest: (JournalRow | AuditRow)[] = await store.read({ from: log, orderBy: 'seq', limit });
    const count = rowsToCut(limits, now, present, oldest.map(toAged));
    if (count === 0) return total;
    await store.write(cutBehind(log, oldest.slice(0, count)));
    total += count;
  }
}

/** The predecessor of the oldest audit row; undefined where none was cut off. */
export async function auditStart(store: Store): Promise<ChainStart | undefined> {
  const [row] = await store.read({ from: 'meta', where: { name: AUDIT_START } });
  if (!row) return undefined;
  try {
    const { seq, digest } = JSON.parse(row.value);
    if (Number.isSafeInteger(seq) && typeof digest === 'string') return { seq, digest };
  } catch {
    // Reported below.
  }
  throw storeDamaged('the store', `${AUDIT_START} in table meta cannot be read`, { table: 'meta' });
}

function toAged(row: JournalRow | AuditRow): Aged {
  let bytes = 0;
  for (const value of Object.values(row)) if (typeof value === 'string') bytes += Buffer.byteLength(value);
  return { at: row.at, bytes };
}

export interface TaskLimits {
  readonly maxAgeMs?: number | undefined;
  readonly maxRows?: number | undefined;
}

const ENDED = ['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'];
const TASKS_PER_STEP = 200;

/** Deletes the oldest ended tasks, with everything that belongs to them, in small steps. Returns their number. */
export async function retainTasks(store: Store, limits: TaskLimits, now: number): Promise<number> {
  const { maxAgeMs = Number.POSITIVE_INFINITY, maxRows = Number.POSITIVE_INFINITY } = limits;
  let total = 0;
  for (;;) {
    const surplus = (await store.count({ from: 'tasks' })) - maxRows;
    const oldest = await store.read({
      from: 'tasks',
      where: { state: ENDED },
      orderBy: 'statusAt',
      limit: TASKS_PER_STEP,
    });
    const gone = oldest.filter(({ statusAt }, index) => index < surplus || statusAt < now - maxAgeMs);
    if (gone.length === 0) return total;
    const task = gone.map(({ id }) => id);
    await store.write([
      { delete: 'tasks', where: { id: task } },
      { delete: 'taskEvents', where: { task } },
      { delete: 'pushConfigs', where: { task } },
      { delete: 'sessions', where: { id: gone.map(({ session }) => session) } },
    ]);
    total += gone.length;
  }
}
