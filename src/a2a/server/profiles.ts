import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { CardBundle, CardPersona } from '../protocol/card.js';
import { type ProfileRow, profiles, projects } from './tables.js';

/** The facts about an agent besides its card on the mesh: the project of its tasks, and additions to its A2A card. */
export interface AgentProfile {
  readonly agent: string;
  /** An unaddressed task goes to the first agent that has a project and takes tasks. */
  readonly defaultProjectId: string | null;
  /** Null for the agent's own tools. */
  readonly mcpToolPermissions: readonly string[] | null;
  readonly persona: CardPersona | null;
  readonly skillBundles: readonly CardBundle[];
  readonly createdAt: number;
}

export type AgentAbout = Partial<Omit<AgentProfile, 'agent' | 'createdAt'>>;

/** Oldest first. */
export interface Profiles {
  readonly all: readonly AgentProfile[];
  /** Agents that have a project; those that the configuration names come first. */
  readonly withProject: Iterable<string>;
  of(agent: string): AgentProfile | undefined;
}

export const DEFAULT_PROJECT = 'default';

export const EMPTY_PROFILE = {
  defaultProjectId: null,
  mcpToolPermissions: null,
  persona: null,
  skillBundles: [],
} as const satisfies AgentAbout;

/** The agents that the configuration names; those with a project come first, otherwise in its order. */
export function configuredAgents(about: Readonly<Record<string, AgentAbout>>): readonly string[] {
  const projectLess = ([, { defaultProjectId }]: [string, AgentAbout]) => (defaultProjectId == null ? 1 : 0);
  const sorted = Object.entries(about).sort((a, b) => projectLess(a) - projectLess(b));
  return sorted.map(([agent]) => agent);
}

/** Without a store, all agents share one project. */
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
    return { ...EMPTY_PROFILE, agent, defaultProjectId: DEFAULT_PROJECT, createdAt: 0, ...own };
  }
}

export class StoreProfiles implements Profiles {
  readonly #store: Store;
  readonly #runtime: Runtime;
  #all: readonly AgentProfile[];
  #configured: readonly string[] = [];

  readonly #ownAgents: () => Iterable<string>;

  private constructor(runtime: Runtime, store: Store, all: readonly AgentProfile[], ownAgents: () => Iterable<string>) {
    this.#runtime = runtime;
    this.#store = store;
    this.#all = all;
    this.#ownAgents = ownAgents;
  }

  /** `ownAgents` gives the node's agents; those without a stored profile share the default project. */
  static async open(
    runtime: Runtime,
    store: Store,
    ownAgents: () => Iterable<string> = () => [],
  ): Promise<StoreProfiles> {
    const rows = await store.read(profiles, { orderBy: 'createdAt' });
    return new StoreProfiles(runtime, store, rows.map(fromRow), ownAgents);
  }

  get all(): readonly AgentProfile[] {
    return this.#all;
  }

  get withProject(): readonly string[] {
    const agents = new Set([...this.#configured, ...this.#all.map(({ agent }) => agent), ...this.#ownAgents()]);
    return [...agents].filter((agent) => {
      const profile = this.of(agent);
      return !profile || profile.defaultProjectId != null;
    });
  }

  of(agent: string): AgentProfile | undefined {
    return this.#all.find((profile) => profile.agent === agent);
  }

  /** Creates the project of unaddressed tasks, with its first agent. */
  async seed(agent: string): Promise<void> {
    if (this.#all.length > 0) return;
    const createdAt = this.#runtime.now();
    await this.#store.write([projects.put({ id: DEFAULT_PROJECT, name: 'Default', createdAt })]);
    await this.set({ agent, defaultProjectId: DEFAULT_PROJECT });
  }

  /** Stores the configuration of the agents; one without a project shares the default one. */
  async configure(about: Readonly<Record<string, AgentAbout>>): Promise<void> {
    for (const [agent, said] of Object.entries(about)) {
      const defaultProjectId = this.of(agent)?.defaultProjectId ?? DEFAULT_PROJECT;
      await this.set({ agent, defaultProjectId, ...said });
    }
    this.#configured = configuredAgents(about);
  }

  async set(changes: Partial<AgentProfile> & Pick<AgentProfile, 'agent'>): Promise<AgentProfile> {
    const known = this.of(changes.agent) ?? { ...EMPTY_PROFILE, agent: changes.agent, createdAt: this.#runtime.now() };
    const profile = { ...known, ...changes };
    await this.#store.write([profiles.put(toRow(profile))]);
    const others = this.#all.filter((other) => other.agent !== profile.agent);
    this.#all = [...others, profile].sort((a, b) => a.createdAt - b.createdAt);
    return profile;
  }
}

function toRow(profile: AgentProfile): ProfileRow {
  const { agent, defaultProjectId, mcpToolPermissions, persona, skillBundles, createdAt } = profile;
  return {
    agent,
    defaultProject: defaultProjectId,
    toolPermissions: mcpToolPermissions && JSON.stringify(mcpToolPermissions),
    persona: persona && JSON.stringify(persona),
    skillBundles: JSON.stringify(skillBundles),
    createdAt,
  };
}

function fromRow(row: ProfileRow): AgentProfile {
  const { agent, defaultProject, toolPermissions, persona, skillBundles, createdAt } = row;
  return {
    agent,
    defaultProjectId: defaultProject,
    mcpToolPermissions: toolPermissions === null ? null : JSON.parse(toolPermissions),
    persona: persona === null ? null : JSON.parse(persona),
    skillBundles: JSON.parse(skillBundles),
    createdAt,
  };
}
