import { type AgentTier, AgentTierSchema } from '../a2a/schemas.js';
import type { Finding, Network } from '../peers/network.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

export interface Diagnosis {
  readonly findings: readonly Finding[];
  readonly healthy: boolean;
}

/** The owner's operations on the mesh that the node belongs to; `findings` are what else a diagnosis tells. */
export function networkMethods(
  network: () => Network,
  findings: () => Promise<readonly Finding[]>,
): Readonly<Record<string, ControlMethod>> {
  return {
    async invite(params) {
      const read = new Params(params);
      const { ttlMs, mayInvite } = read.optional({ ttlMs: 'number', mayInvite: 'boolean' });
      const tiers = read.listOf('tiers', isTier, 'a list of tiers, each 0, 1, 2 or 3');
      const sandboxes = read.listOf('sandboxes', isName, 'a list of sandboxes');
      return network().invite({ tiers, sandboxes, ttlMs, mayInvite });
    },
    join(params, { signal }) {
      return network().join(new Params(params).string('code'), signal);
    },
    leave() {
      return network().leave();
    },
    peers() {
      return network().list();
    },
    'peers.remove'(params) {
      network().remove(new Params(params).string('node'));
    },
    async doctor(): Promise<Diagnosis> {
      const all = [...network().diagnose(), ...(await findings())];
      return { findings: all, healthy: all.every(({ level }) => level !== 'problem') };
    },
  };
}

function isTier(value: unknown): value is AgentTier {
  return AgentTierSchema.safeParse(value).success;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
