import type { LaneRow, Lanes } from '../../providers/host/lanes.js';
import type { ProviderRegistry } from '../../providers/registry/registry.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** The owner's operations on lanes. */
export function laneMethods(lanes: Lanes, providers: ProviderRegistry): Readonly<Record<string, ControlMethod>> {
  return {
    lanes(): LaneRow[] {
      return lanes.rows;
    },
    /** Ends the lane with its providers, and nobody else's. */
    async 'lanes.close'(params) {
      const lane = new Params(params).string('lane');
      await Promise.all([lanes.close(lane), providers.closeLane(lane)]);
      return { lane };
    },
    /** Undoes that. */
    async 'lanes.open'(params) {
      const lane = new Params(params).string('lane');
      await lanes.reopen(lane);
      return { lane };
    },
  };
}
