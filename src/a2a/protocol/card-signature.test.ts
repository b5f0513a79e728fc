import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import type { JWK as Jwk } from 'jose';
import { describe, expect, it } from 'vitest';
import { Identity } from '../../network/membership/identity.js';
import { canonicalCard } from './card-fields.js';
import { CardSigner, signatureHeaders, verifyCard } from './card-signature.js';
import type { AgentCard } from './types.js';

const identity = Identity.fromSeed(Buffer.alloc(32, 7));
const signer = new CardSigner(identity.seed, identity.key, 'https://a.example/jwks.json');

const card: AgentCard = {
  name: 'Example Agent',
  description: '',
  supportedInterfaces: [],
  version: '',
  capabilities: { streaming: false, pushNotifications: false, extensions: [] },
  defaultInputModes: [],
  defaultOutputModes: [],
  skills: [],
};

const { card: recorded } = JSON.parse(readFileSync(new URL('./fixtures/sdk-1.3.0.json', import.meta.url), 'utf8')) as {
  card: { v1: AgentCard; canonical: string; signedByThem: AgentCard; jwk: Jwk };
};

describe('the canonical form of a card', () => {
  it('keeps required fields that are empty, and flags that were set [A2A-1.9.12 A2A-2.5.8]', () => {
    expect(canonicalCard(card)).toBe(
      '{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],' +
        '"description":"","name":"Example Agent","skills":[],"supportedInterfaces":[],"version":""}',
    );
  });

  it('gives back required fields that a writer of defaults left out [A2A-1.9.12]', () => {
    const { description: _, skills: __, ...sent } = card;
    expect(canonicalCard(sent as AgentCard)).toBe(canonicalCard(card));
  });

  it('leaves out defaults of other fields, and everything that the protocol does not know', () => {
    const full: AgentCard = {
      ...card,
      capabilities: { extensions: [{ uri: 'urn:a', required: false, description: '', params: { kept: null } }] },
      documentationUrl: '',
      securitySchemes: {},
      securityRequirements: [{ schemes: { bearer: { list: [] } } }],
      skills: [{ id: 'a', name: '', description: '', tags: [], examples: [] }],
      signatures: [{ protected: 'x', signature: 'y' }],
    };
    expect(
      JSON.parse(canonicalCard({ ...full, url: 'https://a.example', protocolVersion: '0.3' } as AgentCard)),
    ).toEqual({
      ...card,
      capabilities: { extensions: [{ uri: 'urn:a', params: { kept: null } }] },
      documentationUrl: '',
      securityRequirements: [{ schemes: { bearer: {} } }],
      skills: [{ id: 'a', name: '', description: '', tags: [] }],
    });
  });

  it('is the SDK’s where that keeps to the rules', () => {
    expect(canonicalCard(recorded.v1)).toBe(recorded.canonical);
  });
});

