import { joinAddress, splitAddress } from '../../../mesh/address.js';
import { ALONE, eventOf, type StoryContext, type StorySource } from './told.js';

/** Reserved files. A lease that has ended is deleted, so it has no story. */
export function leaseSource({ on, key }: StoryContext): StorySource {
  return {
    kind: 'lease',
    ids: async (given) => (await on.leases({}, ALONE)).map(({ id }) => id).filter((id) => id.startsWith(given)),
    async tell(id) {
      const lease = (await on.leases({}, ALONE)).find((one) => one.id === id);
      if (!lease) return undefined;
      const { name, glob, repositoryName, why, token, since, expiresAt, label, alive } = lease;
      // A lease has the whole address of its holder, also of an agent of this node.
      const { id: agent, node } = splitAddress(lease.holder);
      const holder = joinAddress(agent, node === key ? undefined : node);
      const proof = { kind: 'record', text: token === 0 ? 'not confirmed yet' : `fencing token ${token}` } as const;
      const ends = { for: holder, since, until: expiresAt, reason: 'the holder releases or renews it, or it expires' };
      const waiting = { ...ends, reason: 'the holder is away; it returns, or the lease expires' };
      return {
        ...{ id, kind: 'lease', title: `${name} reserved ${glob} in ${repositoryName}`, state: label, over: false },
        waits: alive ? ends : waiting,
        events: [eventOf(key, { at: since, from: holder, word: 'taken', text: why || null, proof })],
        payload: lease,
      };
    },
  };
}
