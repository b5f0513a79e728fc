/** The story of one id, as the page, the commands and the MCP tools show it. The page imports these types, so they import nothing. */

export const STORY_KINDS = [
  'message',
  'thread',
  'task',
  'proposal',
  'swarm',
  'sub-task',
  'run',
  'run task',
  'lease',
  'tool call',
  'approval',
] as const;

export type StoryKind = (typeof STORY_KINDS)[number];

/** The record that an event was read from. */
export interface Proof {
  readonly kind: 'row' | 'audit' | 'receipt' | 'signature' | 'log' | 'record';
  /** Such as "row 12 of the journal". */
  readonly text: string;
}

export interface StoryEvent {
  /** Null where the node does not record the time; the order is that of the record. */
  readonly at: number | null;
  /** The key of the node that recorded it. */
  readonly node: string;
  /** The agent that it happened at. */
  readonly from: string | null;
  /** The agent that it went to, where it went anywhere. */
  readonly to: string | null;
  /** The state that it led to, in the words of the catalogue. */
  readonly word: string;
  readonly text: string | null;
  /** The error code of a refusal or failure. */
  readonly code: string | null;
  /** The rule behind a refusal. */
  readonly rule: string | null;
  readonly proof: Proof | null;
  readonly attempt?: number;
  /** An id that has a story of its own. */
  readonly link?: string;
}

export interface StoryWait {
  /** Who or what must act: an agent, `operator`, or a condition. */
  readonly for: string;
  readonly since: number | null;
  /** When the wait ends without it. */
  readonly until: number | null;
  readonly reason: string;
}

export interface StoryNode {
  readonly node: string;
  readonly name: string;
  readonly state: 'complete' | 'missing';
  /** Of a missing node: when it was last heard. */
  readonly since: number | null;
  readonly reason: string | null;
}

export interface StoryPayload {
  readonly text: string;
  /** The length of the whole. */
  readonly chars: number;
  readonly cut: boolean;
  /** Is the text JSON, and not itself the payload? */
  readonly json: boolean;
}

/** Parameters of the operation `send`, besides the payload. */
export interface StoryAgain {
  readonly as: string;
  readonly to: string;
  readonly type: string;
  readonly durable: boolean;
}

export interface Story {
  readonly id: string;
  readonly kind: StoryKind;
  readonly title: string;
  readonly state: string;
  readonly over: boolean;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly waits: StoryWait | null;
  /** Addresses of agents, in the order of their appearance. */
  readonly parties: readonly string[];
  readonly events: readonly StoryEvent[];
  /** Earlier events that were left out. */
  readonly left: number;
  /** Null where the node does not have it. */
  readonly payload: StoryPayload | null;
  /** How the same message can be sent again; null for anything else, and where its payload is not whole. */
  readonly again: StoryAgain | null;
  readonly related: readonly { readonly id: string; readonly kind: StoryKind }[];
  /** The nodes that were asked. */
  readonly nodes: readonly StoryNode[];
}
