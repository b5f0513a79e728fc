import { createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyCard } from '../../src/a2a-protocol/card-signature.js';
import type { Jwk } from '../../src/a2a-protocol/jws.js';
import { takeAgentCard } from '../../src/a2a-protocol/read-card.js';
import { TaskNode } from './task-node.js';

let served: TaskNode;

beforeAll(async () => {
  served = await TaskNode.start();
});

afterAll(() => served.stop());

async function json(path: string): Promise<never> {
  return (await (await served.get(path)).json()) as never;
}

/** The official verifier, with the keys that the node serves. */
async function verify(card: unknown): Promise<void> {
  const { keys } = (await json('/.well-known/jwks.json')) as { keys: (JsonWebKey & { kid: string })[] };
  const keyOf = async (kid: string) =>
    createPublicKey({ key: keys.find((key) => key.kid === kid)!, format: 'jwk' }) as never;
  await verifyAgentCardSignature(keyOf)(card as AgentCard);
}

describe('the official SDK', () => {
  // `plain` has no tools: the list of its skills is empty.
  it.each(['/.well-known/agent-card.json', '/api/agents/tooled/agent-card', '/api/agents/plain/agent-card'])(
    'verifies our card at %s, read or as it came, and no other',
    async (path) => {
      const card: Record<string, unknown> = await json(path);
      for (const read of [(one: object) => one, (one: object) => AgentCard.fromJSON(one as never)]) {
        await expect(verify(read(card))).resolves.toBeUndefined();
        await expect(verify(read({ ...card, name: 'Another' }))).rejects.toThrow('No valid signatures');
        await expect(verify(read({ ...card, securityRequirements: [] }))).rejects.toThrow('No valid signatures');
      }
    },
  );

  it('verifies the extended card that its client asks for', async () => {
    const { keys } = (await json('/.well-known/jwks.json')) as { keys: JsonWebKey[] };
    const keyOf = async () => createPublicKey({ key: keys[0]!, format: 'jwk' }) as never;
    const fetchImpl: typeof fetch = (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set('Authorization', `Bearer ${served.owner}`);
      return fetch(url, { ...init, headers });
    };
    const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
    const client = await factory.createFromUrl(served.url);
    expect((await client.getAgentCard({}, verifyAgentCardSignature(keyOf))).name).toBe('Ecliptic');
  });

  it('signs cards that we verify, empty fields or not, but for security schemes, which it does not sign', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const keys = [{ ...publicKey.export({ format: 'jwk' }), kid: 'theirs' } as Jwk];
    const sign = generateAgentCardSignature(privateKey, { alg: 'ES256', kid: 'theirs', typ: 'JOSE' });
    const signed = async (card: object) =>
      takeAgentCard(AgentCard.toJSON(await sign(AgentCard.fromJSON(card as never))));
    for (const path of ['/api/agents/tooled/agent-card', '/api/agents/plain/agent-card']) {
      const { signatures: _, securitySchemes, ...bare }: Record<string, unknown> = await json(path);
      for (const card of [bare, { ...bare, description: '', documentationUrl: 'https://docs.example' }]) {
        const theirs = await signed(card);
        expect(verifyCard(theirs, { keys })).toEqual({ verified: true, kid: 'theirs' });
        expect(verifyCard({ ...theirs, name: 'Another' }, { keys }).verified).toBe(false);
        expect(verifyCard({ ...theirs, securityRequirements: [] }, { keys }).verified).toBe(false);
      }
      expect(verifyCard(await signed({ ...bare, securitySchemes }), { keys }).verified).toBe(false);
    }
  });

  it('is the only one for whom the signature counts that leaves security schemes out', async () => {
    const card = takeAgentCard(await json('/api/agents/tooled/agent-card'));
    const keys = (await json('/.well-known/jwks.json')) as { keys: Jwk[] };
    expect(verifyCard(card, keys).verified).toBe(true);
    const { securitySchemes: _, ...stripped } = card;
    expect(verifyCard(stripped, keys)).toMatchObject({
      verified: false,
      reasons: expect.arrayContaining(['the signature leaves out securitySchemes']),
    });
  });
});
