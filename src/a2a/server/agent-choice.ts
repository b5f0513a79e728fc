import { OPERATOR } from '../../http/auth/principals.js';
import type { McpService } from '../../mcp/service.js';
import type { Failure } from '../../mesh/admission.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import { vacancyFor } from '../../mesh/staffing.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { NotFoundError } from '../protocol/service-errors.js';
import type { Profiles } from './profiles.js';
import type { Wanted } from './task-service.js';

export interface AgentChoiceComponents {
  registry: AgentRegistry;
  mcp: McpService;
  profiles: Profiles;
}

/** Who gets a task: the agent that it names, the one that has the skill, or the first with a project that takes tasks. */
export class AgentChoice {
  readonly #components: AgentChoiceComponents;

  constructor(components: AgentChoiceComponents) {
    this.#components = components;
  }

  choose({ agent, skill }: Wanted): string {
    if (agent !== undefined) return this.#named(agent);
    if (skill !== undefined) return this.#skilled(skill);
    const { profiles, registry } = this.#components;
    let vacancy: Failure | undefined;
    for (const known of profiles.withProject) {
      const entry = registry.ownEntry(known);
      if (!entry) continue;
      const refusal = vacancyFor(entry.card, 'task');
      if (!refusal) return known;
      vacancy ??= refusal;
    }
    if (vacancy) throw new EclipticError(vacancy.code, vacancy.reason);
    throw new NotFoundError('Agent with default project');
  }

  #named(agent: string): string {
    return staffed(this.#components.registry.candidate(agent));
  }

  /** A skill is a tool by its full name or its own, or a capability. */
  #skilled(skill: string): string {
    const { mcp, registry } = this.#components;
    const tool = mcp.list('tool', OPERATOR).find((entry) => entry.fullName === skill || entry.key === skill);
    const able = registry.entriesWithCapability(skill);
    const owner = tool ? registry.entry(tool.owner) : (able.find(({ card }) => !vacancyFor(card, 'task')) ?? able[0]);
    if (owner) return staffed(owner, tool && `"${tool.fullName}" is a tool, which is called over MCP; `);
    throw new EclipticError('CAPABILITY_NOT_FOUND', `no agent has the skill "${cutText(skill, 128)}"`, { skill });
  }
}

/** The address of an agent that takes tasks; throws `NO_WORKER` for one that has no worker for them. */
function staffed({ address, card }: RegistryEntry, hint = ''): string {
  const vacancy = vacancyFor(card, 'task');
  if (vacancy) throw new EclipticError(vacancy.code, `${hint}${vacancy.reason}`, { agentId: address });
  return address;
}
