import * as mail from './tables/mail-tables.js';
import * as members from './tables/member-tables.js';
import * as records from './tables/record-tables.js';
import type { RowOf } from './tables/schema.js';
import * as work from './tables/work-tables.js';

export type * from './tables/mail-tables.js';
export type * from './tables/member-tables.js';
export type * from './tables/record-tables.js';
export type { ColumnType, Value } from './tables/schema.js';
export type * from './tables/work-tables.js';

/**
 * The tables of a node's store, used by both stores; a change needs a migration. The position of a table in this list is
 * part of the file format: append, never reorder.
 */
export const TABLES = {
  journal: records.journal,
  outbox: mail.outbox,
  inbox: mail.inbox,
  receipts: mail.receipts,
  watches: mail.watches,
  cursors: mail.cursors,
  addresses: mail.addresses,
  permits: mail.permits,
  agentState: mail.agentState,
  audit: records.audit,
  tasks: work.tasks,
  taskEvents: work.taskEvents,
  pushConfigs: work.pushConfigs,
  sessions: work.sessions,
  stateSegments: work.stateSegments,
  projects: work.projects,
  profiles: work.profiles,
  letters: members.letters,
  members: members.members,
  acquaintances: members.acquaintances,
  runs: work.runs,
  runEvents: work.runEvents,
  proposals: work.proposals,
  swarms: work.swarms,
  swarmLog: work.swarmLog,
  swarmFindings: work.swarmFindings,
  leases: members.leases,
  keepers: members.keepers,
  meta: records.meta,
};

export type TableName = keyof typeof TABLES;
export type Tables = { readonly [Name in TableName]: RowOf<(typeof TABLES)[Name]> };

/** The tables with rows that the store numbers. */
export type LogName = 'journal' | 'audit' | 'outbox' | 'inbox';
