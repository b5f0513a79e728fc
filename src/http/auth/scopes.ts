/** What a token may be used for: tasks of A2A clients, and everything that is offered over MCP. */
export const SCOPES = ['tasks', 'tools'] as const;

export type Scope = (typeof SCOPES)[number];
