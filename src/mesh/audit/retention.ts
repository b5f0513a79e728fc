import { meta } from '../../store/common-tables.js';
import { storeDamaged } from '../../store/faults.js';
import type { Figures, Store, Write } from '../../store/store.js';
import type { AuditRow, audit, JournalRow, journal } from './tables.js';

/** The logs that are cut at their beginning. */
type RetainedLog = typeof journal | typeof audit;

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
  // By key: a range would have to pass the rows that were deleted before.
  const removal = log.delete({ seq: rows.map(({ seq }) => seq) });
  if (!('digest' in last)) return [removal];
  const start: ChainStart = { seq: last.seq, digest: last.digest };
  return [meta.put({ name: AUDIT_START, value: JSON.stringify(start) }), removal];
}

/** The last row of a log that was deleted, so that the next cut need not look for the first row that is left. */
export interface RetentionCursor {
  seq: number;
}

/** Cuts a log to its limits in steps of bounded size, each a separate write. Returns the number of deleted rows. */
export async function retain(
  store: Store,
  log: RetainedLog,
  limits: RetentionLimits,
  now: number,
  cursor: RetentionCursor = { seq: 0 },
): Promise<number> {
  let total = 0;
  for (;;) {
    const present = await store.figures(log);
    const average = Math.max(1, present.bytes / Math.max(1, present.rows));
    const limit = Math.min(STEP_ROWS, Math.max(1, Math.floor(STEP_BYTES / average)));
    const oldest: (JournalRow | AuditRow)[] = await store.read(log, {
      above: { seq: cursor.seq },
      orderBy: 'seq',
      limit,
    });
    const count = rowsToCut(limits, now, present, oldest.map(toAged));
    if (count === 0) return total;
    await store.write(cutBehind(log, oldest.slice(0, count)));
    cursor.seq = oldest[count - 1]!.seq;
    total += count;
  }
}

/** The predecessor of the oldest audit row; undefined where none was cut off. */
export async function auditStart(store: Store): Promise<ChainStart | undefined> {
  const [row] = await store.read(meta, { where: { name: AUDIT_START } });
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
