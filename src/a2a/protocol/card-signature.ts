import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import type { JSONWebKeySet } from 'jose';
import { cutText } from '../../runtime/text.js';
import { canonicalCard, canonicalCardWithoutEmpties } from './card-fields.js';
import type { AgentCard, AgentCardSignature } from './types.js';

/** Signs cards as the node they come from: JWS over the canonical card, the payload left out (RFC 7515, appendix F). */
export class CardSigner {
  readonly kid: string;
  readonly #private: KeyObject;
  readonly #header: Readonly<Record<string, string>>;

  /** `seed` and `kid` are the node's: its Ed25519 seed in hex and its public key. `jku` says where the key can be had. */
  constructor(seed: string, kid: string, jku?: string) {
    this.kid = kid;
    const d = Buffer.from(seed, 'hex').toString('base64url');
    const x = Buffer.from(kid, 'hex').toString('base64url');
    this.#private = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
    this.#header = { alg: 'EdDSA', kid, typ: 'JOSE', ...(jku === undefined ? {} : { jku }) };
  }

  /** The card with this node's signatures in the place of any that it had: one for each form that verifiers know. */
  sign(card: AgentCard): AgentCard {
    const signatures = formsOf(card).map((form) => this.#signature(form));
    const { securitySchemes, ...unsecured } = card;
    if (securitySchemes) {
      // @a2a-js/sdk 1.3 loses these when it makes what it verifies. Nobody else may take them for unsigned.
      signatures.push(this.#signature(canonicalCardWithoutEmpties(unsecured), { [PARTIAL]: 'securitySchemes' }));
    }
    return { ...card, signatures };
  }

  #signature(form: string, more: Readonly<Record<string, string>> = {}): AgentCardSignature {
    const header = encode(JSON.stringify({ ...this.#header, ...more }));
    const signature = sign(null, Buffer.from(`${header}.${encode(form)}`), this.#private).toString('base64url');
    return { protected: header, signature };
  }

  /** The public key, as it is served for verifiers. */
  get jwks(): JSONWebKeySet {
    const { kty, crv, x } = createPublicKey(this.#private).export({ format: 'jwk' }) as Record<
      'kty' | 'crv' | 'x',
      string
    >;
    return { keys: [{ kty, crv, x, kid: this.kid, alg: 'EdDSA', use: 'sig' }] };
  }
}

/** What a signature says of the key it was made with. Nothing of it is proven before the signature is. */
export interface SignatureHeader {
  readonly alg: string;
  readonly kid: string;
  readonly jku: string | undefined;
}

export type CardVerdict =
  | { readonly verified: true; readonly kid: string }
  /** Why each of its signatures does not hold; empty for a card that has none. */
  | { readonly verified: false; readonly reasons: readonly string[] };

/** Where to look for a card's keys, before verifying it. */
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

/** As the protocol says, and, where that is another, as the official SDKs make it. */
function formsOf(card: AgentCard): readonly string[] {
  return [...new Set([canonicalCard(card), canonicalCardWithoutEmpties(card)])];
}

/** What a signature does not cover. One that leaves anything out proves nothing to us. */
const PARTIAL = 'ecliptic/without';

/** More signatures than this on one card are there to cost time. */
const MAX_SIGNATURES = 8;

/** Public keys only: `none` and shared secrets are refused. */
const ALGORITHMS = ['EdDSA', 'Ed25519', 'ES256', 'ES384', 'RS256', 'PS256'];

/** Undefined where the signature holds for one of these forms of the card, else why it does not. */
async function check(
  { signature, protected: header }: AgentCardSignature,
  { alg, kid }: SignatureHeader,
  forms: readonly string[],
  keys: JSONWebKeySet,
): Promise<string | undefined> {
  if (!ALGORITHMS.includes(alg)) return `the algorithm "${alg}" is not taken`;
  // One signature has one spelling.
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

/** The protected header alone counts; what is beside it was signed by nobody. */
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
  if (partial !== undefined) return `the signature leaves out ${cutText(String(partial), 64)}`;
  return { alg, kid, jku: typeof jku === 'string' ? jku : undefined };
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64url');
}
