import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { TokenVerifier } from './token-verifier.js';
import type { Scope, Tokens } from './tokens.js';

/** The owner of the node, on this machine or with the owner's token. */
export const OPERATOR: Party = Object.freeze({ address: 'operator', node: undefined, tier: 0, sandboxId: undefined });

/** The reader of public routes and cards. */
export const ANONYMOUS: Party = outsider('anonymous');

/** A caller without a token, if the node is open. Guests cannot be told apart. */
export const GUEST: Party = outsider('guest');

/** An agent of this node or a caller with a token: neither a guest, who cannot be told apart, nor an agent of another node. */
export function isKnownCaller({ address, node }: Party): boolean {
  return node === undefined && address !== GUEST.address && address !== ANONYMOUS.address;
}

function outsider(address: string, sandboxId?: string): Party {
  return Object.freeze({ address, node: undefined, tier: 3, sandboxId });
}

/** An authenticated caller. The owner on this machine and guests have no token. */
export interface AuthenticatedCaller {
  readonly principal: Party;
  readonly token?: string;
  /** Undefined for all. */
  readonly scopes?: readonly Scope[];
}

const GUEST_CALLER: AuthenticatedCaller = { principal: GUEST };

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
  tokens: Tokens;
  registry: AgentRegistry;
  jwt?: TokenVerifier;
}

export interface CallerAuthInit {
  /** Callers without a token are guests. */
  open: boolean;
  /** For each caller except the owner. */
  requestsPerMinute: number;
}

/** Admits callers of every protocol: authentication, rate limit and scope. */
export class CallerAuth {
  readonly #components: CallerAuthComponents;
  readonly #allowsGuests: boolean;
  readonly #limiter: RateLimiter;
  /** Ends of open work, by token. */
  readonly #open = new Map<string, Set<() => void>>();

  constructor(components: CallerAuthComponents, { open, requestsPerMinute }: CallerAuthInit) {
    this.#components = components;
    this.#allowsGuests = open;
    this.#limiter = new RateLimiter(components.runtime, requestsPerMinute);
  }

  admit(
    authorization: string | undefined,
    scope: Scope | undefined,
  ): AuthenticatedCaller | Promise<AuthenticatedCaller> {
    const found = this.#find(authorization);
    return found instanceof Promise ? found.then((caller) => this.#check(caller, scope)) : this.#check(found, scope);
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

  /** Undefined for an unknown token. */
  #find(authorization: string | undefined): AuthenticatedCaller | undefined | Promise<AuthenticatedCaller> {
    const { tokens, registry, jwt } = this.#components;
    if (authorization === undefined) return this.#allowsGuests ? GUEST_CALLER : undefined;
    const [, secret] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
    if (secret === undefined) return undefined;
    if (jwt && TokenVerifier.isOne(secret)) {
      return jwt.verify(secret).then(({ name, scopes }) => ({ principal: outsider(name), scopes }));
    }
    if (tokens.isOwners(secret)) return { principal: OPERATOR, token: tokens.ownersId };
    const token = tokens.find(secret);
    if (!token) return undefined;
    const { name, id, scopes } = token;
    // A token in the name of an agent of this node is in that agent's sandbox, unless it names another.
    const sandboxId = token.sandbox ?? registry.entry(name)?.sandboxId;
    return { principal: { address: name, node: undefined, tier: 3, sandboxId }, token: id, scopes };
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
