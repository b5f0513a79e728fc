import { defineTable, type RowOf } from '../../store/table.js';

/** Messages that a coding agent sent or read, for its search. */
export const letters = defineTable('letters', {
  columns: {
    member: 'text',
    id: 'text',
    /** Higher for later messages. */
    at: 'real',
    /** The other side's address. */
    peer: 'text',
    /** 1 for messages of the member. */
    sent: 'integer',
    thread: 'text?',
    needs: 'text',
    hops: 'integer',
    text: 'text',
  },
  key: ['member', 'id'],
  indexes: [
    ['member', 'at'],
    ['member', 'thread'],
  ],
});
export type LetterRow = RowOf<typeof letters>;

/** A coding agent with a mailbox and a name of its own. */
export const members = defineTable('members', {
  columns: { name: 'text', client: 'text', checkout: 'text', seenAt: 'real' },
  key: ['name'],
});

/** Senders of other owners whose mail is accepted. */
export const acquaintances = defineTable('acquaintances', {
  columns: { address: 'text', at: 'real' },
  key: ['address'],
});
