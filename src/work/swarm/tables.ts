import { defineTable, type RowOf } from '../../store/table.js';

/** The participation of an agent in a swarm. */
export const swarms = defineTable('swarms', {
  columns: {
    agent: 'text',
    swarm: 'text',
    /** The agent that invited this one. */
    sponsor: 'text',
    /** 1 where the agent may vote. */
    seat: 'integer',
    /** The latest Raft term known to the agent, and its vote in that term. */
    epoch: 'integer',
    vote: 'text?',
    /** The definition of the swarm, as JSON; null for voters, which have it in their log. */
    opening: 'text?',
    /** Null while the swarm is active. */
    endedAt: 'real?',
  },
  key: ['agent', 'swarm'],
});
export type SwarmRow = RowOf<typeof swarms>;

/** The Raft log of a voter. */
export const swarmLog = defineTable('swarmLog', {
  columns: { agent: 'text', swarm: 'text', n: 'integer', epoch: 'integer', record: 'text' },
  key: ['agent', 'swarm', 'n'],
});

/** Results of a worker that are not committed to the swarm's log yet. */
export const swarmFindings = defineTable('swarmFindings', {
  columns: { agent: 'text', swarm: 'text', lease: 'integer', subTask: 'text', finding: 'text' },
  key: ['agent', 'swarm', 'lease'],
});
