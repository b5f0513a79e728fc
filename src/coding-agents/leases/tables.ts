import { defineTable, type RowOf } from '../../store/table.js';

/** Reserved files: at the holder's node (`held`) and at the lease authority (`kept`). */
export const leases = defineTable('leases', {
  columns: {
    /** `held` or `kept`. */
    place: 'text',
    id: 'text',
    repository: 'text',
    glob: 'text',
    holder: 'text',
    why: 'text',
    /** The fencing token; 0 until the authority has granted the lease. */
    token: 'integer',
    since: 'real',
    expiresAt: 'real',
    /** 1 when the holder was warned of the expiry. */
    warned: 'integer',
  },
  key: ['place', 'id'],
});
export type LeaseRow = RowOf<typeof leases>;

/** The lease authority of each repository: one device of the owner. */
export const keepers = defineTable('keepers', { columns: { repository: 'text', keeper: 'text' }, key: ['repository'] });
export type KeeperRow = RowOf<typeof keepers>;
