import { type RowOf, table } from './schema.js';

/** The routing decision for each message of this node. */
export const journal = table({
  columns: {
    seq: 'integer',
    at: 'real',
    envelopeId: 'text',
    thread: 'text?',
    sender: 'text',
    recipient: 'text',
    type: 'text',
    /** The error code of a refusal; null for a delivered message. */
    code: 'text?',
    /** The envelope and the inputs of the decision, as JSON. */
    envelope: 'text',
    decision: 'text',
  },
  key: ['seq'],
  indexes: [['thread'], ['envelopeId'], ['at']],
});
export type JournalRow = RowOf<typeof journal>;

/** The audit log: the digest of each row covers the row before. */
export const audit = table({
  columns: { seq: 'integer', at: 'real', event: 'text', digest: 'text' },
  key: ['seq'],
});
export type AuditRow = RowOf<typeof audit>;

/** Single values, such as where the audit chain starts. */
export const meta = table({ columns: { name: 'text', value: 'text' }, key: ['name'] });
