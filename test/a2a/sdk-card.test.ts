import { createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client';
import type { JWK } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyCard } from '../../src/a2a/protocol/card-signature.js';
import { takeAgentCard } from '../../src/a2a/v03/card.js';
import { protoJsonFaults } from './strict-proto-json.js';
import { eventsOf, said, TaskNode } from './task-node.js';

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

describe('a card', () => {
  it.each(['/.well-known/agent-card.json', '/api/agents/tooled/agent-card', '/api/agents/plain/agent-card'])(
    'at %s is in the version that its reader names, and passes a strict reader of 1.0 [T-D11]',
    async (path) => {
      const read = async (headers: Record<string, string>, query = '') => {
        const answer = await served.get(`${path}${query}`, headers);
        return {
          etag: answer.headers.get('etag'),
          vary: answer.headers.get('vary'),
          card: (await answer.json()) as object,
        };
      };
      const modern = await read({});
      expect(protoJsonFaults('AgentCard', modern.card)).toEqual([]);
      expect(takeAgentCard(modern.card).supportedInterfaces.map(({ protocolVersion }) => protocolVersion)).toContain(
        '0.3',
      );
      expect(await read({ 'A2A-Version': '' }, '?A2A-Version=1.0')).toEqual(modern);
      expect(await read({ 'A2A-Version': '7.0' })).toEqual(modern);
      // One that names no version reads 0.3, and finds the endpoint where 0.3 has it.
      const old = await read({ 'A2A-Version': '' });
      expect(old.card).toMatchObject({ protocolVersion: '0.3', url: expect.stringContaining('/a2a/rpc') });
      expect(protoJsonFaults('AgentCard', old.card)).toContain('AgentCard.url is unknown');
      expect(await read({ 'A2A-Version': '0.3' })).toEqual(old);
      expect(old.etag).not.toBe(modern.etag);
      expect([old.vary, modern.vary]).toEqual(['A2A-Version', 'A2A-Version']);
      const resolver = new DefaultAgentCardResolver();
      if (path.startsWith('/.')) expect((await resolver.resolve(served.url)).name).toBe('Ecliptic');
    },
  );

  it('of the extended kind, and every other answer, passes a strict reader of 1.0 [T-D11]', async () => {
    expect(protoJsonFaults('AgentCard', await served.result('GetExtendedAgentCard', {}))).toEqual([]);
    for (const tenant of ['echo', 'asker', 'quick', 'broken', 'writer']) {
      const answer = await served.result('SendMessage', { ...said('x'), tenant });
      expect(protoJsonFaults('SendMessageResponse', answer)).toEqual([]);
      const stream = await served.post('/a2a/v1/message:stream', { ...said('x'), tenant });
      for await (const { data } of eventsOf(stream)) {
        expect(protoJsonFaults('StreamResponse', data)).toEqual([]);
        if (data.statusUpdate?.status.state === 'TASK_STATE_INPUT_REQUIRED') break;
      }
    }
    expect(protoJsonFaults('ListTasksResponse', await served.result('ListTasks', { includeArtifacts: true }))).toEqual(
      [],
    );
  });
});

describe('the official SDK', () => {
  // `plain` has no tools: the list of its skills is empty.
  it.each(['/.well-known/agent-card.json', '/api/agents/tooled/agent-card', '/api/agents/plain/agent-card'])(
    'verifies our card at %s, parsed or raw, and no other card',
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

  it('signs cards that we verify, with or without empty fields, except for security schemes, which it does not sign', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const keys = [{ ...publicKey.export({ format: 'jwk' }), kid: 'theirs' } as JWK];
    const sign = generateAgentCardSignature(privateKey, { alg: 'ES256', kid: 'theirs', typ: 'JOSE' });
    const signed = async (card: object) =>
      takeAgentCard(AgentCard.toJSON(await sign(AgentCard.fromJSON(card as never))));
    for (const path of ['/api/agents/tooled/agent-card', '/api/agents/plain/agent-card']) {
      const { signatures: _, securitySchemes, ...bare }: Record<string, unknown> = await json(path);
      for (const card of [bare, { ...bare, description: '', documentationUrl: 'https://docs.example' }]) {
        const theirs = await signed(card);
        expect(await verifyCard(theirs, { keys })).toEqual({ verified: true, kid: 'theirs' });
        expect((await verifyCard({ ...theirs, name: 'Another' }, { keys })).verified).toBe(false);
        expect((await verifyCard({ ...theirs, securityRequirements: [] }, { keys })).verified).toBe(false);
      }
      expect((await verifyCard(await signed({ ...bare, securitySchemes }), { keys })).verified).toBe(false);
    }
  });

  it('is the only reader for which a signature without security schemes is valid', async () => {
    const card = takeAgentCard(await json('/api/agents/tooled/agent-card'));
    const keys = (await json('/.well-known/jwks.json')) as { keys: JWK[] };
    expect((await verifyCard(card, keys)).verified).toBe(true);
    const { securitySchemes: _, ...stripped } = card;
    expect(await verifyCard(stripped, keys)).toMatchObject({
      verified: false,
      reasons: expect.arrayContaining(['the signature leaves out securitySchemes']),
    });
  });
});
