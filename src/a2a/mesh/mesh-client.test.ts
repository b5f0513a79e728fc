import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { buildNodeCard } from '../protocol/card.js';
import { CardSigner } from '../protocol/card-signature.js';
import type { AgentCard } from '../protocol/types.js';
import { NODE, surroundingsAt } from '../server/cards.js';
import type { MeshBinding } from './mesh-binding.js';
import { cardOverMesh } from './mesh-client.js';
import { MESH_BINDING, meshProtocol, meshUrl, nodeOfUrl } from './mesh-protocol.js';

const signer = (digit: string) => {
  const seed = digit.repeat(64);
  const { x } = new CardSigner(seed, '').jwks.keys[0] as { x: string };
  const key = Buffer.from(x, 'base64url').toString('hex');
  return { key, signer: new CardSigner(seed, key) };
};
const [mars, venus] = [signer('1'), signer('2')];

function cardOf(node: string): AgentCard {
  const supportedInterfaces = [{ url: meshUrl(node), protocolBinding: MESH_BINDING, protocolVersion: '1.0' }];
  return { ...buildNodeCard(NODE, surroundingsAt('')), supportedInterfaces };
}

/** What a client makes of a card that the node `mars` presents. */
async function presented(card: AgentCard): Promise<string> {
  const binding = { ask: async () => ({ result: card }), onAvailable: () => () => {} } as unknown as MeshBinding;
  const about = { target: { node: mars.key, agent: undefined }, caller: 'sun' };
  return cardOverMesh({ runtime: new SimulatedRuntime({ seed: 1 }), binding }, about).then(
    () => 'taken',
    (error) => error.code,
  );
}

describe('a card over the mesh', () => {
  it('is taken if the key of the node that presents it has signed it, and refused otherwise [MB.1]', async () => {
    const card = cardOf(mars.key);
    expect(await presented(mars.signer.sign(card))).toBe('taken');
    expect(await presented(card)).toBe('CARD_REFUSED');
    // Signed by another node, taken from another node, and changed after it was signed.
    expect(await presented(venus.signer.sign(card))).toBe('CARD_REFUSED');
    expect(await presented(venus.signer.sign(cardOf(venus.key)))).toBe('CARD_REFUSED');
    expect(await presented({ ...mars.signer.sign(card), name: 'Another' })).toBe('CARD_REFUSED');
  });

  it('is asked for by an agent of the asking node, never by one of a third node [MB.1]', () => {
    const { question } = meshProtocol({ cards: { whyUnknown: () => undefined } } as never);
    const asked = { method: 'GetTask', params: {}, caller: 'sun' };
    expect(question.safeParse(asked).success).toBe(true);
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`p${index}`, 'x']));
    for (const wrong of [
      { caller: `sun@${mars.key}` },
      { caller: '' },
      { method: 7 },
      { service: { a: 1 } },
      { service: many },
    ]) {
      expect(question.safeParse({ ...asked, ...wrong }).success, JSON.stringify(wrong)).toBe(false);
    }
  });

  it('has the key of its node in its URL, and nothing else', () => {
    expect(nodeOfUrl(meshUrl(mars.key))).toBe(mars.key);
    for (const url of ['', 'ecliptic:', `ecliptic:${mars.key}/x`, `https://${mars.key}`, 'ecliptic:mars']) {
      expect(() => nodeOfUrl(url), url).toThrow(/no address of a node/);
    }
  });
});
