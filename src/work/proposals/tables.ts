import { defineTable, type RowOf } from '../../store/table.js';

/** A durable proposal, as one side sees it. */
export const proposals = defineTable('proposals', {
  columns: {
    /** The agent of this node. */
    agent: 'text',
    /** `sent` by this agent, or `received`. */
    side: 'text',
    /** The agent at the other side. */
    peer: 'text',
    id: 'text',
    status: 'text',
    /** 1 until both sides have finished. */
    open: 'integer',
    /** The time of the last change. */
    at: 'real',
    /** Terms and state, as JSON. */
    document: 'text',
  },
  key: ['agent', 'side', 'peer', 'id'],
  indexes: [['open', 'at']],
});
export type ProposalRow = RowOf<typeof proposals>;
