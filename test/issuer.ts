import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import type { ForeignServer, ForeignServers } from './foreign-servers.js';

type Alg = 'RS256' | 'ES256' | 'EdDSA';

interface Key {
  readonly alg: Alg;
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** Issues tokens, and serves its keys over HTTP as OpenID providers do. */
export class Issuer {
  readonly name = 'https://issuer.example';
  readonly audience = 'ecliptic-test';
  /** A response that replaces the key set, if set. */
  trouble: { status: number; body: string } | undefined;
  readonly #now: () => number;
  #keys: Key[] = [];
  #server: ForeignServer | undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async serve(servers: ForeignServers): Promise<this> {
    this.#server = await servers.http((_request, response) => {
      response.statusCode = this.trouble?.status ?? 200;
      response.end(this.trouble?.body ?? JSON.stringify({ keys: this.#keys.map(jwkOf) }));
    });
    return this;
  }

  get init() {
    return { issuer: this.name, audience: this.audience, jwksUrl: `${this.#server!.origin}/jwks` };
  }

  /** How often the keys were asked for. */
  get asked(): number {
    return this.#server!.requests.length;
  }

  /** Signs with a new key from now on, and serves no other. */
  rotate(alg: Alg, kid: string): this {
    this.#keys = [];
    return this.add(alg, kid);
  }

  add(alg: Alg, kid: string): this {
    const pair =
      alg === 'RS256'
        ? generateKeyPairSync('rsa', { modulusLength: 2048 })
        : alg === 'ES256'
          ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
          : generateKeyPairSync('ed25519');
    this.#keys.push({ alg, kid, ...pair });
    return this;
  }

  /** Claims and headers that are given take the place of the usual ones. */
  token(claims: object = {}, header: object = {}): string {
    const { alg, kid, privateKey } = this.#keys.at(-1)!;
    const now = Math.floor(this.#now() / 1_000);
    const usual = { iss: this.name, aud: this.audience, sub: 'alice', iat: now, exp: now + 300, scope: 'tasks tools' };
    const input = `${encode({ alg, kid, typ: 'JWT', ...header })}.${encode({ ...usual, ...claims })}`;
    const options = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const;
    const signature = sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(input), options);
    return `${input}.${signature.toString('base64url')}`;
  }

  /** The public key used as if it were a shared secret: a careless verifier accepts it. */
  confused(): string {
    const { kid, publicKey } = this.#keys.at(-1)!;
    const [, body] = this.token().split('.');
    const input = `${encode({ alg: 'HS256', kid })}.${body}`;
    const secret = publicKey.export({ type: 'spki', format: 'pem' });
    return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
  }
}

function jwkOf({ alg, kid, publicKey }: Key): object {
  return { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
}

export function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
