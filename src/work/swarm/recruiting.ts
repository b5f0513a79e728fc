import type { AgentRegistry } from '../../mesh/registry.js';
import { unroutable, vacancyFor, workedCapabilities } from '../../mesh/staffing.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Bid, Engagement, Negotiation, ProposalInit, ReceivedProposal } from '../proposals/proposal.js';
import type { Member, SubTaskPlan, SwarmOpening } from './swarm-records.js';

/** More seats would hardly be safer, and each must have every record. */
const MAX_SEATS = 9;
/** Agents that are invited to one swarm at most. */
export const MAX_INVITED = 1_000;

export interface Candidate {
  /** Its address on this node. */
  readonly name: string;
  /** `id@node`. */
  readonly address: string;
  readonly capabilities: readonly string[];
}

/** Agents other than the creator that have one of the capabilities, and that the creator may see. */
export function candidates(
  registry: AgentRegistry,
  creator: string,
  capabilities: readonly string[],
  inFull: (address: string) => string,
): Candidate[] {
  const found = new Map<string, Candidate>();
  for (const wanted of capabilities) {
    for (const { address: name, card } of registry.entriesWithCapability(wanted)) {
      if (name === creator || found.has(name)) continue;
      if (registry.getById(name, creator) === undefined || unroutable(card, 'proposal', [wanted])) continue;
      found.set(name, { name, address: inFull(name), capabilities: workedCapabilities(card) });
    }
  }
  return [...found.values()].slice(0, MAX_INVITED);
}

/** Why agents that could do one of the sub-tasks were not invited: they have no worker. */
export function vacancies(registry: AgentRegistry, creator: string, unserved: readonly SubTaskPlan[]): string[] {
  const found = new Map<string, string>();
  for (const { requiredCapabilities } of unserved) {
    const [first, ...others] = requiredCapabilities;
    for (const { address, card } of first === undefined ? [] : registry.entriesWithCapability(first)) {
      if (address === creator || registry.getById(address, creator) === undefined) continue;
      if (!others.every((wanted) => card.capabilities.some(({ id }) => id === wanted))) continue;
      const vacancy = vacancyFor(card, 'proposal', requiredCapabilities);
      if (vacancy) found.set(address, vacancy.reason);
    }
  }
  return [...found.values()];
}

/**
 * Invites each candidate by a proposal; returns the members, and the refusals of the others, at the deadline. The log is at
 * the broker if all members can use it there.
 */
export async function recruit(
  runtime: Runtime,
  propose: (init: ProposalInit) => Negotiation,
  invited: readonly Candidate[],
  swarm: Invitation & { recruitMs: number; justification: string },
): Promise<{ members: Member[]; refusals: string[]; log: SwarmOpening['log'] }> {
  const members: Member[] = [];
  const refusals: string[] = [];
  let log: SwarmOpening['log'] = swarm.log === undefined ? undefined : 'broker';
  const open = new Set<Negotiation>();
  const answers = invited.map(async ({ name, address, capabilities }) => {
    const negotiation = propose({
      to: name,
      taskDescription: swarm.task,
      requiredCapabilities: capabilities.filter((id) => swarm.capabilities.includes(id)),
      deadlineMs: swarm.recruitMs,
      input: invitationTo(swarm),
      justification: swarm.justification,
    });
    open.add(negotiation);
    try {
      const { log: known, ...entry } = readEntry(await negotiation.result);
      members.push({ address, capabilities, ...entry });
      if (known !== swarm.log) log = undefined;
    } catch (error) {
      refusals.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    open.delete(negotiation);
  });
  const late = runtime.setTimer(() => {
    for (const negotiation of open) negotiation.withdraw('the swarm begins without');
  }, swarm.recruitMs);
  await Promise.all(answers);
  late.cancel();
  // In the order of the invitations, not of the answers.
  const order = new Map(invited.map(({ address }, at) => [address, at]));
  members.sort((a, b) => order.get(a.address)! - order.get(b.address)!);
  return { members, refusals, log };
}

/**
 * The seats: the creator, and one member of every other node, those with work first. Agents of one node fail together, so
 * a second one would add nothing; and an even number of voters tolerates no more failures than one less.
 */
export function seatsOf(
  creator: string,
  participants: readonly string[],
  standby: readonly string[],
  log: SwarmOpening['log'],
): string[] {
  const seats = [creator];
  const nodes = new Set([nodeOf(creator)]);
  for (const address of [...participants, ...standby]) {
    if (seats.length === MAX_SEATS || nodes.has(nodeOf(address))) continue;
    nodes.add(nodeOf(address));
    seats.push(address);
  }
  return seats.length % 2 === 0 && log === undefined ? seats.slice(0, -1) : seats;
}

export function nodeOf(address: string): string {
  return address.slice(address.indexOf('@') + 1);
}

/** The key of an invitation in a proposal's input. */
const SWARM = 'ecliptic/swarm';

export interface Invitation {
  readonly id: string;
  readonly task: string;
  /** Of all members together. */
  readonly capabilities: readonly string[];
  /** What the creator wrote in the log that it wants to use at the broker: who finds it there can use the log too. */
  readonly log?: string | undefined;
}

/** What a new member reports of itself. */
interface Entry {
  readonly load: number;
  readonly capacity: number;
  /** That of the invitation, if it was found. */
  readonly log: string | undefined;
}

function invitationTo({ id, task, capabilities, log }: Invitation): unknown {
  return { [SWARM]: { id, task, capabilities, ...(log && { log }) } };
}

/** The invitation in a proposal's input, if it is one. */
export function invitationIn(input: unknown): Invitation | undefined {
  if (typeof input !== 'object' || input === null || !(SWARM in input)) return undefined;
  const { id, task, capabilities, log } = (input as Record<typeof SWARM, Partial<Invitation>>)[SWARM];
  if (typeof id !== 'string' || id.length > 64 || typeof task !== 'string' || !Array.isArray(capabilities)) {
    return undefined;
  }
  const wanted = capabilities.filter((one): one is string => typeof one === 'string');
  return { id, task, capabilities: wanted, log: typeof log === 'string' ? log : undefined };
}

/** Reads a new member's report. Default: no load, and one sub-task at a time. */
function readEntry(said: unknown): Entry {
  const { load, capacity, log } = (typeof said === 'object' && said !== null ? said : {}) as Partial<Entry>;
  const whole = Number.isSafeInteger(capacity) && capacity! > 0 ? Math.min(capacity!, 1_024) : 1;
  const free = typeof load === 'number' && load >= 0 ? load : 0;
  return { load: free, capacity: whole, log: typeof log === 'string' ? log : undefined };
}

/** An invitation as an author's handler gets it: accepting it is taking part. */
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
