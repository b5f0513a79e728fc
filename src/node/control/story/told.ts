import type { Agent } from '../../../agent/agent.js';
import type { LeaseView } from '../../../coding-agents/leases/leases.js';
import type { Story, StoryEvent, StoryKind, StoryNode, StoryWait } from '../../../http/dashboard/facts.js';
import type { Gateway } from '../../../http/gateway.js';
import type { Mail } from '../../../mail/mail.js';
import type { Receipt } from '../../../mail/receipt.js';
import type { InvocationRecord } from '../../../mcp/invocations.js';
import type { AuditLog } from '../../../mesh/audit/audit-log.js';
import type { JournalLog } from '../../../mesh/audit/journal-log.js';
import type { AgentRegistry } from '../../../mesh/registry.js';
import type { A2AEnvelope, A2ALogEvent } from '../../../mesh/schemas.js';
import type { Network } from '../../../network/peers/network.js';
import type { RalphLoop } from '../../../plans/ralph-loop.js';
import type { RunView } from '../../../plans/run-news.js';
import { cutText } from '../../../runtime/text.js';
import type { Approval } from '../../../system/approvals/approval-queue.js';
import type { Swarms } from '../../../work/swarm/swarms.js';

interface Unconnected {
  readonly emit: () => void;
  readonly drained: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** For a call of an operation without a connection. */
export const ALONE: Unconnected = {
  emit: () => {},
  drained: () => Promise.resolve(),
  signal: new AbortController().signal,
};

type Operation<Params, Result> = (params: Params, context: Unconnected) => Result | Promise<Result>;
type Nothing = Record<string, never>;

export interface ReadReceipt {
  readonly id: string;
  readonly state: string;
  readonly over: boolean;
  readonly story: Receipt;
}

/** The operations that stories are read from. */
export interface Used {
  readonly receipt: Operation<{ id: string }, ReadReceipt>;
  readonly approvals: Operation<{ all?: boolean }, readonly Approval[]>;
  readonly leases: Operation<Nothing, readonly (LeaseView & { name: string; repositoryName: string })[]>;
  readonly invocations: Operation<{ limit?: number }, readonly InvocationRecord[]>;
  readonly run: Operation<{ id: string }, RunView>;
  readonly 'thread.events': Operation<{ id: string }, readonly A2ALogEvent[]>;
}

/** Everything that a story is read from on this node. */
export interface StoryContext {
  readonly node: {
    readonly registry: AgentRegistry;
    readonly network: Network | undefined;
    readonly mail: Mail | undefined;
    readonly swarms: Swarms;
    readonly agents: readonly Agent[];
    readonly records: { readonly journal: JournalLog; readonly audit: AuditLog } | undefined;
  };
  readonly gateway: Gateway;
  readonly loop: RalphLoop;
  readonly on: Used;
  /** The key of this node. */
  readonly key: string;
  /** The journal has no payloads of durable messages; another part of the node may have. */
  withPayload(envelope: A2AEnvelope): Promise<A2AEnvelope>;
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
export function storyOf(told: Told, context: Pick<StoryContext, 'key' | 'node'>): Story {
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
    related: distinct([{ id, kind }, ...related]).slice(1, 1 + MAX_RELATED),
    nodes: [thisNode(context)],
  };
}

export function thisNode({ key, node }: Pick<StoryContext, 'key' | 'node'>): StoryNode {
  return { node: key, name: node.network?.name ?? '', state: 'complete', since: null, reason: null };
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

function distinct(related: Story['related']): Story['related'] {
  return [...new Map(related.map((one) => [`${one.kind} ${one.id}`, one])).values()];
}

function isText(value: string | null | undefined): value is string {
  return typeof value === 'string' && value !== '' && value !== '*';
}
