import type { CardBundle, CardPersona } from '../protocol/card.js';

/** What is known of an agent besides its card: the project its tasks belong to, and what its own card tells. */
export interface AgentProfile {
  readonly agent: string;
  /** An unaddressed task goes to the first agent that has one and takes tasks. */
  readonly defaultProjectId: string | null;
  /** Tools that its card shows; null for its own. */
  readonly mcpToolPermissions: readonly string[] | null;
  readonly persona: CardPersona | null;
  readonly skillBundles: readonly CardBundle[];
  readonly createdAt: number;
}

/** What its owner says of an agent besides its card. */
export type AgentAbout = Partial<Omit<AgentProfile, 'agent' | 'createdAt'>>;

/** Profiles in the order in which they were made. */
export interface Profiles {
  readonly all: readonly AgentProfile[];
  /** Agents that have a project: those that the configuration names come first. */
  readonly withProject: Iterable<string>;
  of(agent: string): AgentProfile | undefined;
}

export const DEFAULT_PROJECT = 'default';

export const NOTHING_KNOWN = {
  defaultProjectId: null,
  mcpToolPermissions: null,
  persona: null,
  skillBundles: [],
} as const satisfies AgentAbout;

/** The agents that the configuration names: those whose project it names come first, else in its order. */
export function configuredAgents(about: Readonly<Record<string, AgentAbout>>): readonly string[] {
  const projectLess = ([, { defaultProjectId }]: [string, AgentAbout]) => (defaultProjectId == null ? 1 : 0);
  const sorted = Object.entries(about).sort((a, b) => projectLess(a) - projectLess(b));
  return sorted.map(([agent]) => agent);
}

/** Where there is no store: every agent that is there has the project that all share. */
export class SharedProject implements Profiles {
  readonly #agents: () => Iterable<string>;
  readonly #about: Readonly<Record<string, AgentAbout>>;
  readonly #configured: ReadonlySet<string>;

  constructor(agents: () => Iterable<string>, about: Readonly<Record<string, AgentAbout>> = {}) {
    this.#agents = agents;
    this.#about = about;
    this.#configured = new Set(configuredAgents(about));
  }

  get all(): readonly AgentProfile[] {
    return Array.from(this.#agents(), (agent) => this.#profile(agent));
  }

  get withProject(): Iterable<string> {
    return this.#withProject();
  }

  of(agent: string): AgentProfile | undefined {
    for (const known of this.#agents()) if (known === agent) return this.#profile(agent);
    return undefined;
  }

  *#withProject(): Generator<string> {
    for (const agent of this.#configured) if (this.#about[agent]!.defaultProjectId !== null) yield agent;
    for (const agent of this.#agents()) if (!this.#configured.has(agent)) yield agent;
  }

  #profile(agent: string): AgentProfile {
    const own = Object.hasOwn(this.#about, agent) ? this.#about[agent] : undefined;
    return { ...NOTHING_KNOWN, agent, defaultProjectId: DEFAULT_PROJECT, createdAt: 0, ...own };
  }
}
