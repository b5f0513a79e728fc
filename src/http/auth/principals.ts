import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Scope } from './scopes.js';
import { TokenVerifier } from './token-verifier.js';
import type { Tokens } from './tokens.js';

/** The owner of the node, on this machine or with the owner's token. */
export const OPERATOR: Party = Object.freeze({ address: 'operator', node: undefined, tier: 0, sandboxId: undefined });

/** Anybody without a token, where that is allowed. Guests cannot be told from each other. */
export const GUEST: Party = Object.freeze({ address: 'guest', node: undefined, tier: 3, sandboxId: undefined });

export interface PrincipalsComponents {
  tokens: Tokens;
  registry: AgentRegistry;
  /** Does a caller without a token come in as a guest? */
  open: boolean;
  /** Reads tokens of somebody else, if they are taken. */
  jwt?: TokenVerifier | undefined;
}

/** Somebody whose name is known; without a token, the owner or a guest. */
export interface Known {
  readonly principal: Party;
  readonly token?: string;
  /** What it may be let do; without them, everything. */
  readonly scopes?: readonly Scope[] | undefined;
}

const A_GUEST: Known = { principal: GUEST };

/** Who an outside caller is, by what it brings. */
export class Principals {
  readonly #components: PrincipalsComponents;

  constructor(components: PrincipalsComponents) {
    this.#components = components;
  }

  /** The principal for an `Authorization` header, and the token that proves it; undefined where it is nobody's. */
  find(authorization: string | undefined): Known | undefined | Promise<Known> {
    const { tokens, registry, open, jwt } = this.#components;
    if (authorization === undefined) return open ? A_GUEST : undefined;
    const [, secret] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
    if (secret === undefined) return undefined;
    if (jwt && TokenVerifier.isOne(secret)) return this.#bearerOf(jwt, secret);
    if (tokens.isOwners(secret)) return { principal: OPERATOR, token: tokens.ownersId };
    const token = tokens.find(secret);
    if (!token) return undefined;
    // A token in the name of an agent of this node is in that agent's sandbox, unless it says another.
    const sandboxId = token.sandbox ?? registry.entry(token.name)?.sandboxId;
    const { name, id, scopes } = token;
    return { principal: { address: name, node: undefined, tier: 3, sandboxId }, token: id, scopes };
  }

  async #bearerOf(jwt: TokenVerifier, secret: string): Promise<Known> {
    const { name, scopes } = await jwt.verify(secret);
    return { principal: { address: name, node: undefined, tier: 3, sandboxId: undefined }, scopes };
  }
}
