import type { NodeStatus, Story, StoryEvent, StoryKind, WaitingItem } from '../../http/dashboard/facts.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import { countBy } from './status-methods.js';

/** Two agents and the owner know everything about these; others have agents that know only their part. */
const BETWEEN_TWO: ReadonlySet<StoryKind> = new Set<StoryKind>([
  'message',
  'task',
  'proposal',
  'approval',
  'lease',
  'tool call',
]);

/** Is this the caller, or an agent of this node in the caller's sandbox? */
export function ownOf(caller: Party, registry: AgentRegistry): (address: string | null) => boolean {
  return (address) => {
    if (address === null) return false;
    if (address === caller.address || address === `${caller.address}@${registry.nodeKey}`) return true;
    return caller.sandboxId !== undefined && registry.ownEntry(address)?.sandboxId === caller.sandboxId;
  };
}

/** The part of a story that concerns a caller who is not the owner; one without such a part does not exist for it. */
export function limitedStory(story: Story, isOwn: (address: string | null) => boolean): Story {
  const { kind, parties, events } = story;
  if (!parties.some(isOwn)) throw notSeen(story.id);
  // A broadcast is a message to many.
  const isBetweenTwo = BETWEEN_TWO.has(kind) && (kind !== 'message' || parties.length <= 2);
  const told = events.map(withoutRow);
  if (parties.every(isOwn) || isBetweenTwo) return { ...story, events: told, again: null };
  const seen = told.filter(({ from, to }) => isOwn(from) || isOwn(to));
  const known = new Set(seen.flatMap(({ from, to }) => [from, to]));
  return {
    ...story,
    title: kind,
    parties: parties.filter((party) => isOwn(party) || known.has(party)),
    events: seen,
    left: 0,
    payload: null,
    again: null,
    related: [],
    waits: story.waits && isOwn(story.waits.for) ? story.waits : null,
  };
}

/** Numbers of rows would tell how much others do. */
function withoutRow(event: StoryEvent): StoryEvent {
  return event.proof?.kind === 'row' ? { ...event, proof: null } : event;
}

export function notSeen(id: string): EclipticError {
  const message = `nothing with the id "${id}" concerns you; give the whole id of something that you take part in`;
  return new EclipticError('STORY_NOT_FOUND', message, { id });
}

/** The owner's decisions that a caller waits for. */
export function limitedItems(items: readonly WaitingItem[], isOwn: (address: string) => boolean): WaitingItem[] {
  return items.filter(({ kind, from }) => kind !== 'tool' && kind !== 'held' && isOwn(from));
}

/** Numbers of the agents that a sandboxed caller may see, without those of the node. */
export function limitedStatus(
  { node, name, version, uptimeMs }: NodeStatus,
  agents: readonly { readonly state: string }[],
  items: readonly WaitingItem[],
): Omit<NodeStatus, 'ready' | 'peers' | 'queues' | 'degraded' | 'store'> {
  const counts = { agents: countBy(agents, ({ state }) => state), waiting: countBy(items, ({ kind }) => kind) };
  return { node, name, version, uptimeMs, ...counts };
}
