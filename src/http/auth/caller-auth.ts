import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { TokenVerifier } from './token-verifier.js';
import type { Scope, Tokens } from './tokens.js';

/** The owner of the node, on this machine or with the owner's token. */
export const OPERATOR: Party = Object.freeze({ address: 'operator', node: undefined, tier: 0, sandboxId: undefined });

/** The reader of public routes and cards. */
export const ANONYMOUS: Party = Object.freeze({
  address: 'anonymous',
  node: undefined,
  tier: 3,
  sandboxId: undefined,
});

/** A caller without a token, if the node is open. Guests cannot be told apart. */
export const GUEST: Party = Object.freeze({ address: 'guest', node: undefined, tier: 3, sandboxId: undefined });

export interface PrincipalsComponents {
  tokens: Tokens;
  registry: AgentRegistry;
  /** Callers without a token are guests. */
  open: boolean;
  jwt?: TokenVerifier;
}

/** An authenticated caller. The owner on this machine and guests have no token. */
export interface AuthenticatedCaller {
  readonly principal: Party;
  readonly token?: string;
  /** Undefined for all. */
  readonly scopes?: readonly Scope[];
}

const GUEST_CALLER: AuthenticatedCaller = { principal: GUEST };

/** Authenticates callers by their `Authorization` header. */
export class Principals {
  readonly #components: PrincipalsComponents;

  constructor(components: PrincipalsComponents) {
    this.#components = components;
  }

  /** Undefined for an unknown token. */
  find(authorization: string | undefined): AuthenticatedCaller | undefined | Promise<AuthenticatedCaller> {
    const { tokens, registry, open, jwt } = this.#components;
    if (authorization === undefined) return open ? GUEST_CALLER : undefined;
    const [, secret] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
    if (secret === undefined) return undefined;
    if (jwt && TokenVerifier.isOne(secret)) return this.#bearerOf(jwt, secret);
    if (tokens.isOwners(secret)) return { principal: OPERATOR, token: tokens.ownersId };
    const token = tokens.find(secret);
    if (!token) return undefined;
    // A token in the name of an agent of this node is in that agent's sandbox, unless it names another.
    const sandboxId = token.sandbox ?? registry.entry(token.name)?.sandboxId;
    const { name, id, scopes } = token;
    return { principal: { address: name, node: undefined, tier: 3, sandboxId }, token: id, scopes };
  }

  async #bearerOf(jwt: TokenVerifier, secret: string): Promise<AuthenticatedCaller> {
    const { name, scopes } = await jwt.verify(secret);
    return { principal: { address: name, node: undefined, tier: 3, sandboxId: undefined }, scopes };
  }
}

/** The least recent caller is forgotten, and gets a full bucket next time. */
const MAX_CALLERS = 10_000;
const MINUTE_MS = 60_000;

interface Bucket {
  left: number;
  at: number;
}

/** A token bucket per caller: half a minute's requests at once, refilled over time. */
export class RateLimiter {
  readonly #runtime: Runtime;
  readonly #perMinute: number;
  readonly #unit: string;
  readonly #buckets = new Map<string, Bucket>();

  constructor(runtime: Runtime, perMinute: number, unit = 'requests') {
    this.#runtime = runtime;
    this.#perMinute = perMinute;
    this.#unit = unit;
  }

  /** Throws `RATE_LIMITED` with the time to wait. */
  take(caller: string, amount = 1): void {
    if (this.#perMinute === Number.POSITIVE_INFINITY) return;
    const most = Math.max(1, this.#perMinute / 2);
    const now = this.#runtime.now();
    const bucket = this.#buckets.get(caller) ?? { left: most, at: now };
    const perMs = this.#perMinute / MINUTE_MS;
    bucket.left = Math.min(most, bucket.left + Math.max(0, now - bucket.at) * perMs);
    bucket.at = now;
    // Most recent last, so that the first is the one to forget.
    this.#buckets.delete(caller);
    this.#buckets.set(caller, bucket);
    if (this.#buckets.size > MAX_CALLERS) this.#buckets.delete(this.#buckets.keys().next().value!);
    if (bucket.left >= amount) {
      bucket.left -= amount;
      return;
    }
    const retryAfterMs = Math.ceil((amount - bucket.left) / perMs);
    const message = `"${caller}" sends more than ${this.#perMinute} ${this.#unit} a minute`;
    throw new EclipticError('RATE_LIMITED', message, { retryAfterMs });
  }
}

export interface CallerAuthComponents {
  runtime: Runtime;
  principals: Principals;
}

/** Admits callers of every protocol: authentication, rate limit and scope. */
export class CallerAuth {
  readonly #principals: Principals;
  readonly #limiter: RateLimiter;
  /** Ends of open work, by token. */
  readonly #open = new Map<string, Set<() => void>>();

  /** The rate limit does not apply to the owner. */
  constructor({ runtime, principals }: CallerAuthComponents, requestsPerMinute: number) {
    this.#principals = principals;
    this.#limiter = new RateLimiter(runtime, requestsPerMinute);
  }

  admit(
    authorization: string | undefined,
    scope: Scope | undefined,
  ): AuthenticatedCaller | Promise<AuthenticatedCaller> {
    const found = this.#principals.find(authorization);
    return found instanceof Promise ? found.then((known) => this.#check(known, scope)) : this.#check(found, scope);
  }

  /** Registers work that ends when its token is revoked. Returns a function to unregister it. */
  note(token: string, end: () => void): () => void {
    const open = this.#open.get(token) ?? new Set();
    this.#open.set(token, open.add(end));
    return () => {
      open.delete(end);
      if (open.size === 0) this.#open.delete(token);
    };
  }

  /** Ends the open work of a revoked token. */
  dismiss(token: string): void {
    for (const end of [...(this.#open.get(token) ?? [])]) end();
  }

  #check(known: AuthenticatedCaller | undefined, scope: Scope | undefined): AuthenticatedCaller {
    if (!known) {
      throw new EclipticError('TOKEN_REQUIRED', 'give a bearer token: `ecliptic token create NAME` makes one');
    }
    const { principal, scopes } = known;
    if (principal !== OPERATOR) this.#limiter.take(principal.address);
    requireScope(scope, scopes);
    return known;
  }
}

export function requireScope(scope: Scope | undefined, scopes: readonly Scope[] | undefined): void {
  if (scope === undefined || !scopes || scopes.includes(scope)) return;
  throw new EclipticError('SCOPE_REQUIRED', `the token lacks the scope "${scope}"`, { scope });
}
