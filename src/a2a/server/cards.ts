import type { JSONWebKeySet } from 'jose';
import { SELF_DESCRIPTION } from '../../agent/staffing.js';
import { ANONYMOUS } from '../../http/auth/caller-auth.js';
import type { Scope } from '../../http/auth/tokens.js';
import { type Exchange, type Route, sendJson } from '../../http/server/http-server.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { vacancyFor, workedCapabilities } from '../../mesh/staffing.js';
import type { Identity } from '../../network/membership/identity.js';
import { EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import { cutText } from '../../runtime/text.js';
import {
  buildCardOfAgent,
  buildNodeCard,
  type CardAgent,
  type CardBundle,
  type CardPersona,
  type CardSubject,
  type CardSurroundings,
  etagOf,
  matchesEtag,
  toSimpleCard,
} from '../protocol/card.js';
import { CardSigner } from '../protocol/card-signature.js';
import { VERSION_HEADER } from '../protocol/headers.js';
import { compact } from '../protocol/reading.js';
import type { A2AAgentCard } from '../protocol/simple.js';
import type { OfferedCapability } from '../protocol/skills.js';
import type { AgentCard } from '../protocol/types.js';
import { type ServedCard, toServedCard } from '../v03/card.js';
import { type A2AOffer, DEFAULT_OFFER, type Offers } from './offer.js';
import type { Profiles } from './profiles.js';
import { speaksV03 } from './request-context.js';

export interface CardsComponents {
  registry: AgentRegistry;
  mcp: McpService;
  identity: Identity;
  profiles: Profiles;
  /** The issuer whose JSON Web Tokens are accepted besides the node's own tokens. */
  issuer: string | undefined;
  grpcAddress: () => string | undefined;
  offers: Offers;
}

export interface PublishedCard {
  /** Pure 1.0: strict readers refuse unknown fields. */
  readonly signed: AgentCard;
  readonly etag: string;
  /** With the fields for readers of 0.3 and of the simple interface. */
  readonly merged: ServedCard;
  readonly mergedEtag: string;
}

type AgentFacts = Partial<CardAgent> & Pick<CardAgent, 'id'>;

export const NODE: CardSubject = {
  name: 'Ecliptic',
  description: 'A node of agents: each of its tools is a skill, and a task goes to the agent that has it.',
};

/** The part of a card that is the same for every card of a node. */
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

/**
 * The cards of this node and its agents, built from the registry and the tool catalogue, signed, and cached until those
 * change.
 */
export class Cards {
  readonly #components: CardsComponents;
  readonly #signer: CardSigner;
  readonly #made = new Map<string, PublishedCard>();
  /** The versions of registry and catalogue that the cached cards were built from. */
  #version = '';

  constructor(components: CardsComponents) {
    this.#components = components;
    const { seed, key } = components.identity;
    this.#signer = new CardSigner(seed, key);
  }

  get keys(): JSONWebKeySet {
    return this.#signer.jwks;
  }

  ofNode(baseUrl: string): PublishedCard {
    return this.#published(`node ${baseUrl}`, () => this.#node(baseUrl, ANONYMOUS));
  }

  ofAgent(id: string, baseUrl: string): PublishedCard {
    // Outside its project there is no such agent.
    if (this.#components.registry.policy.isConfined(id)) throw noAgent(id);
    return this.#published(`agent ${id} ${baseUrl}`, () => this.describe({ id }, baseUrl));
  }

  /**
   * For authenticated callers: the card of the agent that they name, or the node's card with everything that they may
   * see.
   */
  extended(agent: string | undefined, viewer: Party, baseUrl: string): AgentCard {
    if (agent !== undefined) return this.ofAgent(agent, baseUrl).signed;
    return this.#published(`extended ${viewer.address} ${baseUrl}`, () => this.#node(baseUrl, viewer)).signed;
  }

  /** The card of an agent, or of the node, for a binding that proves by itself who asks. */
  presented(
    agent: string | undefined,
    viewer: Party,
    supportedInterfaces: AgentCard['supportedInterfaces'],
  ): AgentCard {
    const key = agent === undefined ? `for ${viewer.address}` : `of ${agent}`;
    const build = (): AgentCard => {
      const card = agent === undefined ? this.#node('', viewer) : this.describe({ id: agent }, '');
      const { securitySchemes, securityRequirements, ...open } = card;
      return { ...open, supportedInterfaces };
    };
    return this.#published(`presented ${key}`, build).signed;
  }

  /** The unsigned card of an agent of this node; `facts` override the node's own. */
  describe(facts: AgentFacts, baseUrl: string): AgentCard {
    const { id } = facts;
    const { registry, profiles } = this.#components;
    const entry = registry.ownEntry(id);
    if (!entry) throw noAgent(id);
    const { mcpToolPermissions, skillBundles, persona } = profiles.of(id) ?? {};
    const { name, status } = entry.card;
    const description = status?.state === 'unstaffed' ? unstaffed(entry.card.description) : entry.card.description;
    const known = compact<Partial<CardAgent>>(facts);
    const agent = { name, description, mcpToolPermissions, skillBundles, persona, ...known, id };
    const viewer = entry.sandboxId === undefined ? ANONYMOUS : entry;
    return buildCardOfAgent(agent, this.#surroundings(baseUrl, viewer, id));
  }

  #node(baseUrl: string, viewer: Party): AgentCard {
    return buildNodeCard(NODE, this.#surroundings(baseUrl, viewer));
  }

  #surroundings(baseUrl: string, viewer: Party, tenant?: string): CardSurroundings {
    const { registry, mcp, grpcAddress, offers } = this.#components;
    const offered = mcp.list('tool', viewer).filter(({ owner }) => this.#isOpen(owner, viewer));
    const tools = offered.flatMap(({ owner, definition: { name, description } }) => {
      const card = registry.entry(owner)?.card;
      // The node's own tools have no agent that could take a task.
      if (!card) return [];
      // An agent without a worker offers only its self-description, which is no work.
      if (card.status?.state === 'unstaffed' && name === SELF_DESCRIPTION) return [];
      return [{ owner, name, description, takesTasks: !vacancyFor(card, 'task', [`${owner}.${name}`]) }];
    });
    return {
      ...surroundingsAt(baseUrl, tenant, grpcAddress(), offers.of(tenant)),
      tools,
      taskCapabilities: this.#taskCapabilities(viewer, new Set(tools.map(({ owner }) => owner))),
      issuer: this.#components.issuer,
    };
  }

  #taskCapabilities(viewer: Party, tooled: ReadonlySet<string>): OfferedCapability[] {
    const { registry, mcp } = this.#components;
    return [...registry.entries()].flatMap(({ address, node, card }) => {
      const isLimited = card.status?.capabilities !== undefined;
      if (node !== undefined || (tooled.has(address) && !isLimited) || vacancyFor(card, 'task')) return [];
      if (!this.#isOpen(address, viewer) || !mcp.mayUse(viewer, address)) return [];
      const worked = new Set(workedCapabilities(card));
      return card.capabilities.flatMap(({ id, name, description }) => {
        return worked.has(id) ? [{ id, name, description, owner: address }] : [];
      });
    });
  }

  /** Public cards leave out sandboxed agents. An agent of another node asks third nodes for the cards of theirs. */
  #isOpen(owner: string, viewer: Party): boolean {
    const entry = this.#components.registry.entry(owner);
    if (viewer.node !== undefined && entry?.node !== undefined) return false;
    return viewer !== ANONYMOUS || entry?.sandboxId === undefined;
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

function noAgent(id: string): EclipticError {
  return new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${cutText(id, 64)}"`);
}

const MAX_AGE_S = 300;

/** The public routes of the node's card and its signing key, and `/api/agents/ID/agent-card`. */
export function cardRoutes(cards: Cards, baseUrl: () => string): Route[] {
  return [
    {
      path: '/.well-known/agent-card.json',
      exact: true,
      public: true,
      serve: (exchange) => answer(exchange, cards.ofNode(baseUrl())),
    },
    {
      path: '/.well-known/jwks.json',
      exact: true,
      public: true,
      serve: ({ response }) => sendJson(response, 200, cards.keys),
    },
    {
      path: '/api/agents',
      scope: 'tasks',
      serve: (exchange) => {
        const [, id] = /^\/api\/agents\/([\w-]+)\/agent-card$/.exec(exchange.path) ?? [];
        if (id === undefined) throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${exchange.path}`);
        answer(exchange, cards.ofAgent(id, baseUrl()));
      },
    },
  ];
}

/** In the version that the reader names; without one in 0.3, as for every request. */
function answer(exchange: Exchange, { signed, etag: ownEtag, merged, mergedEtag }: PublishedCard): void {
  const { request, response } = exchange;
  const old = speaksV03(exchange);
  const [card, etag] = old ? [merged, mergedEtag] : [signed, ownEtag];
  const headers = {
    ETag: etag,
    Vary: VERSION_HEADER,
    'Cache-Control': `public, max-age=${MAX_AGE_S}`,
    'Access-Control-Allow-Origin': '*',
  };
  if (matchesEtag(request.headers['if-none-match'], etag)) {
    response.writeHead(304, headers);
    response.end();
    return;
  }
  const body = Buffer.from(JSON.stringify(card));
  response.writeHead(200, { ...headers, 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** The cards of the node that this process served last, and where it serves them. */
let served: { readonly cards: Cards; readonly baseUrl: () => string } | undefined;

export function serveCards(cards: Cards, baseUrl: () => string): () => void {
  served = { cards, baseUrl };
  return () => {
    if (served?.cards === cards) served = undefined;
  };
}

/** An agent in its owner's database. Missing fields are taken from the node. */
export type CardAgentRow = Omit<AgentFacts, 'persona' | 'skillBundles'>;

export interface CardDatabase {
  getPersona(agentId: string): CardPersona | null | undefined;
  getAgentBundles(agentId: string): readonly CardBundle[];
}

/**
 * The card of the node that this process serves, with all tools of its agents as skills; without skills if it serves
 * none.
 */
export function buildAgentCard(baseUrl: string = defaultUrl()): A2AAgentCard {
  const card = served?.cards.ofNode(baseUrl).signed ?? buildNodeCard(NODE, surroundingsAt(baseUrl));
  return toSimpleCard(card, baseUrl, protocols(baseUrl));
}

/**
 * The card of one agent, with the tools that its permissions name, or its own. The fields of `agent`, and the persona
 * and bundles of `db`, override those that the node knows.
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
  const { id } = agent;
  const alone = { name: id.toUpperCase(), description: '', ...compact<Partial<CardAgent>>(facts), id };
  const card = served?.cards.describe(facts, baseUrl) ?? buildCardOfAgent(alone, surroundingsAt(baseUrl, id));
  return toSimpleCard(card, `${baseUrl}/api/agents/${id}`, protocols(baseUrl));
}

function protocols(baseUrl: string): A2AAgentCard['supportedProtocols'] {
  return [
    { protocol: 'A2A', description: 'Tasks', endpoint: `${baseUrl}/a2a/tasks/send` },
    { protocol: 'MCP', description: 'Tools, resources and prompts', endpoint: `${baseUrl}/mcp` },
  ];
}

/** The host and port that the environment names, else those of the node which this process serves. */
function defaultUrl(): string {
  const { PORT = '0', BIND_HOST } = process.env;
  const { hostname, port } = new URL(served?.baseUrl() ?? 'http://127.0.0.1:3000');
  // With port 0 the system chooses one.
  return `http://${BIND_HOST || hostname}:${Number(PORT) === 0 ? port || '80' : PORT}`;
}

/** A2A cards have no field for it. How to staff the agent is its owner's business, and not on a public card. */
function unstaffed(description: string): string {
  const note = 'Unstaffed: it has no worker, and refuses tasks with NO_WORKER.';
  return description === '' ? note : `${description}\n\n${note}`;
}
