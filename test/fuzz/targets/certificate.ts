import { type Chain, ChainSchema, checkChain, issueCertificate } from '../../../src/network/membership/certificate.js';
import { Identity } from '../../../src/network/membership/identity.js';
import { RemovalList, RemovalSchema, signRemoval } from '../../../src/network/membership/removal.js';
import { parsed } from '../../../src/network/peers/wire.js';
import { type FuzzTarget, must, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const [root, founder, member, other] = [1, 2, 3, 4].map((seed) => Identity.fromSeed(Buffer.alloc(32, seed)));
const NOW = 1_700_000_000_000;
const DAY_MS = 86_400_000;
const times = { since: NOW, issuedAt: NOW, expiresAt: NOW + 300 * DAY_MS };
const common = { mesh: root!.key, ...times };
const first = issueCertificate(root!, {
  ...common,
  node: founder!.key,
  name: 'founder',
  grant: { tiers: [0, 1, 2, 3], invite: true },
});
const second = issueCertificate(founder!, {
  ...common,
  node: member!.key,
  name: 'member',
  grant: { tiers: [2, 3], sandboxes: ['lab'], invite: false },
});
const third = issueCertificate(founder!, {
  ...common,
  node: other!.key,
  name: 'other',
  grant: { tiers: [3], invite: false },
});
const chain: Chain = [second, first];
const removal = signRemoval(founder!, { mesh: root!.key, of: chain, at: NOW + 1, keep: [], by: [first] });
const SEEDS = [chain, [third, first], [first], removal, [second, second, first], { chain }];
const genuineRemoval = JSON.stringify(parsed(RemovalSchema, removal));
const genuine = [chain, [third, first], [first]].map((one) => JSON.stringify(parsed(ChainSchema, one)));

/** No change of a chain or a removal makes one that is admitted. */
export const target: FuzzTarget = {
  name: 'certificate',
  about: 'certificates and removals of members',
  seeds: [...SEEDS.map((_, index) => Buffer.of(index)), JSON.stringify(chain), JSON.stringify(removal)],
  run(input) {
    const value = jsonOf(input, SEEDS);
    const given = unlessRefused(() => parsed(ChainSchema, value));
    if (given) {
      const question = { mesh: root!.key, node: given[0]!.node, now: NOW + DAY_MS, removals: new RemovalList() };
      const grant = unlessRefused(() => checkChain(given, question));
      if (grant) must(genuine.includes(JSON.stringify(given)), () => `admitted: ${JSON.stringify(given)}`);
    }
    const said = parsed(RemovalSchema, value);
    const list = new RemovalList();
    const outcome = list.add(said, root!.key, NOW + DAY_MS);
    must(outcome !== 'new' || JSON.stringify(said) === genuineRemoval, () => `believed: ${JSON.stringify(said)}`);
    must(
      list.isRemoved(member!.key, NOW) === (outcome === 'new'),
      () => 'the list says something else than its answer',
    );
  },
};
