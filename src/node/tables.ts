import { profiles, projects, pushConfigs, sessions, taskEvents, tasks } from '../a2a/server/tables.js';
import { keepers, leases } from '../coding-agents/leases/tables.js';
import { acquaintances, letters, members } from '../coding-agents/mailbox/tables.js';
import { stateSegments } from '../documents/tables.js';
import { addresses, agentState, inbox, outbox, permits, receipts, relays, watches } from '../mail/tables.js';
import { toolTaskEnds, toolTasks } from '../mcp/tables.js';
import { audit, journal } from '../mesh/audit/tables.js';
import { runEvents, runs } from '../plans/tables.js';
import { agentConversations } from '../providers/acp/tables.js';
import { silentLogger } from '../runtime/runtime.js';
import { cursors, meta } from '../store/common-tables.js';
import { FileStore, type FileStoreOptions } from '../store/file-store.js';
import type { Table } from '../store/table.js';
import { proposals } from '../work/proposals/tables.js';
import { swarmFindings, swarmLog, swarms } from '../work/swarm/tables.js';
import { hasSqliteStore, migrateSqliteStore } from './migrate-sqlite.js';

/** The tables of a node's store. */
export const TABLES: readonly Table[] = [
  journal,
  outbox,
  inbox,
  receipts,
  relays,
  watches,
  cursors,
  addresses,
  permits,
  agentState,
  audit,
  tasks,
  taskEvents,
  pushConfigs,
  sessions,
  stateSegments,
  projects,
  profiles,
  letters,
  members,
  acquaintances,
  runs,
  runEvents,
  proposals,
  swarms,
  swarmLog,
  swarmFindings,
  leases,
  keepers,
  agentConversations,
  toolTasks,
  toolTaskEnds,
  meta,
];

/** Opens the store in a data folder, or creates it. */
export async function openStore(folder: string, options: Omit<FileStoreOptions, 'tables'> = {}): Promise<FileStore> {
  if (!options.disk && hasSqliteStore(folder)) {
    await migrateSqliteStore(folder, TABLES, options.runtime?.logger ?? silentLogger);
  }
  return FileStore.open(folder, { ...options, tables: TABLES });
}
