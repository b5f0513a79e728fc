import { defineTable, type RowOf } from '../store/table.js';

/** Durable messages of this node that the recipient's node has not acknowledged. */
export const outbox = defineTable('outbox', {
  columns: {
    id: 'text',
    /** Higher for later messages of this store. */
    number: 'integer',
    /** The recipient's node. */
    node: 'text',
    envelope: 'text',
    storedAt: 'real',
    expiresAt: 'real?',
  },
  key: ['number'],
  indexes: [['node', 'number'], ['id'], ['expiresAt']],
});
export type OutboxRow = RowOf<typeof outbox>;

/** Messages of the outbox that a custodian keeps for their absent node: one row for each batch. */
export const relays = defineTable('relays', {
  columns: {
    node: 'text',
    /** The numbers of its last and its first message. */
    number: 'integer',
    first: 'integer',
    at: 'real',
    /** Who keeps them. */
    custodian: 'text',
  },
  key: ['node', 'number'],
});
export type RelayRow = RowOf<typeof relays>;

/** Durable messages that an agent of this node has not finished. */
export const inbox = defineTable('inbox', {
  columns: {
    id: 'text',
    /** Higher for later arrivals. */
    number: 'integer',
    /** The sender's node; '' for this node. */
    node: 'text',
    recipient: 'text',
    envelope: 'text',
    /** The states reached so far, as in a receipt. */
    steps: 'text',
    expiresAt: 'real?',
  },
  key: ['number'],
  indexes: [['recipient', 'number'], ['id'], ['expiresAt']],
});
export type InboxRow = RowOf<typeof inbox>;

/** Receipts of durable messages that have left the outbox and the inbox. */
export const receipts = defineTable('receipts', {
  columns: {
    id: 'text',
    /** The node at the other end; '' when sender and recipient are both here. */
    node: 'text',
    /** The end that is here: `sent`, `received`, or `local` for both. */
    side: 'text',
    /** Every state reached, with its time and reason, as JSON. */
    steps: 'text',
    /** The time of the last change. */
    at: 'real',
    /** The number of the receipt update, sent until the other end acknowledges it; null where none is due. */
    news: 'integer?',
  },
  key: ['id', 'node', 'side'],
  indexes: [['node', 'news']],
});
export type ReceiptRow = RowOf<typeof receipts>;

/** Read deadlines of durable messages; the sender is notified of a missed one. */
export const watches = defineTable('watches', {
  columns: { id: 'text', sender: 'text', dueAt: 'real' },
  key: ['id'],
  indexes: [['dueAt']],
});
export type WatchRow = RowOf<typeof watches>;

/** The address book: agents that have been seen, so mail can be sent while they are offline. */
export const addresses = defineTable('addresses', {
  columns: { address: 'text', node: 'text?', card: 'text', seenAt: 'real' },
  key: ['address'],
});
export type AddressRow = RowOf<typeof addresses>;

/** Permits to answer a durable message. */
export const permits = defineTable('permits', {
  columns: { thread: 'text', opener: 'text', responder: 'text', expiresAt: 'real' },
  key: ['thread', 'opener', 'responder'],
  indexes: [['expiresAt']],
});
export type PermitRow = RowOf<typeof permits>;

/** Values of an agent, written in one transaction with the message that caused them. */
export const agentState = defineTable('agentState', {
  columns: { agent: 'text', key: 'text', value: 'text' },
  key: ['agent', 'key'],
});
