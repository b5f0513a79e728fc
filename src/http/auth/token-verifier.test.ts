import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ForeignServers } from '../../../test/foreign-servers.js';
import { HurriedRuntime } from '../../../test/hurried-runtime.js';
import { encode, Issuer } from '../../../test/issuer.js';
import { TokenVerifier } from './token-verifier.js';

const MINUTE = 60_000;
const servers = new ForeignServers();
let runtime: HurriedRuntime;
let issuer: Issuer;
let verifier: TokenVerifier;

beforeEach(async () => {
  runtime = new HurriedRuntime();
  issuer = await new Issuer(() => runtime.now()).add('ES256', 'k1').serve(servers);
  verifier = new TokenVerifier(runtime, issuer.init);
});

afterEach(() => servers.close());

const seconds = () => Math.floor(runtime.now() / 1_000);
const refusal = { code: 'TOKEN_REQUIRED' };

describe('a JSON Web Token', () => {
  it.each(['RS256', 'ES256', 'EdDSA'] as const)('signed with %s gives the caller’s name and scopes', async (alg) => {
    issuer.rotate(alg, 'its');
    const { name, scopes } = await verifier.verify(issuer.token({ sub: 'auth0|Ann Example', scope: 'openid tasks' }));
    expect(name).toMatch(/^jwt-auth0-Ann-Example-[0-9a-f]{16}$/);
    expect(scopes).toEqual(['tasks']);
  });

  it('names callers apart that are written alike, and the same one always the same', async () => {
    const nameOf = async (sub: string) => (await verifier.verify(issuer.token({ sub }))).name;
    const names = await Promise.all(['a|b', 'a b', 'operator', 'x'.repeat(500), 'a|b'].map(nameOf));
    expect(new Set(names).size).toBe(4);
    for (const name of names) expect(name).toMatch(/^jwt-[A-Za-z0-9-]{1,60}$/);
  });

  it('may have its name and scopes in other claims, and a list of scopes', async () => {
    const claims = new TokenVerifier(runtime, { ...issuer.init, nameClaim: 'email', scopesClaim: 'roles' });
    const { name, scopes } = await claims.verify(issuer.token({ email: 'a@b.example', roles: ['tools', 'admin'] }));
    expect([name.slice(0, 16), scopes]).toEqual(['jwt-a-b-example-', ['tools']]);
    await expect(claims.verify(issuer.token())).rejects.toMatchObject(refusal);
    expect((await verifier.verify(issuer.token({ scope: undefined }))).scopes).toEqual([]);
  });

  it('is refused for another issuer or audience, when too old or too new, and without a subject', async () => {
    const wrong: [claims: object, reason: string][] = [
      [{ iss: 'https://other.example' }, 'issuer'],
      [{ aud: 'other' }, 'audience'],
      [{ aud: ['other'] }, 'audience'],
      [{ aud: undefined }, 'audience'],
      [{ exp: seconds() - 61 }, 'expired'],
      [{ exp: undefined }, 'expired'],
      [{ exp: 'soon' }, 'expired'],
      [{ nbf: seconds() + 62 }, 'not valid yet'],
      [{ iat: seconds() + 62 }, 'not valid yet'],
      [{ sub: '' }, '"sub"'],
      [{ sub: 5 }, '"sub"'],
      [{ sub: 'x'.repeat(513) }, '"sub"'],
    ];
    for (const [claims, reason] of wrong) {
      await expect(verifier.verify(issuer.token(claims)), reason).rejects.toThrow(reason);
    }
    const right = [{ aud: ['other', issuer.audience] }, { exp: seconds() - 50 }, { nbf: seconds() + 50 }];
    for (const claims of right) await expect(verifier.verify(issuer.token(claims))).resolves.toBeDefined();
  });

  it('is refused when its signature is missing, another key’s, altered, or made with the public key [T-G4]', async () => {
    const good = issuer.token();
    const [head, body, signature] = good.split('.') as [string, string, string];
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
    const other = new Issuer(() => runtime.now()).add('ES256', 'k1');
    const wrong = [
      `${encode({ alg: 'none' })}.${body}.${signature}`,
      `${encode({ alg: 'None', kid: 'k1' })}.${body}.AA`,
      issuer.confused(),
      other.token(),
      `${head}.${encode({ ...claims, sub: 'operator' })}.${signature}`,
      `${encode({ alg: 'RS256', kid: 'k1' })}.${body}.${signature}`,
      `${encode({ alg: 'EdDSA', kid: 'k1' })}.${body}.${signature}`,
      `${head}.${body}.${signature.slice(0, -2)}`,
      issuer.token({}, { crit: ['b64'] }),
      issuer.token({}, { typ: 'JOSE' }),
      issuer.token({ long: 'x'.repeat(9_000) }),
      `${head}.${body}.`,
      'a.b.c',
    ];
    for (const token of wrong) await expect(verifier.verify(token), token).rejects.toMatchObject(refusal);
    await expect(verifier.verify(good)).resolves.toBeDefined();
  });

  it('without the name of a key is checked with the only one that there is', async () => {
    await expect(verifier.verify(issuer.token({}, { kid: undefined }))).resolves.toBeDefined();
    issuer.rotate('ES256', 'k2').add('ES256', 'k3');
    const unnamed = new TokenVerifier(runtime, issuer.init);
    await expect(unnamed.verify(issuer.token({}, { kid: undefined }))).rejects.toMatchObject(refusal);
  });
});

describe('the keys of an issuer', () => {
  it('are fetched once for all waiting callers, and reused', async () => {
    await Promise.all(Array.from({ length: 20 }, () => verifier.verify(issuer.token())));
    expect(issuer.asked).toBe(1);
  });

  it('are fetched again for an unknown key id, at a limited rate', async () => {
    await verifier.verify(issuer.token());
    issuer.rotate('EdDSA', 'k2');
    await expect(verifier.verify(issuer.token())).rejects.toMatchObject(refusal);
    runtime.pass(MINUTE);
    await expect(verifier.verify(issuer.token())).resolves.toBeDefined();
    const strange = () => verifier.verify(issuer.token({}, { kid: 'made-up' }));
    runtime.pass(MINUTE);
    for (let i = 0; i < 20; i++) await expect(strange()).rejects.toMatchObject(refusal);
    expect(issuer.asked).toBe(3);
  });

  it('are used while the issuer is down, for at most a day', async () => {
    await verifier.verify(issuer.token());
    for (const trouble of [
      { status: 500, body: '' },
      { status: 200, body: 'no JSON' },
      { status: 200, body: '{"keys":5}' },
    ]) {
      issuer.trouble = trouble;
      runtime.pass(20 * MINUTE);
      await expect(verifier.verify(issuer.token())).resolves.toBeDefined();
    }
    runtime.pass(24 * 60 * MINUTE);
    await expect(verifier.verify(issuer.token())).rejects.toMatchObject(refusal);
    issuer.trouble = undefined;
    runtime.pass(MINUTE);
    await expect(verifier.verify(issuer.token())).resolves.toBeDefined();
  });

  it('that were withdrawn are refused', async () => {
    const old = issuer.token({ exp: seconds() + 3_600 });
    await verifier.verify(old);
    issuer.rotate('ES256', 'k2');
    runtime.pass(MINUTE);
    await verifier.verify(issuer.token());
    await expect(verifier.verify(old)).rejects.toMatchObject(refusal);
  });

  it('come over https, or from this machine', () => {
    const init = { ...issuer.init, jwksUrl: 'http://issuer.example/jwks' };
    expect(() => new TokenVerifier(runtime, init)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});
