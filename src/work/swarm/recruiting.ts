import type { AgentRegistry } from '../../mesh/registry.js';
import { unroutable } from '../../mesh/staffing.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Negotiation, ProposalInit } from '../proposals/proposal.js';
import { invitationTo, readEntry } from './invitation.js';
import type { Member } from './swarm-records.js';

/** Seats of a swarm at most: more would not make it safer by much, and each must have every record. */
const MAX_SEATS = 9;
/** Agents that are asked to take part in one swarm. */
export const MAX_INVITED = 1_000;

export interface Candidate {
  /** As this node addresses it. */
  readonly name: string;
  /** In full. */
  readonly address: string;
  readonly capabilities: readonly string[];
}

/** Every agent but the creator that has one of the capabilities, as the creator may know them. */
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
      if (registry.getById(name, creator) === undefined || unroutable(card, 'proposal')) continue;
      found.set(name, { name, address: inFull(name), capabilities: card.capabilities.map(({ id }) => id) });
    }
  }
  return [...found.values()].slice(0, MAX_INVITED);
}

/**
 * Proposes the swarm to each of them; gives those that take part, and of the others why they do not. Whoever has not
 * come in by the deadline stays out.
 */
export async function recruit(
  runtime: Runtime,
  propose: (init: ProposalInit) => Negotiation,
  invited: readonly Candidate[],
  swarm: { id: string; task: string; capabilities: readonly string[]; recruitMs: number; justification: string },
): Promise<{ members: Member[]; refusals: string[] }> {
  const members: Member[] = [];
  const refusals: string[] = [];
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
      members.push({ address, capabilities, ...readEntry(await negotiation.result) });
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
  // In the order in which they were asked, whoever answered first.
  const order = new Map(invited.map(({ address }, at) => [address, at]));
  members.sort((a, b) => order.get(a.address)! - order.get(b.address)!);
  return { members, refusals };
}

/**
 * Whose word settles records: the creator's, and one member's of every other node, those with work first. Agents of one
 * node die together, so a second one of it would add nothing; and an even number would bear no more losses than one less.
 */
export function seatsOf(creator: string, participants: readonly string[], standby: readonly string[]): string[] {
  const seats = [creator];
  const nodes = new Set([nodeOf(creator)]);
  for (const address of [...participants, ...standby]) {
    if (seats.length === MAX_SEATS || nodes.has(nodeOf(address))) continue;
    nodes.add(nodeOf(address));
    seats.push(address);
  }
  return seats.length % 2 === 0 ? seats.slice(0, -1) : seats;
}

function nodeOf(address: string): string {
  return address.slice(address.indexOf('@') + 1);
}
