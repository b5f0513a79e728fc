import { createHash } from 'node:crypto';
import type { CompactJWSHeaderParameters, CryptoKey, createLocalJWKSet } from 'jose';
import { isLoopbackHost } from '../../a2a/client/credentials.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { JWT_NAME_PREFIX, SCOPES, type Scope } from './tokens.js';

/** Keys are refreshed after this time, and used meanwhile. */
const FRESH_MS = 10 * 60_000;
/** Keys are dropped if no refresh succeeded for this long. */
const STALE_MS = 24 * 60 * 60_000;
/** Tokens with made-up key ids cause no more requests than this. */
const ASK_EVERY_MS = 30_000;
const FETCH_MS = 10_000;
const MAX_BYTES = 262_144;
const MAX_KEYS = 64;

/** The signing keys of an issuer, fetched from its URL. */
export class KeySet {
  readonly #runtime: Runtime;
  readonly #url: URL;
  #select: ReturnType<typeof createLocalJWKSet> | undefined;
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

  /** By key id; for a token without one, the only key of its kind. */
  readonly find = async (header: CompactJWSHeaderParameters): Promise<CryptoKey> => {
    const age = this.#runtime.now() - this.#fetchedAt;
    const known = age < STALE_MS ? await this.#select?.(header).catch(() => undefined) : undefined;
    if (known) {
      if (age >= FRESH_MS) void this.#refresh();
      return known;
    }
    await this.#refresh();
    if (!this.#select || this.#runtime.now() - this.#fetchedAt >= STALE_MS) throw refused('its signature');
    return this.#select(header);
  };

  /** One request for all waiting callers, and none too soon. Never rejects: old keys stay if the refresh fails. */
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
    // The owner configured this address, so it may be private; a redirect may not lead to another private one.
    const allowPrivate = [`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`];
    try {
      const limits = { timeoutMs: FETCH_MS, maxBytes: MAX_BYTES, allowPrivate };
      const { status, body } = await guardedFetch(this.#runtime, href, limits);
      const { keys } = (status === 200 ? JSON.parse(body.toString()) : {}) as { keys?: unknown };
      if (!Array.isArray(keys)) throw new EclipticError('FETCH_FAILED', `${origin} answered ${status} and no keys`);
      const { createLocalJWKSet } = await import('jose');
      const found = keys.filter((key) => typeof key === 'object' && key !== null).slice(0, MAX_KEYS);
      this.#select = createLocalJWKSet({ keys: found });
      this.#fetchedAt = this.#runtime.now();
    } catch (err) {
      this.#runtime.logger.warn({ origin, err }, 'JWT keys not fetched');
    }
  }
}

/** An issuer whose JSON Web Tokens are accepted besides the node's own tokens. */
export interface JwtInit {
  /** The `iss` claim. */
  issuer: string;
  /** One of the `aud` claim. */
  audience: string;
  jwksUrl: string;
  /** The claim that names the scopes. Default `scope`. */
  scopesClaim?: string;
  /** The claim that names the caller. Default `sub`. */
  nameClaim?: string;
}

export interface JwtCaller {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA', 'Ed25519'];
/** Tolerated clock difference. */
const SKEW_MS = 60_000;
const MAX_CHARS = 8_192;
const MAX_NAME_CHARS = 512;
const SHAPE = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;

type Claims = Readonly<Record<string, unknown>>;

/** Verifies JSON Web Tokens (RFC 7519) of one issuer. */
export class TokenVerifier {
  readonly #runtime: Runtime;
  readonly #init: JwtInit;
  readonly #keys: KeySet;

  constructor(runtime: Runtime, init: JwtInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#keys = new KeySet(runtime, init.jwksUrl);
  }

  /** The node's own tokens do not have this form. */
  static isOne(secret: string): boolean {
    return SHAPE.test(secret);
  }

  /** Throws `TOKEN_REQUIRED` with the reason. */
  async verify(token: string): Promise<JwtCaller> {
    if (token.length > MAX_CHARS || !TokenVerifier.isOne(token)) throw refused('its form');
    const { compactVerify, errors } = await import('jose');
    try {
      const { payload, protectedHeader } = await compactVerify(token, this.#keys.find, { algorithms: ALGORITHMS });
      const { typ, crit } = protectedHeader;
      if (crit !== undefined) throw refused('extensions that are not known');
      if (typ !== undefined && !/^(application\/)?(at\+)?jwt$/i.test(typ)) throw refused('its type');
      return this.#caller(decode(payload));
    } catch (error) {
      if (error instanceof EclipticError) throw error;
      throw refused(error instanceof errors.JOSEAlgNotAllowed ? 'its algorithm' : 'its signature');
    }
  }

  /** Checked only after the signature. */
  #caller(claims: Claims): JwtCaller {
    const { issuer, audience, nameClaim = 'sub', scopesClaim = 'scope' } = this.#init;
    const { iss, aud, exp, nbf, iat } = claims;
    const now = this.#runtime.now();
    if (iss !== issuer) throw refused('its issuer');
    if (!(Array.isArray(aud) ? aud : [aud]).includes(audience)) throw refused('its audience');
    if (typeof exp !== 'number' || now >= exp * 1_000 + SKEW_MS) throw refused('its time: it has expired');
    for (const from of [nbf, iat]) {
      if (from === undefined) continue;
      if (typeof from !== 'number' || now < from * 1_000 - SKEW_MS) throw refused('its time: it is not valid yet');
    }
    const subject = claims[nameClaim];
    if (typeof subject !== 'string' || subject === '' || subject.length > MAX_NAME_CHARS) {
      throw refused(`its claim "${nameClaim}"`);
    }
    return { name: nameOf(issuer, subject), scopes: scopesIn(claims[scopesClaim]) };
  }
}

function refused(what: string): EclipticError {
  return new EclipticError('TOKEN_REQUIRED', `the token is refused because of ${what}`);
}

function decode(payload: Uint8Array): Claims {
  try {
    const value: unknown = JSON.parse(Buffer.from(payload).toString());
    if (typeof value === 'object' && value !== null) return value as Claims;
  } catch {
    // Refused below.
  }
  throw refused('its form');
}

/** A readable name that is unique per issuer and subject. */
function nameOf(issuer: string, subject: string): string {
  const readable = subject.replace(/[^A-Za-z0-9]+/g, '-').slice(0, 32);
  const digest = createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
    .slice(0, 16);
  return `${JWT_NAME_PREFIX}${readable}-${digest}`;
}

/** A list, or text separated by spaces. Without scopes a token permits nothing. */
function scopesIn(claim: unknown): readonly Scope[] {
  const named = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  return SCOPES.filter((scope) => named.includes(scope));
}
