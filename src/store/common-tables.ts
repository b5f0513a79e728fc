import { defineTable } from './table.js';

/** Positions in sequences, by name. */
export const cursors = defineTable('cursors', { columns: { name: 'text', value: 'integer' }, key: ['name'] });

/** Single values, such as where the audit chain starts. */
export const meta = defineTable('meta', { columns: { name: 'text', value: 'text' }, key: ['name'] });
