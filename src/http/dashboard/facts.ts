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

export interface Detail {
  readonly label: string;
  readonly text: string;
}

/** Something that only the owner can settle. */
export interface WaitingItem {
  /** The kind, a colon, and the id within that kind. */
  readonly id: string;
  readonly kind: 'approval' | 'tool' | 'mail' | 'held' | 'task' | 'worker';
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
}

export interface AgentView {
  readonly id: string;
  readonly name: string;
  readonly tier: number;
  readonly node: string | null;
  readonly sandbox: string | null;
  readonly description: string;
  readonly capabilities: readonly string[];
  readonly state: string;
  readonly reason: string | null;
  /** The line that would staff an unstaffed agent. */
  readonly fix: string | null;
  /** The providers that work for it, best first; empty for handlers in code and for agents without a worker. */
  readonly workers: readonly { readonly id: string; readonly type: string; readonly state: string }[];
  /** Messages in its mailbox, and work in progress of its providers. */
  readonly load: { readonly queued: number; readonly working: number };
}

/** One routed message and the router's verdict. */
export interface MessageLine {
  readonly id: string;
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
}

/** The owner's reads and answers, implemented by the operations of the control socket. */
export interface DashboardSource {
  node(): NodeView;
  waiting(): Promise<readonly WaitingItem[]>;
  answer(id: string, action: string, text: string | undefined): Promise<Answered>;
  agents(): Promise<readonly AgentView[]>;
  messages(limit: number): Promise<readonly MessageLine[]>;
  /** Calls back with each message as it is routed, until the signal aborts. */
  follow(each: (message: () => MessageLine) => void, signal: AbortSignal): void;
}

export type { Proof, Story, StoryEvent, StoryKind, StoryNode, StoryWait } from './story-facts.js';
