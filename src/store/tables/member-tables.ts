import { type RowOf, table } from './schema.js';

/** Messages that a coding agent sent or read, for its search. */
export const letters = table({
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
export const members = table({
  columns: { name: 'text', client: 'text', checkout: 'text', seenAt: 'real' },
  key: ['name'],
});

/** Senders of other owners whose mail is accepted. */
export const acquaintances = table({ columns: { address: 'text', at: 'real' }, key: ['address'] });

/** Reserved files: at the holder's node (`held`) and at the lease authority (`kept`). */
export const leases = table({
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
export const keepers = table({ columns: { repository: 'text', keeper: 'text' }, key: ['repository'] });
export type KeeperRow = RowOf<typeof keepers>;
