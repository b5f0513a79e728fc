import { hash } from 'node:crypto';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { auditStart } from '../../store/retention.js';
import type { Store, Write } from '../../store/store.js';
import type { ActionGateComponents } from '../../system/approvals/action-gate.js';
import type { CredentialEvent } from '../../system/secrets/credentials.js';
import type { A2AObservability } from '../observability.js';
import type { A2ALogEvent } from '../schemas.js';
import { type Batch, RecordWriter } from './record-writer.js';

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

const AUDITED: ReadonlySet<A2ALogEvent['type']> = new Set([
  'security',
  'tier-audit',
  'peer-status',
  'credential',
  'action',
]);

/**
 * Which events must not be denied later: whatever policy refused, whatever crossed tiers, whoever tried to get in, every
 * use of a credential, and whatever agents wanted to do by themselves.
 */
function isAudited({ type, code }: A2ALogEvent): boolean {
  if (AUDITED.has(type)) return true;
  return type === 'routing-decision' && code !== undefined;
}

/** Keeps those events in the store, each row's digest over the one before it, so that an edit or a gap shows. */
export class AuditLog {
  readonly #store: Store;
  readonly #writer: RecordWriter<A2ALogEvent>;
  readonly #stopListening: () => void;
  /** The last link that is on disk. */
  #last: Link;

  private constructor(runtime: Runtime, store: Store, observability: A2AObservability, last: Link) {
    this.#store = store;
    this.#last = last;
    this.#writer = new RecordWriter(runtime, store, { what: 'audit log', prepare: (events) => this.#chain(events) });
    this.#stopListening = observability.subscribeToUnusual((event) => {
      if (isAudited(event)) this.#writer.add(event);
    });
  }

  static async open(runtime: Runtime, store: Store, observability: A2AObservability): Promise<AuditLog> {
    const [row] = await store.read({ from: 'audit', orderBy: 'seq', descending: true, limit: 1 });
    const [anchor] = await store.read({ from: 'cursors', where: { name: 'audit' } });
    const { seq, digest } = row ?? (await firstLink(store));
    // Rows that were there and are gone leave a gap that no later row fills.
    const last = { seq: Math.max(seq, anchor?.value ?? 0), digest };
    return new AuditLog(runtime, store, observability, last);
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
    let before: Link = await firstLink(store);
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

  /** Hangs events on what is on disk, and not on what may never get there. */
  #chain(events: readonly A2ALogEvent[]): Batch {
    let last = this.#last;
    const writes = events.map((event): Write => {
      const seq = last.seq + 1;
      const { timestamp: at } = event;
      const text = JSON.stringify(event);
      last = { seq, digest: digestOf(last.digest, seq, at, text) };
      return { insert: 'audit', row: { seq, at, event: text, digest: last.digest } };
    });
    const written = () => {
      this.#last = last;
    };
    return { writes: [...writes, { put: 'cursors', row: { name: 'audit', value: last.seq } }], written };
  }
}

/** What the first row that is kept hangs on. */
async function firstLink(store: Store): Promise<Link> {
  return (await auditStart(store)) ?? { seq: 0, digest: BEGINNING };
}

function digestOf(before: string, seq: number, at: number, event: string): string {
  return hash('sha256', `${before}\n${seq}\n${at}\n${event}`, 'hex');
}

/** Puts on the one stream, and so into the audit log, what is done with credentials. */
export function reportCredentials(runtime: Runtime, observability: A2AObservability): (event: CredentialEvent) => void {
  return ({ kind, provider, workspace, name, error }) =>
    observability.emit({
      type: 'credential',
      topic: `credential.${kind}`,
      provider,
      details: { workspace, name },
      success: error === undefined,
      ...(error && { code: error.code, reason: error.message }),
      timestamp: runtime.now(),
    });
}

/** The same for what agents wanted to do by themselves. */
export function reportActions(runtime: Runtime, observability: A2AObservability): ActionGateComponents['report'] {
  return ({ agent, provider, action, subject }, { allowed, by, lasting, reason }, correlationId) =>
    observability.emit({
      type: 'action',
      topic: allowed ? 'action.allowed' : 'action.denied',
      sender: agent,
      provider,
      correlationId,
      details: { action, subject, by, lasting },
      success: allowed,
      ...(!allowed && { code: 'PROVIDER_POLICY_DENIED' }),
      reason,
      timestamp: runtime.now(),
    });
}
