import { createPublicKey, type JsonWebKey, verify } from 'node:crypto';

/** JSON Web Signatures (RFC 7515) with public keys: nothing that is signed with a shared secret, or not at all, is taken. */

export type Jwk = JsonWebKey & { readonly kid?: string; readonly alg?: string; readonly use?: string };

export interface JwkSet {
  readonly keys: readonly Jwk[];
}

interface Algorithm {
  readonly digest: string | null;
  /** The kind of key that it takes; a key is never used for another algorithm than its own. */
  readonly key: (jwk: Jwk) => boolean;
  readonly pss?: boolean;
}

const ALGORITHMS = {
  EdDSA: { digest: null, key: isEd25519 },
  Ed25519: { digest: null, key: isEd25519 },
  ES256: { digest: 'sha256', key: (jwk) => jwk.kty === 'EC' && jwk.crv === 'P-256' },
  ES384: { digest: 'sha384', key: (jwk) => jwk.kty === 'EC' && jwk.crv === 'P-384' },
  RS256: { digest: 'sha256', key: (jwk) => jwk.kty === 'RSA' },
  PS256: { digest: 'sha256', key: (jwk) => jwk.kty === 'RSA', pss: true },
} as const satisfies Record<string, Algorithm>;

export type JwsAlgorithm = keyof typeof ALGORITHMS;

function isEd25519(jwk: Jwk): boolean {
  return jwk.kty === 'OKP' && jwk.crv === 'Ed25519';
}

/** Is that a key to check signatures of that algorithm with? */
export function isKeyFor(jwk: Jwk, alg: JwsAlgorithm): boolean {
  if (jwk.use !== undefined && jwk.use !== 'sig') return false;
  // Ed25519 has two names, and its keys one use.
  return ALGORITHMS[alg].key(jwk) && (jwk.alg === undefined || jwk.alg === alg || jwk.kty === 'OKP');
}

export function isJwsAlgorithm(alg: string): alg is JwsAlgorithm {
  return Object.hasOwn(ALGORITHMS, alg);
}

/** OpenSSL's numbers for PSS padding, and for a salt as long as the digest. */
const RSA_PSS = 6;
const PSS_SALT_OF_DIGEST = -1;

/** Undefined where the signature holds, else why it does not. The key must be one for the algorithm. */
export function verifyJws(alg: JwsAlgorithm, jwk: Jwk, input: string, signature: string): string | undefined {
  const algorithm: Algorithm = ALGORITHMS[alg];
  const bytes = Buffer.from(signature, 'base64url');
  // One signature has one spelling.
  if (bytes.toString('base64url') !== signature) return 'the signature is not base64url';
  try {
    const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
    const padding = algorithm.pss ? { padding: RSA_PSS, saltLength: PSS_SALT_OF_DIGEST } : {};
    const options = { key, dsaEncoding: 'ieee-p1363', ...padding } as const;
    return verify(algorithm.digest, Buffer.from(input), options, bytes) ? undefined : 'the signature does not fit';
  } catch {
    return 'the key cannot be used';
  }
}
