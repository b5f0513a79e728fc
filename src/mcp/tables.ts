import { defineTable, type RowOf } from '../store/table.js';

/** A tool call that its caller follows as a task. */
export const toolTasks = defineTable('toolTasks', {
  columns: {
    id: 'text',
    /** The address of the caller. */
    owner: 'text',
    /** The full name of the tool. */
    tool: 'text',
    status: 'text',
    message: 'text?',
    createdAt: 'real',
    updatedAt: 'real',
    expiresAt: 'real',
    /** Characters of the result or the error. */
    size: 'integer',
    /** While the task waits for input: the question, and what the tool is called with once it is answered. As JSON. */
    waiting: 'text?',
  },
  key: ['id'],
  indexes: [['owner'], ['expiresAt']],
});
export type ToolTaskRow = RowOf<typeof toolTasks>;

/** How a task ended, as JSON: its result or its error. */
export const toolTaskEnds = defineTable('toolTaskEnds', { columns: { id: 'text', end: 'text' }, key: ['id'] });
