import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject, sign, verify } from 'node:crypto';
import { canonicalCard } from './canonical-card.js';
import type { AgentCard, AgentCardSignature } from './types.js';

/** Signs cards as the node they come from: JWS over the canonical card, the payload left out (RFC 7515, appendix F). */
export class CardSigner {
  readonly kid: string;
  readonly #private: KeyObject;
  readonly #protected: string;

  /** `seed` and `kid` are the node's: its Ed25519 seed in hex and its public key. `jku` says where the key can be had. */
  constructor(seed: string, kid: string, jku?: string) {
    this.kid = kid;
    const d = Buffer.from(seed, 'hex').toString('base64url');
    const x = Buffer.from(kid, 'hex').toString('base64url');
    this.#private = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
    const header = { alg: 'EdDSA', kid, typ: 'JOSE', ...(jku === undefined ? {} : { jku }) };
    this.#protected = encode(JSON.stringify(header));
  }

  /** The card with this signature in the place of any that it had. */
  sign(card: AgentCard): AgentCard {
    const input = Buffer.from(`${this.#protected}.${encode(canonicalCard(card))}`);
    const signature = sign(null, input, this.#private).toString('base64url');
    return { ...card, signatures: [{ protected: this.#protected, signature }] };
  }

  /** The public key, as it is served for verifiers. */
  get jwks(): JwkSet {
    const { kty, crv, x } = createPublicKey(this.#private).export({ format: 'jwk' });
    return { keys: [{ kty, crv, x, kid: this.kid, alg: 'EdDSA', use: 'sig' }] };
  }
}

export type Jwk = JsonWebKey & { readonly kid?: string; readonly alg?: string; readonly use?: string };

export interface JwkSet {
  readonly keys: readonly Jwk[];
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
  let payload: string | undefined;
  for (const signature of (card.signatures ?? []).slice(0, MAX_SIGNATURES)) {
    const header = readHeader(signature);
    if (typeof header === 'string') {
      reasons.push(header);
      continue;
    }
    payload ??= encode(canonicalCard(card));
    const reason = check(signature, header, payload, keys);
    if (reason === undefined) return { verified: true, kid: header.kid };
    reasons.push(reason);
  }
  return { verified: false, reasons };
}

/** More signatures than this on one card are there to cost time. */
const MAX_SIGNATURES = 8;

interface Algorithm {
  readonly digest: string | null;
  /** The kind of key that it takes; a key is never used for another algorithm than its own. */
  readonly key: (jwk: Jwk) => boolean;
  readonly pss?: boolean;
}

const ALGORITHMS: Readonly<Record<string, Algorithm>> = {
  EdDSA: { digest: null, key: isEd25519 },
  Ed25519: { digest: null, key: isEd25519 },
  ES256: { digest: 'sha256', key: (jwk) => jwk.kty === 'EC' && jwk.crv === 'P-256' },
  ES384: { digest: 'sha384', key: (jwk) => jwk.kty === 'EC' && jwk.crv === 'P-384' },
  RS256: { digest: 'sha256', key: (jwk) => jwk.kty === 'RSA' },
  PS256: { digest: 'sha256', key: (jwk) => jwk.kty === 'RSA', pss: true },
};

function isEd25519(jwk: Jwk): boolean {
  return jwk.kty === 'OKP' && jwk.crv === 'Ed25519';
}

/** Undefined where the signature holds, else why it does not. */
function check(
  signature: AgentCardSignature,
  { alg, kid }: SignatureHeader,
  payload: string,
  keys: readonly Jwk[],
): string | undefined {
  if (!Object.hasOwn(ALGORITHMS, alg)) return `the algorithm "${alg}" is not taken`;
  const algorithm = ALGORITHMS[alg]!;
  const jwk = keys.find((key) => key.kid === kid);
  if (!jwk) return `the key "${kid}" is not known`;
  if (!algorithm.key(jwk) || (jwk.use !== undefined && jwk.use !== 'sig')) {
    return `the key "${kid}" is not one for ${alg}`;
  }
  const bytes = Buffer.from(signature.signature, 'base64url');
  // One signature has one spelling.
  if (bytes.toString('base64url') !== signature.signature) return 'the signature is not base64url';
  try {
    const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
    const input = Buffer.from(`${signature.protected}.${payload}`);
    const padding = algorithm.pss ? { padding: RSA_PSS, saltLength: PSS_SALT_OF_DIGEST } : {};
    const holds = verify(algorithm.digest, input, { key, dsaEncoding: 'ieee-p1363', ...padding }, bytes);
    return holds ? undefined : 'the signature does not fit the card';
  } catch {
    return `the key "${kid}" cannot be used`;
  }
}

/** OpenSSL's numbers for PSS padding, and for a salt as long as the digest. */
const RSA_PSS = 6;
const PSS_SALT_OF_DIGEST = -1;

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
  const { alg, kid, jku, crit } = header as Record<string, unknown>;
  if (typeof alg !== 'string' || typeof kid !== 'string') return 'the protected header lacks alg or kid';
  if (crit !== undefined) return 'the protected header asks for extensions that are not known';
  return { alg, kid, jku: typeof jku === 'string' ? jku : undefined };
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64url');
}
