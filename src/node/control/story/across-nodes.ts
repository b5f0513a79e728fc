import type { Story, StoryEvent, StoryNode } from '../../../http/dashboard/facts.js';
import { joinAddress, splitAddress } from '../../../mesh/address.js';
import { EclipticError } from '../../../runtime/errors.js';
import { inOrder } from './told.js';

/** The owner's other devices. */
export interface StoryDevices {
  list(): readonly {
    readonly node: string;
    readonly name: string;
    readonly connected: boolean;
    readonly lastHeardAt: number | null;
  }[];
  /** The device answers for itself, and asks no others. */
  ask(node: string, method: 'story', params: { id: string }): Promise<Story>;
}

const AWAY = 'the node is away';

interface Asked {
  readonly node: StoryNode;
  readonly story: Story | undefined;
}

/**
 * Asks every device of the owner, and adds its events; a device that does not answer is named. Where this node does not
 * know the id, `own` is the error that says so.
 */
export async function acrossNodes(
  id: string,
  own: Story | EclipticError,
  devices: StoryDevices,
  self: StoryNode,
): Promise<Story> {
  const asked = await Promise.all(devices.list().map((device) => ask(id, device, devices, self.node)));
  const stories = asked.flatMap(({ story }) => story ?? []);
  const isKnown = !(own instanceof EclipticError);
  const [first, ...others] = isKnown ? [toldHere(own, self.node, self.node), ...stories] : stories;
  if (!first) throw unknownTo(own as EclipticError, asked);
  const same = others.filter(({ kind }) => kind === first.kind);
  const parties = [...new Set([first, ...same].flatMap((story) => story.parties))];
  const nodes = [self, ...asked.map(({ node }) => node)];
  const best = [first, ...same].reduce((one, other) => (isLater(other, one) ? other : one));
  const { state, over, endedAt, waits } = best;
  // Each device has a record of the same lease, and none of it has a history.
  const told = first.kind === 'lease' ? [best] : [first, ...same];
  const events = inOrder(distinct(told.flatMap((story) => story.events)));
  const payload = [first, ...same].find((story) => story.payload !== null)?.payload ?? null;
  const again = isKnown ? own.again : null;
  return { ...first, state, over, endedAt, waits, events, parties, payload, again, nodes };
}

/** The id may be known to a device that could not be asked. */
function unknownTo(error: EclipticError, asked: readonly Asked[]): EclipticError {
  const missing = asked.flatMap(({ node }) => (node.state === 'missing' ? [node] : []));
  if (missing.length === 0) return error;
  const said = missing.map(({ name, since, reason }) => {
    if (reason !== AWAY) return `${name} could not be asked (${reason})`;
    return since === null ? `${name} is away` : `${name} is away since ${new Date(since).toISOString()}`;
  });
  const may = missing.length === 1 ? 'it may know it' : 'they may know it';
  return new EclipticError(error.code, `${error.message}; ${said.join(', ')}; ${may}`, { ...error.details, missing });
}

/** Does this node know a later state? The node that knows the end knows best. */
function isLater(one: Story, other: Story): boolean {
  if (one.over !== other.over) return one.over;
  const lastOf = ({ events }: Story) => Math.max(0, ...events.map(({ at }) => at ?? 0));
  return lastOf(one) >= lastOf(other);
}

async function ask(
  id: string,
  device: ReturnType<StoryDevices['list']>[number],
  devices: StoryDevices,
  key: string,
): Promise<Asked> {
  const { node, name, connected, lastHeardAt: since } = device;
  const missing = (reason: string): Asked => {
    return { node: { node, name, state: 'missing', since, reason }, story: undefined };
  };
  const complete: StoryNode = { node, name, state: 'complete', since: null, reason: null };
  if (!connected) return missing(AWAY);
  try {
    return { node: complete, story: toldHere(await devices.ask(node, 'story', { id }), node, key) };
  } catch (error) {
    // Another release of the program may tell a story in another way.
    if (!(error instanceof EclipticError)) return missing('its answer cannot be read');
    // It answered that it has nothing.
    return error.code === 'STORY_NOT_FOUND' ? { node: complete, story: undefined } : missing(error.message);
  }
}

/** Another node's story with its agents as this node writes them. */
function toldHere(story: Story, node: string, key: string): Story {
  const here = (address: string) => {
    const { id, node: at = node } = splitAddress(address);
    return joinAddress(id, at === key ? undefined : at);
  };
  const orNull = (address: string | null) => (address === null ? null : here(address));
  const { waits, parties } = story;
  return {
    ...story,
    waits: waits && parties.includes(waits.for) ? { ...waits, for: here(waits.for) } : waits,
    parties: parties.map(here),
    events: story.events.map((event) => ({ ...event, from: orNull(event.from), to: orNull(event.to) })),
  };
}

/** Both ends have the same receipt: a step that both report is shown once. */
function distinct(events: readonly StoryEvent[]): StoryEvent[] {
  const seen = new Set<string>();
  return events.filter(({ proof, word, at }) => {
    if (proof?.kind !== 'receipt') return true;
    const step = `${word} ${at}`;
    return !seen.has(step) && seen.add(step);
  });
}
