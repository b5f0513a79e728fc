import { defineTable, type RowOf } from '../../store/table.js';

/** The routing decision for each message of this node. */
export const journal = defineTable('journal', {
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
    /** The envelope as JSON; of a durable message only the fields that the other columns do not have. */
    envelope: 'text',
    /** The inputs of the decision, as JSON. */
    decision: 'text',
  },
  key: ['seq'],
  indexes: [['thread'], ['envelopeId']],
});
export type JournalRow = RowOf<typeof journal>;

/** The audit log: the digest of each row covers the row before. */
export const audit = defineTable('audit', {
  columns: { seq: 'integer', at: 'real', event: 'text', digest: 'text' },
  key: ['seq'],
});
export type AuditRow = RowOf<typeof audit>;
