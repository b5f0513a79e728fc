import { createHash } from 'node:crypto';
import type { A2AObservability } from '../a2a/observability.js';
import type { A2ALogEvent } from '../a2a/schemas.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import { RecordWriter } from './record-writer.js';

/** What the first row's digest covers in place of a row before it. */
const BEGINNING = '0'.repeat(64);
const PAGE = 1_000;

export interface AuditReport {
  readonly rows: number;
  /** The first thing that is wrong; null when the chain holds. */
  readonly fault: string | null;
}

/** What the next row hangs on. */
interface Link {
  readonly seq: number;
  readonly digest: string;
}

/** Which events must not be denied later: whatever policy refused, whatever crossed tiers, whoever tried to get in. */
function isAudited({ type, code }: A2ALogEvent): boolean {
  if (type === 'security' || type === 'tier-audit' || type === 'peer-status') return true;
  return type === 'routing-decision' && code !== undefined;
}

/** Keeps those events in the store, each row's digest over the one before it, so that an edit or a gap shows. */
export class AuditLog {
  readonly #store: Store;
  readonly #writer: RecordWriter;
  readonly #stopListening: () => void;
  #last: Link;

  private constructor(store: Store, writer: RecordWriter, observability: A2AObservability, last: Link) {
    this.#store = store;
    this.#writer = writer;
    this.#last = last;
    this.#stopListening = observability.subscribe((event) => {
      if (isAudited(event)) this.#append(event);
    });
  }

  static async open(runtime: Runtime, store: Store, observability: A2AObservability): Promise<AuditLog> {
    const [row] = await store.read({ from: 'audit', orderBy: 'seq', descending: true, limit: 1 });
    const last = row ? { seq: row.seq, digest: row.digest } : { seq: 0, digest: BEGINNING };
    return new AuditLog(store, new RecordWriter(runtime, store, 'audit log'), observability, last);
  }

  async close(): Promise<void> {
    this.#stopListening();
    await this.#writer.flush();
  }

  /** Goes through the whole chain. */
  async verify(): Promise<AuditReport> {
    await this.#writer.flush();
    const store = this.#store;
    const [anchor] = await store.read({ from: 'cursors', where: { name: 'audit' } });
    let before: Link = { seq: 0, digest: BEGINNING };
    let rows = 0;
    for (;;) {
      const page = await store.read({ from: 'audit', above: { seq: before.seq }, orderBy: 'seq', limit: PAGE });
      for (const row of page) {
        if (row.seq !== before.seq + 1) return { rows, fault: `rows ${before.seq + 1} to ${row.seq - 1} are missing` };
        if (row.digest !== digestOf(before.digest, row.seq, row.at, row.event)) {
          return { rows, fault: `row ${row.seq} is not what was written, or follows one that is not` };
        }
        before = row;
        rows++;
      }
      if (page.length < PAGE) break;
    }
    if (anchor && anchor.value > before.seq)
      return { rows, fault: `rows ${before.seq + 1} to ${anchor.value} are missing` };
    return { rows, fault: null };
  }

  /** As `verify`, but a chain that does not hold is thrown as `AUDIT_BROKEN`. */
  async check(): Promise<AuditReport> {
    const report = await this.verify();
    if (report.fault === null) return report;
    throw new EclipticError('AUDIT_BROKEN', `the audit log is broken: ${report.fault}`, { ...report });
  }

  #append(event: A2ALogEvent): void {
    const seq = this.#last.seq + 1;
    const { timestamp: at } = event;
    const text = JSON.stringify(event);
    const digest = digestOf(this.#last.digest, seq, at, text);
    this.#last = { seq, digest };
    this.#writer.add({ insert: 'audit', row: { seq, at, event: text, digest } });
    this.#writer.add({ put: 'cursors', row: { name: 'audit', value: seq } });
  }
}

function digestOf(before: string, seq: number, at: number, event: string): string {
  return createHash('sha256').update(`${before}\n${seq}\n${at}\n${event}`).digest('hex');
}
