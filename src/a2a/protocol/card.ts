import { createHash } from 'node:crypto';
import { canonicalJson } from '../../network/membership/statement.js';
import { compact } from './reading.js';
import type { A2AAgentCard, A2AProtocolExtension } from './simple.js';
import {
  type OfferedCapability,
  type OfferedTool,
  skillOf,
  skillsOfCapabilities,
  TOOL_INPUT_MODES,
  TOOL_OUTPUT_MODES,
} from './skills.js';
import type { AgentCapabilities, AgentCard, AgentInterface, AgentProvider, SecurityScheme } from './types.js';

export interface CardEndpoints {
  readonly jsonRpc: string;
  readonly httpJson: string;
  /** `host:port`. */
  readonly grpc?: string;
  readonly tenant?: string;
}

/** Everything on a card that does not depend on its subject. */
export interface CardSurroundings {
  readonly version: string;
  readonly endpoints: CardEndpoints;
  readonly tools: readonly OfferedTool[];
  readonly taskCapabilities?: readonly OfferedCapability[];
  readonly capabilities: AgentCapabilities;
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
  readonly provider?: AgentProvider;
  readonly documentationUrl?: string;
  /** Undefined where callers need no token. */
  readonly bearerScopes?: readonly string[];
  /** The OpenID Connect issuer whose tokens are accepted besides the node's own. */
  readonly issuer?: string;
}

export interface CardSubject {
  readonly name: string;
  readonly description: string;
}

export interface CardAgent extends CardSubject {
  readonly id: string;
  /** Tool names, plain or `owner.tool`; undefined for the default set. */
  readonly mcpToolPermissions?: readonly string[] | null;
  readonly persona?: CardPersona | null;
  readonly skillBundles?: readonly CardBundle[];
}

export interface CardPersona {
  readonly archetype?: string;
  readonly background?: string;
  readonly traits?: readonly string[];
}

export interface CardBundle {
  readonly name: string;
  /** Named as in `mcpToolPermissions`. */
  readonly tools: readonly string[];
}

const BEARER = 'bearer';
const OPEN_ID = 'openId';

/**
 * The card of a node: its skills are all tools of its agents, and the capabilities of agents that take tasks without
 * offering tools.
 */
export function buildNodeCard(node: CardSubject, around: CardSurroundings): AgentCard {
  const { tools, taskCapabilities = [] } = around;
  return build(node, [...tools.map((tool) => skillOf(tool)), ...skillsOfCapabilities(taskCapabilities)], around);
}

/**
 * The card of one agent. Its skills are the tools that its permissions name (default: its own tools) and those of its
 * bundles; an agent that offers no tools has its capabilities as skills.
 */
export function buildCardOfAgent(
  agent: CardAgent,
  around: CardSurroundings,
  defaults: (tool: OfferedTool) => boolean = (tool) => tool.owner === agent.id,
): AgentCard {
  const { mcpToolPermissions, skillBundles = [] } = agent;
  const skills = around.tools.flatMap((tool) => {
    const bundles = skillBundles.filter((bundle) => names(bundle.tools, tool)).map((bundle) => bundle.name);
    const permitted = mcpToolPermissions ? names(mcpToolPermissions, tool) : defaults(tool);
    return permitted || bundles.length > 0 ? [skillOf(tool, bundles)] : [];
  });
  const capabilities = (around.taskCapabilities ?? []).filter(({ owner }) => owner === agent.id);
  const subject = { name: agent.name, description: describe(agent) };
  return build(subject, skills.length > 0 ? skills : skillsOfCapabilities(capabilities), around);
}

function names(list: readonly string[], tool: OfferedTool): boolean {
  return list.includes(tool.name) || list.includes(`${tool.owner}.${tool.name}`);
}

function describe({ description, persona }: CardAgent): string {
  if (!persona) return description;
  const traits = persona.traits?.length ? `Traits: ${persona.traits.join(', ')}.` : undefined;
  return [description, persona.archetype, persona.background, traits].filter(Boolean).join('\n\n');
}

function build(subject: CardSubject, skills: AgentCard['skills'], around: CardSurroundings): AgentCard {
  const { bearerScopes, issuer } = around;
  const discovery = issuer === undefined ? undefined : `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const schemes: Record<string, SecurityScheme> = {
    [BEARER]: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
    ...(discovery !== undefined && { [OPEN_ID]: { openIdConnectSecurityScheme: { openIdConnectUrl: discovery } } }),
  };
  return compact<AgentCard>({
    name: subject.name,
    description: subject.description,
    supportedInterfaces: interfacesAt(around.endpoints),
    version: around.version,
    capabilities: around.capabilities,
    defaultInputModes: around.inputModes,
    defaultOutputModes: around.outputModes,
    skills,
    provider: around.provider,
    documentationUrl: around.documentationUrl,
    securitySchemes: bearerScopes && schemes,
    // Any one of them is enough.
    securityRequirements:
      bearerScopes && Object.keys(schemes).map((name) => ({ schemes: { [name]: { list: bearerScopes } } })),
  });
}

/** The newest version first and JSON-RPC first in each, as most clients expect. */
export function interfacesAt({ jsonRpc, httpJson, grpc, tenant }: CardEndpoints): readonly AgentInterface[] {
  const at = (url: string, protocolBinding: string, protocolVersion: string) =>
    compact<AgentInterface>({ url, protocolBinding, protocolVersion, tenant });
  // 0.3 has no tenants: each agent has a URL of its own.
  const at03 = (url: string, protocolBinding: string): AgentInterface => ({
    url: tenant === undefined ? url : `${url}/${tenant}`,
    protocolBinding,
    protocolVersion: '0.3',
  });
  return [
    at(jsonRpc, 'JSONRPC', '1.0'),
    at(httpJson, 'HTTP+JSON', '1.0'),
    ...(grpc === undefined ? [] : [at(grpc, 'GRPC', '1.0')]),
    at03(jsonRpc, 'JSONRPC'),
    at03(httpJson, 'HTTP+JSON'),
  ];
}

/** The card in the shape of the simple interface. */
export function toSimpleCard(
  card: AgentCard,
  url: string,
  supportedProtocols?: readonly A2AProtocolExtension[],
): A2AAgentCard {
  const { streaming, pushNotifications } = card.capabilities;
  return compact<A2AAgentCard>({
    name: card.name,
    description: card.description,
    url,
    provider: card.provider,
    version: card.version,
    documentationUrl: card.documentationUrl,
    capabilities: compact<A2AAgentCard['capabilities']>({
      streaming,
      pushNotifications,
      stateTransitionHistory: undefined,
    }),
    authentication: { schemes: card.securityRequirements?.length ? ['Bearer'] : [] },
    defaultInputModes: card.defaultInputModes,
    defaultOutputModes: card.defaultOutputModes,
    skills: card.skills.map(({ id, name, description, tags, inputModes, outputModes }) => ({
      id,
      name,
      description,
      tags,
      inputModes: inputModes ?? TOOL_INPUT_MODES,
      outputModes: outputModes ?? TOOL_OUTPUT_MODES,
    })),
    supportedProtocols,
  });
}

export function etagOf(card: object): string {
  return `"${createHash('sha256').update(canonicalJson(card)).digest('base64url')}"`;
}

export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((entry) => {
    const tag = entry.trim().replace(/^W\//, '');
    return tag === '*' || tag === etag;
  });
}
