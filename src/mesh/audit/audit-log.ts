import { hash } from 'node:crypto';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cursors } from '../../store/common-tables.js';
import type { Store, Write } from '../../store/store.js';
import type { ActionGateComponents } from '../../system/approvals/action-gate.js';
import type { CredentialEvent } from '../../system/secrets/credentials.js';
import type { A2AObservability } from '../observability.js';
import type { A2ALogEvent } from '../schemas.js';
import { firstSince } from './by-time.js';
import { type Batch, RecordWriter } from './record-writer.js';
import { auditStart } from './retention.js';
import { type AuditRow, audit } from './tables.js';

/** Stands for the digest of the row before the first. */
const BEGINNING = '0'.repeat(64);
const PAGE = 1_000;
/** Rows among which the latest events are looked for. */
const SEARCHED = 500;
/** Rows that a search for a text looks at. */
const MAX_SCANNED = 20_000;

export interface AuditReport {
  readonly rows: number;
  /** The first fault; null if the chain is intact. */
  readonly fault: string | null;
}

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

/** Audited are refusals of policy, messages across tiers, peer changes, uses of credentials, and actions of agents. */
function isAudited({ type, code }: A2ALogEvent): boolean {
  if (AUDITED.has(type)) return true;
  return type === 'routing-decision' && code !== undefined;
}

/** Stores audited events in a hash chain: the digest of each row covers the row before, so that edits and gaps show. */
export class AuditLog {
  readonly #store: Store;
  readonly #writer: RecordWriter<A2ALogEvent>;
  readonly #stopListening: () => void;
  #last: Link;

  private constructor(runtime: Runtime, store: Store, observability: A2AObservability, last: Link) {
    this.#store = store;
    this.#last = last;
    this.#writer = new RecordWriter(runtime, store, { name: 'audit log', prepare: (events) => this.#chain(events) });
    this.#stopListening = observability.subscribeToUnusual((event) => {
      if (isAudited(event)) this.#writer.add(event);
    });
  }

  static async open(runtime: Runtime, store: Store, observability: A2AObservability): Promise<AuditLog> {
    const [row] = await store.read(audit, { orderBy: 'seq', descending: true, limit: 1 });
    const [anchor] = await store.read(cursors, { where: { name: 'audit' } });
    const { seq, digest } = row ?? (await firstLink(store));
    // A gap of deleted rows stays visible: their numbers are not used again.
    const last = { seq: Math.max(seq, anchor?.value ?? 0), digest };
    return new AuditLog(runtime, store, observability, last);
  }

  async close(): Promise<void> {
    this.#stopListening();
    await this.#writer.flush();
  }

  /** The latest events besides those about routed messages, newest first. */
  async latest(limit: number): Promise<{ seq: number; at: number; event: A2ALogEvent }[]> {
    await this.#writer.flush();
    const rows = await this.#store.read(audit, { orderBy: 'seq', descending: true, limit: SEARCHED });
    return rows
      .map(({ seq, at, event }) => ({ seq, at, event: JSON.parse(event) as A2ALogEvent }))
      .filter(({ event: { type, envelopeId } }) => type !== 'tier-audit' && envelopeId === undefined)
      .slice(0, limit);
  }

  async verify(): Promise<AuditReport> {
    await this.#writer.flush();
    const store = this.#store;
    const [anchor] = await store.read(cursors, { where: { name: 'audit' } });
    let before: Link = await firstLink(store);
    let rows = 0;
    for (;;) {
      const page = await store.read(audit, { above: { seq: before.seq }, orderBy: 'seq', limit: PAGE });
      for (const row of page) {
        if (row.seq !== before.seq + 1) return { rows, fault: `rows ${before.seq + 1} to ${row.seq - 1} are missing` };
        if (row.digest !== digestOf(before.digest, row.seq, row.at, row.event)) {
          return { rows, fault: `row ${row.seq} has a wrong digest: it or the row before was changed` };
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

  /** The rows since a time that contain a text, among a limited number of rows. */
  async mentioning(text: string, since: number, limit: number): Promise<AuditRow[]> {
    await this.#writer.flush();
    const seq = (await firstSince(this.#store, audit, since)) - 1;
    const bounds = { above: { seq }, below: { seq: seq + MAX_SCANNED } };
    return this.#store.read(audit, { ...bounds, containing: { text, in: ['event'] }, orderBy: 'seq', limit });
  }

  /** As `verify`, but throws `AUDIT_BROKEN` if the chain is not intact. */
  async check(): Promise<AuditReport> {
    const report = await this.verify();
    if (report.fault === null) return report;
    throw new EclipticError('AUDIT_BROKEN', `the audit log is broken: ${report.fault}`, { ...report });
  }

  /** Chains events to the last stored row, not to rows that may never be stored. */
  #chain(events: readonly A2ALogEvent[]): Batch {
    let last = this.#last;
    const writes = events.map((event): Write => {
      const seq = last.seq + 1;
      const { timestamp: at } = event;
      const text = JSON.stringify(event);
      last = { seq, digest: digestOf(last.digest, seq, at, text) };
      return audit.insert({ seq, at, event: text, digest: last.digest });
    });
    const written = () => {
      this.#last = last;
    };
    return { writes: [...writes, cursors.put({ name: 'audit', value: last.seq })], written };
  }
}

/** The link before the first stored row. */
async function firstLink(store: Store): Promise<Link> {
  return (await auditStart(store)) ?? { seq: 0, digest: BEGINNING };
}

function digestOf(before: string, seq: number, at: number, event: string): string {
  return hash('sha256', `${before}\n${seq}\n${at}\n${event}`, 'hex');
}

/** Emits the uses of credentials on the event stream, and so into the audit log. */
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

/** Emits the actions of agents on the event stream, and so into the audit log. */
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
