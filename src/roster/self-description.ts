import type { Agent } from '../agent/agent.js';
import { SELF_DESCRIPTION } from '../agent/staffing.js';

/** Offers a tool that tells what is on the agent's card, for an agent without a module of its own. */
export function addDefaultBehaviour(agent: Agent): void {
  const describe = () => {
    const { id, name, tier, description, capabilities, status } = agent.card;
    const state = status?.state ?? 'ready';
    return { id, name, tier, description, capabilities: capabilities.map(({ id }) => id), state };
  };
  const description = `Says who ${agent.card.name} is, what it is for, and whether it has a worker.`;
  agent.tool(SELF_DESCRIPTION, { description, annotations: { readOnlyHint: true } }, describe);
}

/** Why an agent of the configuration or the roster has no worker, and the line of ecliptic.json that gives it one. */
export function vacancyOf(id: string, module?: string): { readonly reason: string; readonly fix: string } {
  if (module !== undefined) {
    return {
      reason: `${module} attaches no handler for it`,
      fix: `agent.onRequest(…) or agent.onTask(…) in ${module}`,
    };
  }
  return {
    reason: 'it is a role without a worker',
    fix: `"agents": { "${id}": { "module": "./${id}.js" } } in ecliptic.json, or "acp", "command" or "a2a" instead of "module"`,
  };
}
