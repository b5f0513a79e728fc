import { createHash } from 'node:crypto';
import { isJwsAlgorithm, type JwsAlgorithm, verifyJws } from '../../a2a/protocol/jws.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { KeySet } from './key-set.js';
import { SCOPES, type Scope } from './scopes.js';

/** Whose tokens are taken besides the node's own. */
export interface JwtInit {
  /** As the `iss` claim has it. */
  issuer: string;
  /** What this node is called there: one of the `aud` claim. */
  audience: string;
  /** Where the issuer serves its keys. */
  jwksUrl: string;
  /** The claim that names the scopes. Default `scope`. */
  scopesClaim?: string | undefined;
  /** The claim that names the caller. Default `sub`. */
  nameClaim?: string | undefined;
}

export interface JwtCaller {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

const ALGORITHMS: ReadonlySet<JwsAlgorithm> = new Set(['RS256', 'ES256', 'EdDSA', 'Ed25519']);
/** What clocks may differ by. */
const SKEW_MS = 60_000;
const MAX_CHARS = 8_192;
const MAX_NAME_CHARS = 512;
const SHAPE = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;
/** Token names never begin so: a name here is never one there. */
export const JWT_NAME_PREFIX = 'jwt-';

type Claims = Readonly<Record<string, unknown>>;

/** Reads JSON Web Tokens (RFC 7519) of one issuer, signed with a key that it serves. */
export class TokenVerifier {
  readonly #runtime: Runtime;
  readonly #init: JwtInit;
  readonly #keys: KeySet;

  constructor(runtime: Runtime, init: JwtInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#keys = new KeySet(runtime, init.jwksUrl);
  }

  /** Does that look like a token of this kind? The node's own do not. */
  static isOne(secret: string): boolean {
    return SHAPE.test(secret);
  }

  /** Throws `TOKEN_REQUIRED` with the reason where it proves nothing. */
  async verify(token: string): Promise<JwtCaller> {
    const [, head = '', body = '', signature = ''] = (token.length <= MAX_CHARS && SHAPE.exec(token)) || [];
    const { alg, kid, crit, typ } = decode(head);
    if (typeof alg !== 'string' || !isJwsAlgorithm(alg) || !ALGORITHMS.has(alg)) throw refused('its algorithm');
    if (crit !== undefined) throw refused('extensions that are not known');
    if (typ !== undefined && !/^(application\/)?(at\+)?jwt$/i.test(String(typ))) throw refused('its type');
    const key = await this.#keys.find(alg, typeof kid === 'string' ? kid : undefined);
    if (!key || verifyJws(alg, key, `${head}.${body}`, signature) !== undefined) throw refused('its signature');
    return this.#caller(decode(body));
  }

  /** Nothing of this is looked at before the signature holds. */
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
  return new EclipticError('TOKEN_REQUIRED', `the token is not taken because of ${what}`);
}

function decode(part: string): Claims {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    if (typeof value === 'object' && value !== null) return value as Claims;
  } catch {
    // Said below.
  }
  throw refused('its form');
}

/** A name that people recognise, and that nobody else has, whatever the subject is written like. */
function nameOf(issuer: string, subject: string): string {
  const readable = subject.replace(/[^A-Za-z0-9]+/g, '-').slice(0, 32);
  const digest = createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
    .slice(0, 16);
  return `${JWT_NAME_PREFIX}${readable}-${digest}`;
}

/** A list, or a text with spaces between; a token without any may be used for nothing. */
function scopesIn(claim: unknown): readonly Scope[] {
  const named = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  return SCOPES.filter((scope) => named.includes(scope));
}
