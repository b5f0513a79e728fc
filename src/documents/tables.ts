import { defineTable, type RowOf } from '../store/table.js';

/** A segment of a shared document, in the replica of one agent. */
export const stateSegments = defineTable('stateSegments', {
  columns: {
    thread: 'text',
    agent: 'text',
    stream: 'text',
    /** The segment covers the numbers from `first` to `number`. */
    first: 'integer',
    number: 'integer',
    /** The author's version vector, as JSON. */
    after: 'text',
    /** The update, in base64. */
    bytes: 'text',
    signature: 'text',
    /** Covers all other columns. */
    digest: 'text',
  },
  key: ['thread', 'agent', 'stream', 'number'],
});
export type StateSegmentRow = RowOf<typeof stateSegments>;
