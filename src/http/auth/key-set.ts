import { isLoopbackHost } from '../../a2a/client/loopback.js';
import { isKeyFor, type Jwk, type JwsAlgorithm } from '../../a2a/protocol/jws.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';

/** Keys are asked for again after this time, while those that are known are used on. */
const FRESH_MS = 10 * 60_000;
/** Keys that could not be asked for again for this long are not trusted any more. */
const STALE_MS = 24 * 60 * 60_000;
/** Whoever makes up keys makes us ask no more often than this. */
const ASK_EVERY_MS = 30_000;
const FETCH_MS = 10_000;
const MAX_BYTES = 262_144;
const MAX_KEYS = 64;

/** The keys that an issuer signs with, from where it serves them. */
export class KeySet {
  readonly #runtime: Runtime;
  readonly #url: URL;
  #keys: readonly Jwk[] = [];
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(runtime: Runtime, url: string) {
    this.#runtime = runtime;
    this.#url = new URL(url);
    if (this.#url.protocol !== 'https:' && !isLoopbackHost(this.#url.hostname)) {
      const message = 'the keys of tokens come over https, or from this machine';
      throw new EclipticError('INVALID_CONFIG', message, { faults: ['http.jwt.jwksUrl'] });
    }
  }

  /** The one key that fits: by its id, or, for a token that names none, by being the only one of its kind. */
  async find(alg: JwsAlgorithm, kid: string | undefined): Promise<Jwk | undefined> {
    const age = this.#runtime.now() - this.#fetchedAt;
    const known = age < STALE_MS ? this.#only(alg, kid) : undefined;
    if (known) {
      if (age >= FRESH_MS) void this.#refresh();
      return known;
    }
    await this.#refresh();
    return this.#runtime.now() - this.#fetchedAt < STALE_MS ? this.#only(alg, kid) : undefined;
  }

  #only(alg: JwsAlgorithm, kid: string | undefined): Jwk | undefined {
    const fitting = this.#keys.filter((key) => isKeyFor(key, alg) && (kid === undefined || key.kid === kid));
    return fitting.length === 1 ? fitting[0] : undefined;
  }

  /** Asks once for all who wait, and not again at once. Never rejects: without new keys the old ones stay. */
  #refresh(): Promise<void> {
    const now = this.#runtime.now();
    if (!this.#asking && now - this.#askedAt >= ASK_EVERY_MS) {
      this.#askedAt = now;
      this.#asking = this.#fetch().finally(() => {
        this.#asking = undefined;
      });
    }
    return this.#asking ?? Promise.resolve();
  }

  async #fetch(): Promise<void> {
    const { hostname, port, protocol, href, origin } = this.#url;
    // The owner of the node named this place; it may be inside. What it leads on to may not.
    const allowPrivate = [`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`];
    try {
      const limits = { timeoutMs: FETCH_MS, maxBytes: MAX_BYTES, allowPrivate };
      const { status, body } = await guardedFetch(this.#runtime, href, limits);
      const { keys } = (status === 200 ? JSON.parse(body.toString()) : {}) as { keys?: unknown };
      if (!Array.isArray(keys)) throw new EclipticError('FETCH_FAILED', `${origin} answered ${status} and no keys`);
      this.#keys = keys.filter((key) => typeof key === 'object' && key !== null).slice(0, MAX_KEYS);
      this.#fetchedAt = this.#runtime.now();
    } catch (err) {
      this.#runtime.logger.warn({ origin, err }, 'the keys of tokens could not be fetched');
    }
  }
}
