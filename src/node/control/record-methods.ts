import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { AuditLog } from '../../mesh/audit/audit-log.js';
import type { Difference, JournalLog } from '../../mesh/audit/journal-log.js';
import { EclipticError } from '../../runtime/errors.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** What a node with a store has written down. */
export interface RecordsOf {
  readonly journal: JournalLog;
  readonly audit: AuditLog;
  replay(rows: readonly unknown[]): { asked: number; differences: Difference[] };
}

const DEFAULT_ROWS = 100;
const PAGE = 100;

/** The owner's operations on the journal and the audit log. */
export function recordMethods(
  records: () => RecordsOf | undefined,
  wordsOf: (id: string) => Promise<string | undefined> = async () => undefined,
): Readonly<Record<string, ControlMethod>> {
  const required = () => {
    const found = records();
    if (found) return found;
    throw new EclipticError('STORE_REQUIRED', 'this node was started without a store');
  };
  return {
    // The latest that fit into one answer; those before them are asked for with `before`.
    async log(params) {
      const kinds = { thread: 'string', agent: 'string', since: 'number', before: 'number', limit: 'number' } as const;
      const { limit = DEFAULT_ROWS, ...wanted } = new Params(params).optional(kinds);
      if (!Number.isSafeInteger(limit) || limit < 0) throw new EclipticError('USAGE', '"limit" must be a whole number');
      const rows = await required().journal.search({ ...wanted, limit: Math.min(limit, PAGE) });
      return fitting(rows.reverse(), ({ envelope }) => envelope.length).reverse();
    },
    async export(_params, { emit, drained, signal }) {
      for await (const row of required().journal.export()) {
        if (signal.aborted) return;
        // The journal keeps no payloads; what is said to the person and by them is kept for them.
        const isOwners = row.sender === OWNER || row.recipient === OWNER;
        const text = isOwners ? await wordsOf(row.envelopeId) : undefined;
        emit(text === undefined ? row : { ...row, text });
        await drained();
      }
    },
    async replay(params) {
      const { id } = new Params(params).optional({ id: 'string' });
      const { journal, replay } = required();
      if (id === undefined) {
        const rows = new Params(params).value('rows');
        if (!Array.isArray(rows)) throw new EclipticError('USAGE', '"rows" must be a list of exported decisions');
        return replay(rows);
      }
      const rows = await journal.about(id);
      if (rows.length === 0) throw new EclipticError('USAGE', `the journal knows no message or thread "${id}"`);
      return replay(rows);
    },
    'audit.verify'() {
      return required().audit.check();
    },
  };
}
