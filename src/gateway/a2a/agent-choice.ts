import type { AgentRegistry } from '../../a2a/registry.js';
import { NotFoundError } from '../../a2a-protocol/service-errors.js';
import type { McpService } from '../../mcp/service.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { OPERATOR } from '../principals.js';
import type { Profiles } from './profiles.js';
import type { Wanted } from './task-desk.js';

export interface AgentChoiceComponents {
  registry: AgentRegistry;
  mcp: McpService;
  profiles: Profiles;
}

/** Who gets a task: the agent that it names, the one that has the skill, or the first that has a project. */
export class AgentChoice {
  readonly #components: AgentChoiceComponents;

  constructor(components: AgentChoiceComponents) {
    this.#components = components;
  }

  choose({ agent, skill }: Wanted): string {
    if (agent !== undefined) return this.#named(agent);
    if (skill !== undefined) return this.#skilled(skill);
    const { profiles, registry } = this.#components;
    for (const known of profiles.withProject) if (registry.ownEntry(known)) return known;
    throw new NotFoundError('Agent with default project');
  }

  #named(agent: string): string {
    return this.#components.registry.candidate(agent).address;
  }

  /** A skill is a tool by its full name or its own, or a capability. */
  #skilled(skill: string): string {
    const { mcp, registry } = this.#components;
    const tool = mcp.list('tool', OPERATOR).find((entry) => entry.fullName === skill || entry.key === skill);
    const owner = tool?.owner ?? registry.entriesWithCapability(skill)[0]?.address;
    if (owner !== undefined) return owner;
    throw new EclipticError('CAPABILITY_NOT_FOUND', `no agent has the skill "${cutText(skill, 128)}"`, { skill });
  }
}
