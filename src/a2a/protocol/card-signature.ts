import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import type { JSONWebKeySet } from 'jose';
import { cutText } from '../../runtime/text.js';
import { canonicalCard, canonicalCardWithoutEmpties } from './card-fields.js';
import type { AgentCard, AgentCardSignature } from './types.js';

/** Signs cards with the node's key: a JWS over the canonical card with detached payload (RFC 7515, appendix F). */
export class CardSigner {
  readonly kid: string;
  readonly #private: KeyObject;
  readonly #header: Readonly<Record<string, string>>;

  /** `seed` and `kid` are the node's Ed25519 seed and public key in hex; `jku` is the URL of its key set. */
  constructor(seed: string, kid: string, jku?: string) {
    this.kid = kid;
    const d = Buffer.from(seed, 'hex').toString('base64url');
    const x = Buffer.from(kid, 'hex').toString('base64url');
    this.#private = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
    this.#header = { alg: 'EdDSA', kid, typ: 'JOSE', ...(jku === undefined ? {} : { jku }) };
  }

  /** Replaces the card's signatures by this node's: one for each canonical form that verifiers know. */
  sign(card: AgentCard): AgentCard {
    const signatures = formsOf(card).map((form) => this.#signature(form));
    const { securitySchemes, ...unsecured } = card;
    if (securitySchemes) {
      // @a2a-js/sdk 1.3 loses the schemes when it makes the text to verify. The header tells other verifiers of the
      // omission.
      signatures.push(this.#signature(canonicalCardWithoutEmpties(unsecured), { [PARTIAL]: 'securitySchemes' }));
    }
    return { ...card, signatures };
  }

  #signature(form: string, more: Readonly<Record<string, string>> = {}): AgentCardSignature {
    const header = encode(JSON.stringify({ ...this.#header, ...more }));
    const signature = sign(null, Buffer.from(`${header}.${encode(form)}`), this.#private).toString('base64url');
    return { protected: header, signature };
  }

  get jwks(): JSONWebKeySet {
    const { kty, crv, x } = createPublicKey(this.#private).export({ format: 'jwk' }) as Record<
      'kty' | 'crv' | 'x',
      string
    >;
    return { keys: [{ kty, crv, x, kid: this.kid, alg: 'EdDSA', use: 'sig' }] };
  }
}

/** The unverified claims of a signature about its key. */
export interface SignatureHeader {
  readonly alg: string;
  readonly kid: string;
  readonly jku: string | undefined;
}

export type CardVerdict =
  | { readonly verified: true; readonly kid: string }
  /** The reason for each signature that does not hold; empty for an unsigned card. */
  | { readonly verified: false; readonly reasons: readonly string[] };

/** Names the keys to fetch before a card can be verified. */
export function signatureHeaders(card: AgentCard): readonly SignatureHeader[] {
  return (card.signatures ?? []).flatMap((signature) => {
    const header = readHeader(signature);
    return typeof header === 'string' ? [] : [header];
  });
}

/** Does at least one of the card's signatures hold for this card with one of these keys? */
export async function verifyCard(card: AgentCard, keys: JSONWebKeySet): Promise<CardVerdict> {
  const reasons: string[] = [];
  const forms = formsOf(card);
  for (const signature of (card.signatures ?? []).slice(0, MAX_SIGNATURES)) {
    const header = readHeader(signature);
    const reason = typeof header === 'string' ? header : await check(signature, header, forms, keys);
    if (typeof header !== 'string' && reason === undefined) return { verified: true, kid: header.kid };
    reasons.push(reason!);
  }
  return { verified: false, reasons };
}

/** The protocol's form and, where it differs, the form of the official SDKs. */
function formsOf(card: AgentCard): readonly string[] {
  return [...new Set([canonicalCard(card), canonicalCardWithoutEmpties(card)])];
}

/** Header member that names the fields a signature does not cover. Such a signature proves nothing to us. */
const PARTIAL = 'ecliptic/without';

/** Bounds the work that one card can cause. */
const MAX_SIGNATURES = 8;

/** Public keys only: `none` and shared secrets are refused. */
const ALGORITHMS = ['EdDSA', 'Ed25519', 'ES256', 'ES384', 'RS256', 'PS256'];

/** Returns the reason for which the signature holds for none of these forms, or undefined if it holds. */
async function check(
  { signature, protected: header }: AgentCardSignature,
  { alg, kid }: SignatureHeader,
  forms: readonly string[],
  keys: JSONWebKeySet,
): Promise<string | undefined> {
  if (!ALGORITHMS.includes(alg)) return `the algorithm "${alg}" is not accepted`;
  // Base64url has several spellings of the same bytes; only the canonical one is accepted.
  if (Buffer.from(signature, 'base64url').toString('base64url') !== signature) return 'the signature is not base64url';
  const { createLocalJWKSet, errors, flattenedVerify } = await import('jose');
  const find = createLocalJWKSet(keys);
  let reason: string | undefined;
  for (const form of forms) {
    try {
      await flattenedVerify({ protected: header, payload: encode(form), signature }, find, { algorithms: ALGORITHMS });
      return undefined;
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return `no key "${kid}" for ${alg} is known`;
      const differs = error instanceof errors.JWSSignatureVerificationFailed;
      reason = differs ? 'the signature does not fit' : `the key "${kid}" cannot be used`;
    }
  }
  return reason;
}

const MAX_HEADER_CHARS = 8_192;

/** Members beside the protected header are unsigned and ignored. */
function readHeader({ protected: text }: AgentCardSignature): SignatureHeader | string {
  let header: unknown;
  try {
    header = JSON.parse(Buffer.from(text.slice(0, MAX_HEADER_CHARS), 'base64url').toString());
  } catch {
    return 'the protected header is not JSON';
  }
  if (typeof header !== 'object' || header === null) return 'the protected header is not an object';
  const { alg, kid, jku, crit, [PARTIAL]: partial } = header as Record<string, unknown>;
  if (typeof alg !== 'string' || typeof kid !== 'string') return 'the protected header lacks alg or kid';
  if (crit !== undefined) return 'the protected header asks for extensions that are not known';
  if (partial !== undefined)
    return `the signature leaves out ${typeof partial === 'string' ? cutText(partial, 64) : 'a part'}`;
  return { alg, kid, jku: typeof jku === 'string' ? jku : undefined };
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64url');
}
