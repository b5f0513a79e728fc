import { checkCard } from '../../../src/mesh/schemas.js';
import { Identity } from '../../../src/network/membership/identity.js';
import { announceCard, CardReader, checkSignedCard, signCard } from '../../../src/network/membership/signed-cards.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const node = Identity.fromSeed(Buffer.alloc(32, 1));
const card = checkCard({
  id: 'mars',
  name: 'Mars',
  description: 'x',
  version: '1.0.0',
  tier: 2,
  protocols: ['a2a'],
  capabilities: [
    { id: 'backend.api', name: 'API', description: 'x', inputSchema: { type: 'object' }, outputSchema: {} },
  ],
  endpoints: [{ transport: 'local', address: 'local:mars' }],
  origin: 'local',
  lastSeenAt: 1,
  revision: 1,
  schemaVersion: 1,
});
const signed = signCard(node, card);
const genuine = JSON.stringify(signed);

/** A card that was changed is never taken for the one that its node signed, and a checked card stays valid. */
export const target: FuzzTarget = {
  name: 'card',
  about: 'agent cards, own and announced',
  seeds: ['\0', '\x01', JSON.stringify(card), JSON.stringify(signed)],
  run(input) {
    const value = jsonOf(input, [card, signed]);
    const grant = { tiers: [2 as const], invite: false };
    const announced = unlessRefused(() => checkSignedCard(value, node.key, grant));
    if (announced)
      must(
        JSON.stringify(sorted(value)) === JSON.stringify(sorted(JSON.parse(genuine))),
        () => 'a forged card is taken',
      );
    const own = checkCard(value);
    mustEqual(checkCard(JSON.parse(JSON.stringify(own))), own, 'a card checked twice');
    const { text } = announceCard(node, own);
    new CardReader(node.key).readProven([JSON.parse(text)])(0);
  },
};

/** With the members in one order, which a signature does not cover. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => [key, sorted(member)]);
}
