import type { AuditLog } from '../records/audit-log.js';
import type { Difference, JournalLog } from '../records/journal-log.js';
import { EclipticError } from '../runtime/errors.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** What a node with a store has written down. */
export interface RecordsOf {
  readonly journal: JournalLog;
  readonly audit: AuditLog;
  replay(rows: readonly unknown[]): { asked: number; differences: Difference[] };
}

/** The owner's operations on the journal and the audit log. */
export function recordMethods(records: () => RecordsOf | undefined): Readonly<Record<string, ControlMethod>> {
  const required = () => {
    const found = records();
    if (found) return found;
    throw new EclipticError('STORE_REQUIRED', 'this node was started without a store');
  };
  return {
    log(params) {
      const kinds = { thread: 'string', agent: 'string', since: 'number', limit: 'number' } as const;
      return required().journal.search(new Params(params).optional(kinds));
    },
    async export(_params, { emit, signal }) {
      for await (const row of required().journal.export()) {
        if (signal.aborted) return;
        emit(row);
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
