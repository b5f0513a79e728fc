import { toSimpleCard } from '../../a2a-protocol/card.js';
import type { A2AAgentCard } from '../../a2a-protocol/simple-types.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Cards } from './cards.js';

/** The cards of the node that this process serves; of several, the one that was served last. */
let served: Cards | undefined;

export function serveCards(cards: Cards): () => void {
  served = cards;
  return () => {
    if (served === cards) served = undefined;
  };
}

/** The card of the node that this process serves: every tool that its agents offer is a skill. */
export function buildAgentCard(baseUrl: string = defaultUrl()): A2AAgentCard {
  const { signed } = requireServed().ofNode(baseUrl);
  return toSimpleCard(signed, baseUrl, protocols(baseUrl));
}

/** The card of one of its agents, with the tools that its permissions name, or its own. */
export function buildAgentCardForAgent(agent: { readonly id: string }, baseUrl: string = defaultUrl()): A2AAgentCard {
  const { signed } = requireServed().ofAgent(agent.id, baseUrl);
  return toSimpleCard(signed, `${baseUrl}/api/agents/${agent.id}`, protocols(baseUrl));
}

function requireServed(): Cards {
  if (served) return served;
  throw new EclipticError('NODE_STOPPED', 'this process serves no node; call node.serve() first');
}

function protocols(baseUrl: string): A2AAgentCard['supportedProtocols'] {
  return [
    { protocol: 'A2A', description: 'Tasks', endpoint: `${baseUrl}/a2a/tasks/send` },
    { protocol: 'MCP', description: 'Tools, resources and prompts', endpoint: `${baseUrl}/mcp` },
  ];
}

function defaultUrl(): string {
  const { PORT = '3000', BIND_HOST = '127.0.0.1' } = process.env;
  return `http://${BIND_HOST}:${PORT}`;
}
