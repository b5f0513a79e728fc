import { type RowOf, table } from './schema.js';

/** A task that an outside caller gave to an agent. */
export const tasks = table({
  columns: {
    id: 'text',
    owner: 'text',
    agent: 'text',
    session: 'text',
    context: 'text',
    state: 'text',
    /** When the task entered `state`. */
    statusAt: 'real',
    createdAt: 'real',
    /** 1 where the task may be handed to its agent again after a restart. */
    resumable: 'integer',
    /** The sender's idempotency key. */
    sendKey: 'text',
    /** The task, as JSON. */
    document: 'text',
  },
  key: ['id'],
  indexes: [['owner', 'statusAt'], ['owner', 'sendKey'], ['state']],
});
export type TaskRow = RowOf<typeof tasks>;

/** The events of a task: each row holds the events of one write. */
export const taskEvents = table({
  columns: {
    task: 'text',
    /** The number of the row's first event. */
    sequence: 'integer',
    events: 'text',
  },
  key: ['task', 'sequence'],
});

/** Push notification targets of a task. */
export const pushConfigs = table({ columns: { task: 'text', id: 'text', config: 'text' }, key: ['task', 'id'] });

/** A piece of work that an agent did for a caller, in a project. */
export const sessions = table({
  columns: {
    id: 'text',
    project: 'text?',
    agent: 'text',
    name: 'text',
    prompt: 'text',
    /** The kind of its initiator: `agent` for another agent. */
    source: 'text',
    createdAt: 'real',
  },
  key: ['id'],
});

export const projects = table({ columns: { id: 'text', name: 'text', createdAt: 'real' }, key: ['id'] });

/** Properties of an agent that are not on its card. */
export const profiles = table({
  columns: {
    agent: 'text',
    defaultProject: 'text?',
    /** JSON, like `persona` and `skillBundles`: the names of the tools that the agent's own card lists. */
    toolPermissions: 'text?',
    persona: 'text?',
    skillBundles: 'text',
    createdAt: 'real',
  },
  key: ['agent'],
});
export type ProfileRow = RowOf<typeof profiles>;

/** A durable proposal, as one side sees it. */
export const proposals = table({
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

/** A run of a plan by the Ralph loop. */
export const runs = table({
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
export const runEvents = table({
  columns: { run: 'text', sequence: 'integer', event: 'text' },
  key: ['run', 'sequence'],
});

/** The participation of an agent in a swarm. */
export const swarms = table({
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
export const swarmLog = table({
  columns: { agent: 'text', swarm: 'text', n: 'integer', epoch: 'integer', record: 'text' },
  key: ['agent', 'swarm', 'n'],
});

/** Results of a worker that are not committed to the swarm's log yet. */
export const swarmFindings = table({
  columns: { agent: 'text', swarm: 'text', lease: 'integer', subTask: 'text', finding: 'text' },
  key: ['agent', 'swarm', 'lease'],
});

/** A segment of a shared document, in the replica of one agent. */
export const stateSegments = table({
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