describe('a signed card', () => {
  it('says which key signed it, and where the key is', async () => {
    const signed = signer.sign(card);
    expect(JSON.parse(Buffer.from(signed.signatures![0]!.protected, 'base64url').toString())).toEqual({
      alg: 'EdDSA',
      kid: identity.key,
      typ: 'JOSE',
      jku: 'https://a.example/jwks.json',
    });
    const header = { alg: 'EdDSA', kid: identity.key, jku: 'https://a.example/jwks.json' };
    // Of the protocol's form, and of that without empty fields.
    expect(signatureHeaders(signed)).toEqual([header, header]);
    expect(await verifyCard(signed, signer.jwks)).toEqual({ verified: true, kid: identity.key });
  });

  it('holds through JSON, in any order of its members, and not when anything is changed', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 6 });
    const arbCard: fc.Arbitrary<AgentCard> = fc.record(
      {
        name: text,
        description: text,
        supportedInterfaces: fc.array(fc.record({ url: text, protocolBinding: text, protocolVersion: text })),
        version: text,
        capabilities: fc.record({ streaming: fc.boolean(), pushNotifications: fc.boolean() }, { requiredKeys: [] }),
        defaultInputModes: fc.array(text, { maxLength: 2 }),
        defaultOutputModes: fc.array(text, { maxLength: 2 }),
        skills: fc.array(fc.record({ id: text, name: text, description: text, tags: fc.array(text) }), {
          maxLength: 2,
        }),
        provider: fc.record({ organization: text, url: text }),
        iconUrl: text,
      },
      {
        requiredKeys: [
          'name',
          'description',
          'supportedInterfaces',
          'version',
          'capabilities',
          'defaultInputModes',
          'defaultOutputModes',
          'skills',
        ],
      },
    );
    await fc.assert(
      fc.asyncProperty(arbCard, text, async (made, change) => {
        const signed = signer.sign(made);
        const again = JSON.parse(JSON.stringify(signed)) as AgentCard;
        const turned = Object.fromEntries(Object.entries(again).reverse()) as unknown as AgentCard;
        expect((await verifyCard(turned, signer.jwks)).verified).toBe(true);
        const forged = { ...again, description: `${again.description}${change}.` };
        expect((await verifyCard(forged, signer.jwks)).verified).toBe(false);
        const bolder = { ...again, capabilities: { ...again.capabilities, extendedAgentCard: true } };
        expect((await verifyCard(bolder, signer.jwks)).verified).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  it('by the SDK with another algorithm is verified too', async () => {
    expect(await verifyCard(recorded.signedByThem, { keys: [recorded.jwk] })).toEqual({ verified: true, kid: 'k1' });
    const forged = { ...recorded.signedByThem, name: 'somebody else' };
    expect(await verifyCard(forged, { keys: [recorded.jwk] })).toEqual({
      verified: false,
      reasons: ['the signature does not fit'],
    });
  });

  it('with RSA is verified, with either padding', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'rsa' } as Jwk;
    for (const [alg, padding] of [
      ['RS256', {}],
      ['PS256', { padding: 6, saltLength: 32 }],
    ] as const) {
      const header = encode({ alg, kid: 'rsa' });
      const input = Buffer.from(`${header}.${Buffer.from(canonicalCard(card)).toString('base64url')}`);
      const signature = sign('sha256', input, { key: privateKey, ...padding }).toString('base64url');
      const signed = { ...card, signatures: [{ protected: header, signature }] };
      expect(await verifyCard(signed, { keys: [jwk] })).toEqual({ verified: true, kid: 'rsa' });
    }
  });

  it('is not trusted for a header that was not meant, or a key of another kind', async () => {
    const [good] = signer.sign(card).signatures!;
    const reason = async (protectedHeader: string, keys: Jwk[] = signer.jwks.keys, signature = good!.signature) => {
      const verdict = await verifyCard({ ...card, signatures: [{ protected: protectedHeader, signature }] }, { keys });
      return verdict.verified ? 'verified' : verdict.reasons[0];
    };
    const kid = identity.key;
    expect(await reason(encode({ alg: 'none', kid }))).toContain('"none" is not accepted');
    expect(await reason(encode({ alg: 'HS256', kid }))).toContain('is not accepted');
    expect(await reason(encode({ alg: 'toString', kid }))).toContain('is not accepted');
    expect(await reason(encode({ alg: 'ES256', kid }))).toContain('for ES256 is known');
    expect(await reason(encode({ alg: 'EdDSA', kid: 'other' }))).toContain('no key "other"');
    expect(await reason(encode({ alg: 'EdDSA', kid, crit: ['b64'], b64: false }))).toContain('extensions');
    expect(await reason(encode({ alg: 'EdDSA' }))).toContain('lacks');
    expect(await reason('%%%')).toContain('not JSON');
    expect(await reason(encode(null))).toContain('not an object');
    expect(await reason(good!.protected, [{ ...signer.jwks.keys[0]!, use: 'enc' }])).toContain('no key');
    expect(await reason(good!.protected, [{ kty: 'OKP', crv: 'Ed25519', x: '!', kid }])).toContain('cannot be used');
    expect(await reason(good!.protected, undefined, `${good!.signature}=`)).toContain('not base64url');
    expect(await verifyCard(card, signer.jwks)).toEqual({ verified: false, reasons: [] });
  });

  it('holds when one of several signatures does', async () => {
    const other = new CardSigner(Buffer.alloc(32, 9).toString('hex'), Identity.fromSeed(Buffer.alloc(32, 9)).key);
    const signatures = [...other.sign(card).signatures!, ...signer.sign(card).signatures!];
    expect((await verifyCard({ ...card, signatures }, signer.jwks)).verified).toBe(true);
  });
});

function encode(header: unknown): string {
  return Buffer.from(JSON.stringify(header)).toString('base64url');
}
