import { defineTable, type RowOf } from '../store/table.js';

/** A run of a plan by the Ralph loop. */
export const runs = defineTable('runs', {
  columns: {
    id: 'text',
    /** The plan's name or file; a new run with the same key resumes this one. */
    key: 'text',
    name: 'text',
    /** The agent that assigns the tasks. */
    agent: 'text',
    status: 'text',
    createdAt: 'real',
    updatedAt: 'real',
    /** The plan and the fingerprints of its tasks, as JSON. */
    document: 'text',
  },
  key: ['id'],
  indexes: [['key', 'id'], ['status']],
});
export type RunRow = RowOf<typeof runs>;

/** The events of a run. */
export const runEvents = defineTable('runEvents', {
  columns: { run: 'text', sequence: 'integer', event: 'text' },
  key: ['run', 'sequence'],
});
