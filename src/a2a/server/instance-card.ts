import { buildCardOfAgent, buildNodeCard, type CardBundle, type CardPersona, toSimpleCard } from '../protocol/card.js';
import type { A2AAgentCard } from '../protocol/simple-types.js';
import { type AgentFacts, type Cards, NODE, surroundingsAt } from './cards.js';

/** The cards of the node that this process serves; of several, the one that was served last. */
let served: Cards | undefined;

export function serveCards(cards: Cards): () => void {
  served = cards;
  return () => {
    if (served === cards) served = undefined;
  };
}

/** An agent as its owner's database has it. What it leaves out is taken from the node. */
export interface CardAgentRow {
  readonly id: string;
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  /** Tools that its card shows; null for its own. */
  readonly mcpToolPermissions?: readonly string[] | null | undefined;
}

/** What a database knows of agents besides their rows. */
export interface CardDatabase {
  getPersona(agentId: string): CardPersona | null | undefined;
  getAgentBundles(agentId: string): readonly CardBundle[];
}

/**
 * The card of the node that this process serves: every tool that its agents offer is a skill. A process that serves none
 * has no skills to show.
 */
export function buildAgentCard(baseUrl: string = defaultUrl()): A2AAgentCard {
  const card = served?.ofNode(baseUrl).signed ?? buildNodeCard(NODE, surroundingsAt(baseUrl));
  return toSimpleCard(card, baseUrl, protocols(baseUrl));
}

/**
 * The card of one of its agents, with the tools that its permissions name, or its own. Permissions of `agent`, and the
 * persona and bundles of `db`, go before what the node was told of the agent.
 */
export function buildAgentCardForAgent(
  agent: CardAgentRow,
  baseUrl: string = defaultUrl(),
  db?: CardDatabase,
): A2AAgentCard {
  const facts: AgentFacts = {
    ...agent,
    ...(db && { persona: db.getPersona(agent.id) ?? null, skillBundles: db.getAgentBundles(agent.id) }),
  };
  const { id, name = id.toUpperCase(), description = '', persona, ...others } = facts;
  const alone = { ...others, id, name, description, ...(persona && { persona }) };
  const card = served?.describe(facts, baseUrl) ?? buildCardOfAgent(alone, surroundingsAt(baseUrl, id));
  return toSimpleCard(card, `${baseUrl}/api/agents/${agent.id}`, protocols(baseUrl));
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
