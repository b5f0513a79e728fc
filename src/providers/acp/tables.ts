import { defineTable } from '../../store/table.js';

/** The conversations with agents over the Agent Client Protocol: the session of each, and what was said in it. */
export const agentConversations = defineTable('agentConversations', {
  columns: {
    provider: 'text',
    /** The caller, and the context of its tasks. */
    conversation: 'text',
    /** The agent's own id of the session. */
    session: 'text',
    /** The folder that the session works in. */
    folder: 'text',
    /** When it was last used. */
    at: 'real',
    /** The latest exchanges, as JSON. */
    exchanges: 'text',
  },
  key: ['provider', 'conversation'],
  indexes: [['provider', 'at']],
});
