/** The facts that the page, the data API and the commands show. The page imports these types, so they import nothing. */

export const WAITING_ACTIONS = [
  'allow-once',
  'allow-always',
  'deny',
  'reply',
  'done',
  'let-in',
  'turn-away',
  'approve',
  'retry',
  'restart',
] as const;

export type WaitingAction = (typeof WAITING_ACTIONS)[number];

/** Longer texts of details are cut. */
export const DETAIL_CHARS = 4_000;

/** A fact as the text of a detail. */
export function detailText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

export interface Detail {
  readonly label: string;
  readonly text: string;
}

/** A node, and the name that people use for it. */
export interface Device {
  readonly node: string;
  readonly name: string;
}

export const WAITING_KINDS = ['approval', 'question', 'tool', 'mail', 'held', 'task', 'worker'] as const;

/** Something that only the owner can settle. */
export interface WaitingItem {
  /** The kind, a colon, and the id within that kind; for an item of another node also `@` and that node's key. */
  readonly id: string;
  readonly kind: (typeof WAITING_KINDS)[number];
  /** Null where the node does not record it. */
  readonly since: number | null;
  /** When it is decided without the owner. */
  readonly until: number | null;
  readonly title: string;
  /** The agent, sender or server that it is about. */
  readonly from: string;
  readonly details: readonly Detail[];
  /** Lines that begin with `+`, `-` or a space. */
  readonly diff: readonly string[];
  readonly actions: readonly WaitingAction[];
  /** The node that it waits on, and that decides about it; null: this one. */
  readonly node: Device | null;
  /** An answer of this device to an item of another node. */
  readonly answer: SentAnswer | null;
}

/** `sent`: the other node has not confirmed it yet. `refused`: that node did not take it, for the reason given. */
export interface SentAnswer {
  readonly state: 'sent' | 'refused';
  readonly action: WaitingAction;
  readonly at: number;
  /** The name of the device that sent it. */
  readonly by: string;
  readonly reason: string | null;
}

/** A device of the owner's whose items are not shown, or not all of them. */
export interface MissingDevice extends Device {
  /** When it was last heard of; null if never. */
  readonly since: number | null;
  readonly reason: string;
}

/** Everything that waits for the owner, here and on the owner's other devices. */
export interface Waiting {
  readonly items: readonly WaitingItem[];
  readonly missing: readonly MissingDevice[];
}

/** One routed message and the router's verdict. */
export interface MessageLine {
  readonly id: string;
  /** Its row in the journal; null for a message that was routed just now. */
  readonly seq: number | null;
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly type: string;
  readonly thread: string | null;
  /** The code of a refusal; null for a delivered message. */
  readonly code: string | null;
  readonly reason: string | null;
  /** The beginning of the payload; null where it is not kept. */
  readonly text: string | null;
}

export interface NodeView {
  readonly node: string;
  readonly name: string;
  readonly version: string;
}

export interface Answered {
  readonly id: string;
  readonly action: WaitingAction;
  /** `sent`: the node that decides has not confirmed it yet; this node repeats it until it does. */
  readonly state: 'confirmed' | 'sent';
  /** The node that decides; null: this one. */
  readonly node: Device | null;
}

/** The answer that an item was given before it left the list. */
export interface GivenAnswer {
  readonly action: WaitingAction;
  readonly at: number;
  /** The name of the device that it was given on; null: it was denied because no answer came in time. */
  readonly by: string | null;
}

/** An operation of the node that pages may use, as the data API describes and serves it. */
export interface PageOperation {
  readonly name: string;
  /** A read changes nothing and can be followed; an action may change something. */
  readonly kind: 'read' | 'action';
  readonly summary: string;
  /** Also for callers that are not the owner, who get what their sandbox may see. */
  readonly shared: boolean;
  /** JSON Schema of the parameters. */
  readonly params: ParamsSchema;
}

export interface ParamsSchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
  readonly required?: readonly string[];
}

/** A caller that is not the owner. */
export interface Viewer {
  readonly address: string;
  readonly node: string | undefined;
  readonly tier: 0 | 1 | 2 | 3;
  readonly sandboxId: string | undefined;
}

/** The operations behind the data API. */
export interface DashboardSource {
  node(): NodeView;
  /** Runs an operation, for the owner unless a viewer is given. Checks the parameters. */
  run(name: string, params: Readonly<Record<string, unknown>>, signal: AbortSignal, viewer?: Viewer): Promise<unknown>;
  /** Messages that were delivered or refused since the node started. */
  routed(): number;
  /** Calls back with each message as it is routed, until the signal aborts. */
  follow(each: (message: MessageLine) => void, signal: AbortSignal): void;
}

export type { NodeStatus } from './status-facts.js';
export type { Proof, Story, StoryAgain, StoryEvent, StoryKind, StoryNode, StoryWait } from './story-facts.js';
