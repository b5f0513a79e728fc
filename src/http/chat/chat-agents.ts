import type { Part } from '../../a2a/protocol/types.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import { vacancyForWords } from '../../mesh/staffing.js';
import { EclipticError } from '../../runtime/errors.js';

export interface ChatAgentsComponents {
  readonly registry: AgentRegistry;
  readonly mcp: McpService;
  /** The types of the workers of an agent of this node; none for an agent in code. */
  readonly workerTypes: (agentId: string) => readonly string[];
}

/** An agent that a caller may use. */
interface ListedAgent {
  readonly address: string;
  readonly description: string;
}

/** Workers that get a task as words or data, without its files. */
const WITHOUT_FILES: ReadonlySet<string> = new Set(['exec', 'command', 'model', 'a2a']);

/** The agents that front ends see, and what each can do with a message of a chat. */
export class ChatAgents {
  readonly #components: ChatAgentsComponents;

  constructor(components: ChatAgentsComponents) {
    this.#components = components;
  }

  /** The agents that the caller may give a task in words. */
  list(caller: Party): ListedAgent[] {
    return [...this.#components.registry.entries()].flatMap(({ address, card, isCaller }) => {
      const listed = !isCaller && !vacancyForWords(card) && this.#components.mcp.mayUse(caller, address);
      return listed ? [{ address, description: card.description }] : [];
    });
  }

  /** Throws if the agent takes no chat, or if its workers would not get the files of this message. */
  requireAble(caller: Party, agent: string, parts: readonly Part[]): void {
    const entry = this.#find(agent);
    // A caller that may not use the agent learns nothing of it here: the task is refused as any other.
    if (!entry || !this.#components.mcp.mayUse(caller, entry.address)) return;
    const { address, card } = entry;
    const vacancy = vacancyForWords(card);
    if (vacancy) throw new EclipticError(vacancy.code, vacancy.reason, { agentId: address });
    const hasFiles = parts.some(({ raw, url }) => raw !== undefined || url !== undefined);
    const types = card.node === undefined && hasFiles ? this.#components.workerTypes(card.id) : [];
    if (types.length === 0 || !types.every((type) => WITHOUT_FILES.has(type))) return;
    const message = `the worker of ${address} (${types[0]}) gets no images, sound or files: send text only`;
    throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', message, { agentId: address, field: 'messages' });
  }

  #find(agent: string): RegistryEntry | undefined {
    try {
      return this.#components.registry.candidate(agent);
    } catch {
      return undefined;
    }
  }
}
