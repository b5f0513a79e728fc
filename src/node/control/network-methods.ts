import { type AgentTier, AgentTierSchema } from '../../mesh/schemas.js';
import type { Finding, Network } from '../../network/peers/network.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

export interface Diagnosis {
  readonly findings: readonly Finding[];
  readonly healthy: boolean;
}

/** Told while a diagnosis waits for programs. */
export interface Probing {
  readonly probing: number;
}

/** The owner's operations on the mesh that the node belongs to; `findings` are the other parts' share of a diagnosis. */
export function networkMethods(
  network: () => Network,
  findings: () => readonly (Finding | Promise<Finding>)[],
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
    leave(_params, { emit }) {
      if (network().joined) emit({ leaving: true });
      return network().leave();
    },
    peers() {
      return network().list();
    },
    'peers.remove'(params) {
      network().remove(new Params(params).string('node'));
    },
    /** Emits each finding as soon as it is made; the result has all of them, in a fixed order. */
    async doctor(_params, { emit }): Promise<Diagnosis> {
      const found = [...network().diagnose(), ...findings()];
      const late = found.filter((finding) => finding instanceof Promise);
      for (const finding of found) if (!(finding instanceof Promise)) emit(finding);
      if (late.length > 0) emit({ probing: late.length } satisfies Probing);
      for (const finding of late) void finding.then(emit);
      const all = await Promise.all(found);
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
