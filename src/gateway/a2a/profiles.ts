import type { CardBundle, CardPersona } from '../../a2a-protocol/card.js';

/** What is known of an agent besides its card: the project its tasks belong to, and what its own card tells. */
export interface AgentProfile {
  readonly agent: string;
  /** Tasks that name nobody go to the first agent that has one. */
  readonly defaultProjectId: string | null;
  /** Tools that its card shows; null for its own. */
  readonly mcpToolPermissions: readonly string[] | null;
  readonly persona: CardPersona | null;
  readonly skillBundles: readonly CardBundle[];
  readonly createdAt: number;
}

/** Profiles in the order in which they were made. */
export interface Profiles {
  readonly all: readonly AgentProfile[];
  of(agent: string): AgentProfile | undefined;
}

/** Where there is no store: every agent that is there has the project that all share. */
export class SharedProject implements Profiles {
  readonly #agents: () => readonly string[];

  constructor(agents: () => readonly string[]) {
    this.#agents = agents;
  }

  get all(): readonly AgentProfile[] {
    return this.#agents().map(profile);
  }

  of(agent: string): AgentProfile | undefined {
    return this.#agents().includes(agent) ? profile(agent) : undefined;
  }
}

function profile(agent: string): AgentProfile {
  return {
    agent,
    defaultProjectId: 'default',
    mcpToolPermissions: null,
    persona: null,
    skillBundles: [],
    createdAt: 0,
  };
}
