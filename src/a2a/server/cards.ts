import { SELF_DESCRIPTION } from '../../agent/staffing.js';
import type { Scope } from '../../http/auth/scopes.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { vacancyFor } from '../../mesh/staffing.js';
import type { Identity } from '../../network/membership/identity.js';
import { EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import { cutText } from '../../runtime/text.js';
import {
  buildCardOfAgent,
  buildNodeCard,
  type CardAgent,
  type CardPersona,
  type CardSubject,
  type CardSurroundings,
  etagOf,
  type ServedCard,
  toServedCard,
} from '../protocol/card.js';
import { CardSigner } from '../protocol/card-signature.js';
import type { JwkSet } from '../protocol/jws.js';
import type { OfferedCapability } from '../protocol/skills.js';
import type { AgentCard } from '../protocol/types.js';
import { type A2AOffer, DEFAULT_OFFER } from './offer.js';
import type { Profiles } from './profiles.js';

export interface CardsComponents {
  registry: AgentRegistry;
  mcp: McpService;
  identity: Identity;
  profiles: Profiles;
  /** Whose JSON Web Tokens are taken, besides the node's own tokens. */
  issuer: string | undefined;
  grpcAddress: () => string | undefined;
  offer: A2AOffer;
}

/** Nobody in particular: sandboxed agents' tools are left out for it. */
const ANYONE: Party = { address: 'anonymous', node: undefined, tier: 3, sandboxId: undefined };

export interface PublishedCard {
  /** As 1.0 has it, and nothing else: strict readers refuse unknown fields. */
  readonly signed: AgentCard;
  readonly etag: string;
  /** With the fields that readers of 0.3 and of the simple interface look for. */
  readonly merged: ServedCard;
  readonly mergedEtag: string;
}

/** Facts about an agent besides its card on the mesh. */
export type AgentFacts = Partial<Omit<CardAgent, 'id' | 'persona'>> & {
  readonly id: string;
  readonly persona?: CardPersona | null | undefined;
};

export const NODE: CardSubject = {
  name: 'Ecliptic',
  description: 'A node of agents: each of its tools is a skill, and a task goes to the agent that has it.',
};

/** What every card of a node at that address says. */
export function surroundingsAt(
  baseUrl: string,
  tenant?: string,
  grpc?: string,
  offer: A2AOffer = DEFAULT_OFFER,
): CardSurroundings {
  return {
    version: VERSION,
    endpoints: { jsonRpc: `${baseUrl}/a2a/rpc`, httpJson: `${baseUrl}/a2a/v1`, grpc, tenant },
    tools: [],
    ...offer,
    bearerScopes: ['tasks' satisfies Scope],
  };
}

/** The cards of this node and of its agents, made from what is really offered, signed, and kept until that changes. */
export class Cards {
  readonly #components: CardsComponents;
  readonly #signer: CardSigner;
  readonly #made = new Map<string, PublishedCard>();
  /** Of what the cards are made from. */
  #version = '';

  constructor(components: CardsComponents) {
    this.#components = components;
    const { seed, key } = components.identity;
    this.#signer = new CardSigner(seed, key);
  }

  /** The key that the cards are signed with, for verifiers. */
  get keys(): JwkSet {
    return this.#signer.jwks;
  }

  /** The public card of the node. */
  ofNode(baseUrl: string): PublishedCard {
    return this.#published(`node ${baseUrl}`, () => this.#node(baseUrl, ANYONE));
  }

  /** The card of one agent of this node. */
  ofAgent(id: string, baseUrl: string): PublishedCard {
    return this.#published(`agent ${id} ${baseUrl}`, () => this.describe({ id }, baseUrl));
  }

  /** For callers who have proven who they are: of the agent that they name, or of the node with what they may see. */
  extended(agent: string | undefined, viewer: Party, baseUrl: string): AgentCard {
    if (agent !== undefined) return this.ofAgent(agent, baseUrl).signed;
    return this.#published(`extended ${viewer.address} ${baseUrl}`, () => this.#node(baseUrl, viewer)).signed;
  }

  /** The card of an agent of this node, unsigned; what `facts` says goes before what the node knows. */
  describe(facts: AgentFacts, baseUrl: string): AgentCard {
    const { id } = facts;
    const { registry, profiles } = this.#components;
    const entry = registry.ownEntry(id);
    if (!entry) throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${cutText(id, 64)}"`);
    const { name, description } = entry.card;
    const profile = profiles.of(id);
    const persona = facts.persona === undefined ? profile?.persona : facts.persona;
    const { mcpToolPermissions = profile?.mcpToolPermissions, skillBundles = profile?.skillBundles } = facts;
    const viewer = entry.sandboxId === undefined ? ANYONE : entry;
    return buildCardOfAgent(
      {
        id,
        name: facts.name ?? name,
        description: facts.description ?? description,
        mcpToolPermissions,
        skillBundles,
        ...(persona && { persona }),
      },
      this.#surroundings(baseUrl, viewer, id),
    );
  }

  #node(baseUrl: string, viewer: Party): AgentCard {
    return buildNodeCard(NODE, this.#surroundings(baseUrl, viewer));
  }

  #surroundings(baseUrl: string, viewer: Party, tenant?: string): CardSurroundings {
    const { registry, mcp, grpcAddress, offer } = this.#components;
    const offered = mcp.list('tool', viewer).filter(({ owner }) => this.#isOpen(owner, viewer));
    const tools = offered.flatMap(({ owner, definition: { name, description } }) => {
      const card = registry.entry(owner)?.card;
      // The self-description of an agent without a worker is no work that it offers.
      if (card?.status?.state === 'unstaffed' && name === SELF_DESCRIPTION) return [];
      return [{ owner, name, description, takesTasks: card === undefined || !vacancyFor(card, 'task') }];
    });
    return {
      ...surroundingsAt(baseUrl, tenant, grpcAddress(), offer),
      tools,
      taskCapabilities: this.#taskCapabilities(viewer, new Set(tools.map(({ owner }) => owner))),
      issuer: this.#components.issuer,
    };
  }

  /** The capabilities of this node's agents that take tasks and offer no tools. */
  #taskCapabilities(viewer: Party, tooled: ReadonlySet<string>): OfferedCapability[] {
    const { registry, mcp } = this.#components;
    return [...registry.entries()].flatMap(({ address, node, card }) => {
      if (node !== undefined || tooled.has(address) || vacancyFor(card, 'task')) return [];
      if (!this.#isOpen(address, viewer) || !mcp.mayUse(viewer, address)) return [];
      return card.capabilities.map(({ id, name, description }) => ({ id, name, description, owner: address }));
    });
  }

  /** A card for anyone leaves out what lives in a sandbox. */
  #isOpen(owner: string, viewer: Party): boolean {
    return viewer !== ANYONE || this.#components.registry.entry(owner)?.sandboxId === undefined;
  }

  #published(key: string, build: () => AgentCard): PublishedCard {
    const { registry, mcp } = this.#components;
    const version = `${mcp.catalogue.version} ${registry.version}`;
    if (version !== this.#version) this.#made.clear();
    this.#version = version;
    const known = this.#made.get(key);
    if (known) return known;
    const signed = this.#signer.sign(build());
    const merged = toServedCard(signed);
    const published = { signed, etag: etagOf(signed), merged, mergedEtag: etagOf(merged) };
    this.#made.set(key, published);
    return published;
  }
}
