import type { Bid, Engagement, ReceivedProposal } from '../proposals/proposal.js';
import type { SwarmOpening } from './swarm-records.js';

/** The key under which a proposal says that it is about a swarm. */
const SWARM = 'ecliptic/swarm';

/** What a proposal to take part in a swarm carries. */
export interface Invitation {
  readonly id: string;
  readonly task: string;
  /** What the swarm needs, of all who take part together. */
  readonly capabilities: readonly string[];
}

/** What whoever takes part says of itself. */
export interface Entry {
  readonly load: number;
  readonly capacity: number;
}

export function invitationTo({ id, task, capabilities }: Pick<SwarmOpening, 'id' | 'task' | 'capabilities'>): unknown {
  return { [SWARM]: { id, task, capabilities } };
}

/** What an input invites to; undefined where it is for other work. */
export function invitationIn(input: unknown): Invitation | undefined {
  if (typeof input !== 'object' || input === null || !(SWARM in input)) return undefined;
  const { id, task, capabilities } = (input as Record<typeof SWARM, Partial<Invitation>>)[SWARM];
  if (typeof id !== 'string' || id.length > 64 || typeof task !== 'string' || !Array.isArray(capabilities)) {
    return undefined;
  }
  return { id, task, capabilities: capabilities.filter((one): one is string => typeof one === 'string') };
}

/** Reads what a new member says of itself; who says nothing has no load and takes one sub-task at a time. */
export function readEntry(said: unknown): Entry {
  const { load, capacity } = (typeof said === 'object' && said !== null ? said : {}) as Partial<Entry>;
  const whole = Number.isSafeInteger(capacity) && capacity! > 0 ? Math.min(capacity!, 1_024) : 1;
  return { load: typeof load === 'number' && load >= 0 ? load : 0, capacity: whole };
}

/** A proposal to take part in a swarm, as an author's handler gets it: accepting is taking part. */
export function asInvitation(
  proposal: ReceivedProposal,
  enter: (engagement: Engagement, from: string, bid?: Bid) => void,
): ReceivedProposal {
  if (!invitationIn(proposal.input)) return proposal;
  return {
    proposal: proposal.proposal,
    from: proposal.from,
    input: proposal.input,
    resumed: proposal.resumed,
    signal: proposal.signal,
    accept: async (bid) => {
      const engagement = await proposal.accept(bid);
      enter(engagement, proposal.from, bid);
      return engagement;
    },
    reject: (reason, options) => proposal.reject(reason, options),
  };
}
