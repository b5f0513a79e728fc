import { defineTable, type RowOf } from '../../store/table.js';

/** A task that an outside caller gave to an agent. */
export const tasks = defineTable('tasks', {
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
  indexes: [['owner', 'statusAt'], ['owner', 'sendKey'], ['state', 'statusAt'], ['statusAt']],
});
export type TaskRow = RowOf<typeof tasks>;

/** The events of a task: each row holds the events of one write. */
export const taskEvents = defineTable('taskEvents', {
  columns: {
    task: 'text',
    /** The number of the row's first event. */
    sequence: 'integer',
    events: 'text',
  },
  key: ['task', 'sequence'],
});

/** Push notification targets of a task. */
export const pushConfigs = defineTable('pushConfigs', {
  columns: { task: 'text', id: 'text', config: 'text' },
  key: ['task', 'id'],
});

/** A piece of work that an agent did for a caller, in a project. */
export const sessions = defineTable('sessions', {
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

export const projects = defineTable('projects', {
  columns: { id: 'text', name: 'text', createdAt: 'real' },
  key: ['id'],
});

/** Properties of an agent that are not on its card. */
export const profiles = defineTable('profiles', {
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
