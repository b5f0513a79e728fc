import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { type Known, OPERATOR, type Principals } from './principals.js';
import { RateLimiter } from './rate-limiter.js';
import type { Scope } from './scopes.js';

export interface AdmissionComponents {
  runtime: Runtime;
  principals: Principals;
}

/** Lets callers in, whatever they speak: who they are, whether they come too often, and what their tokens are for. */
export class CallerAuth {
  readonly #principals: Principals;
  readonly #limiter: RateLimiter;
  /** How to end what is under way, by the token that it is for. */
  readonly #open = new Map<string, Set<() => void>>();

  /** `requestsPerMinute` is for each caller but the owner. */
  constructor({ runtime, principals }: AdmissionComponents, requestsPerMinute: number) {
    this.#principals = principals;
    this.#limiter = new RateLimiter(runtime, requestsPerMinute);
  }

  /** Who comes with that `Authorization`, if it may come, and come for that. */
  admit(authorization: string | undefined, scope: Scope | undefined): Known | Promise<Known> {
    const found = this.#principals.find(authorization);
    return found instanceof Promise ? found.then((known) => this.#check(known, scope)) : this.#check(found, scope);
  }

  /** Something is begun for a token, and is ended with it. Returns the way to say that it is over. */
  note(token: string, end: () => void): () => void {
    const open = this.#open.get(token) ?? new Set();
    this.#open.set(token, open.add(end));
    return () => {
      open.delete(end);
      if (open.size === 0) this.#open.delete(token);
    };
  }

  /** A token is good for nothing any more: what it opened ends. */
  dismiss(token: string): void {
    for (const end of [...(this.#open.get(token) ?? [])]) end();
  }

  #check(known: Known | undefined, scope: Scope | undefined): Known {
    if (!known) {
      throw new EclipticError('TOKEN_REQUIRED', 'give a bearer token: `ecliptic token create NAME` makes one');
    }
    const { principal, scopes } = known;
    if (principal !== OPERATOR) this.#limiter.take(principal.address);
    requireScope(scope, scopes);
    return known;
  }
}

/** May one who has these scopes do what needs that one? Throws `SCOPE_REQUIRED` where not. */
export function requireScope(scope: Scope | undefined, scopes: readonly Scope[] | undefined): void {
  if (scope === undefined || !scopes || scopes.includes(scope)) return;
  throw new EclipticError('SCOPE_REQUIRED', `the token is not one for "${scope}"`, { scope });
}
