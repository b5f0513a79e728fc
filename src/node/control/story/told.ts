import type { Story, StoryEvent, StoryKind, StoryWait } from '../../../http/dashboard/facts.js';
import { cutText } from '../../../runtime/text.js';
import type { ControlContext, Handlers } from '../context.js';
import type { CallContext } from '../server.js';

/** The operations that stories are read from. */
export type Used = Pick<
  Handlers,
  'receipt' | 'held' | 'approvals' | 'leases' | 'invocations' | 'swarm' | 'run' | 'thread.events'
>;

/** Everything that a story is read from on this node. */
export interface StoryContext extends Pick<ControlContext, 'node' | 'gateway' | 'loop' | 'codingAgents'> {
  readonly on: Used;
  /** The key of this node. */
  readonly key: string;
}

/** One kind of thing that has a story. */
export interface StorySource {
  readonly kind: StoryKind;
  /** Whole ids that begin with the given one. */
  ids(given: string): Promise<readonly string[]> | readonly string[];
  /** The story of exactly this id; undefined if it is unknown. */
  tell(id: string): Promise<Told | undefined>;
}

/** A story as its source tells it; the rest follows from its events. */
export interface Told extends Pick<Story, 'id' | 'kind' | 'title' | 'state' | 'over'> {
  readonly waits?: StoryWait | null;
  readonly events: readonly StoryEvent[];
  /** Events before these that the source left out. */
  readonly left?: number;
  /** Agents that take part, also without an event. */
  readonly parties?: readonly (string | null | undefined)[];
  readonly startedAt?: number | null;
  readonly endedAt?: number | null;
  readonly payload?: unknown;
  readonly again?: Story['again'];
  readonly related?: Story['related'];
}

export const ALONE: CallContext<never> = {
  emit: () => {},
  drained: () => Promise.resolve(),
  signal: new AbortController().signal,
};

/** Events of one story; of more, the first and the latest are shown. */
export const MAX_EVENTS = 500;
const PAYLOAD_CHARS = 20_000;
const TEXT_CHARS = 1_000;
const TITLE_CHARS = 200;
const MAX_RELATED = 50;

type Given = Pick<StoryEvent, 'at' | 'word'> & Partial<StoryEvent>;

/** An event with nulls for everything that is not given. */
export function eventOf(key: string, { text = null, ...given }: Given): StoryEvent {
  const nothing = { node: key, from: null, to: null, code: null, rule: null, proof: null };
  return { ...nothing, ...given, text: text === null ? null : cutText(text, TEXT_CHARS) };
}

/** The whole story on this node. */
export function storyOf(told: Told, { key, node }: Pick<StoryContext, 'key' | 'node'>): Story {
  const { events, left } = bounded(inOrder(told.events));
  const times = told.events.flatMap(({ at }) => at ?? []);
  const { id, kind, state, over, waits = null, payload, related = [] } = told;
  const { startedAt = times.length === 0 ? null : Math.min(...times) } = told;
  const { endedAt = over && times.length > 0 ? Math.max(...times) : null } = told;
  const content = payloadOf(payload);
  const about = { id, kind, title: firstLine(told.title), state, over, startedAt, endedAt };
  return {
    ...about,
    waits: over ? null : waits,
    parties: [...new Set([...events.flatMap(({ from, to }) => [from, to]), ...(told.parties ?? [])])].filter(isText),
    events,
    left: left + (told.left ?? 0),
    payload: content,
    again: content?.cut === false ? (told.again ?? null) : null,
    related: related.filter((one) => one.id !== id || one.kind !== kind).slice(0, MAX_RELATED),
    nodes: [{ node: key, name: node.network?.name ?? '', state: 'complete', since: null, reason: null }],
  };
}

/** By time; an event without a time stays behind the one before it. */
export function inOrder(events: readonly StoryEvent[]): StoryEvent[] {
  let last = Number.NEGATIVE_INFINITY;
  const timed = events.map((event) => {
    last = event.at ?? last;
    return { event, at: last };
  });
  return timed.sort((a, b) => a.at - b.at).map(({ event }) => event);
}

function bounded(events: readonly StoryEvent[]): { events: readonly StoryEvent[]; left: number } {
  const left = events.length - MAX_EVENTS;
  if (left <= 0) return { events, left: 0 };
  return { events: [events[0]!, ...events.slice(1 - MAX_EVENTS)], left };
}

function payloadOf(payload: unknown): Story['payload'] {
  if (payload === undefined || payload === null) return null;
  const text = textOf(payload);
  return {
    text: cutText(text, PAYLOAD_CHARS),
    chars: text.length,
    cut: text.length > PAYLOAD_CHARS,
    json: text !== payload,
  };
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

function firstLine(text: string): string {
  return cutText(text.trim().split('\n')[0] ?? '', TITLE_CHARS);
}

function isText(value: string | null | undefined): value is string {
  return typeof value === 'string' && value !== '' && value !== '*';
}
