import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { cutText } from '../../runtime/text.js';
import { canonicalCard, canonicalCardWithoutEmpties } from './card-fields.js';
import { isJwsAlgorithm, isKeyFor, type Jwk, type JwkSet, verifyJws } from './jws.js';
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
  get jwks(): JwkSet {
    const { kty, crv, x } = createPublicKey(this.#private).export({ format: 'jwk' });
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

/** Is at least one of the card's signatures made over this card with one of these keys? */
export function verifyCard(card: AgentCard, { keys }: JwkSet): CardVerdict {
  const reasons: string[] = [];
  let forms: readonly string[] | undefined;
  for (const signature of (card.signatures ?? []).slice(0, MAX_SIGNATURES)) {
    const header = readHeader(signature);
    if (typeof header === 'string') {
      reasons.push(header);
      continue;
    }
    forms ??= formsOf(card);
    const reason = check(signature, header, forms, keys);
    if (reason === undefined) return { verified: true, kid: header.kid };
    reasons.push(reason);
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

/** Undefined where the signature holds for one of these forms of the card, else why it does not. */
function check(
  { signature, protected: header }: AgentCardSignature,
  { alg, kid }: SignatureHeader,
  forms: readonly string[],
  keys: readonly Jwk[],
): string | undefined {
  if (!isJwsAlgorithm(alg)) return `the algorithm "${alg}" is not taken`;
  const jwk = keys.find((key) => key.kid === kid);
  if (!jwk) return `the key "${kid}" is not known`;
  if (!isKeyFor(jwk, alg)) return `the key "${kid}" is not one for ${alg}`;
  let reason: string | undefined;
  for (const form of forms) {
    reason = verifyJws(alg, jwk, `${header}.${encode(form)}`, signature);
    if (reason === undefined) break;
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
