import type { ErrorCode } from '../runtime/errors.js';
import type { ValidEnvelope } from './envelope.js';
import type { Party } from './policy.js';
import type { AgentEndpoint } from './schemas.js';

/** How envelopes reach other nodes. The mesh decides what may go; a carrier only carries. */
export interface Carrier {
  /** Can that node be reached right now? */
  reachable(node: string): boolean;
  /**
   * Resolves when the other node has the envelope. Rejects when that node refused it, with its code; or with
   * `DELIVERY_FAILED`, whose `outcome` says whether it certainly did not arrive or nobody can tell.
   */
  carry(node: string, envelope: ValidEnvelope): Promise<void>;
}

/** Writes down what was decided about each message, and what from. */
export interface Journal {
  note(entry: JournalEntry): void;
}

export interface JournalEntry {
  readonly envelope: ValidEnvelope;
  readonly source: Party;
  readonly target: Party;
  /** Was it a reply, by the thread's permits? */
  readonly inReply: boolean;
  /** Was the way back asked about too? */
  readonly needsAnswer?: boolean;
  /** Why it did not go; null when it did. */
  readonly code: ErrorCode | null;
}

/** Keeps durable messages until their recipients are done with them. */
/** The current state of another node. */
export interface Presence {
  /** When it was last heard of, if there is a conversation with it. */
  seenAt(node: string): number | undefined;
  /** How its agents are reached from here. */
  endpointsOf(node: string): readonly AgentEndpoint[];
}

export interface Postbox {
  /** Who that address belongs to, present or not. */
  find(address: string): Party | undefined;
  /** All agents of other nodes that have, or had, that id. */
  named(id: string): readonly Party[];
  /** Did a durable message from `opener` to `responder` open that thread, perhaps in an earlier run? */
  mayReply(thread: string, responder: string, opener: string): boolean;
  /** Takes a message that policy lets pass. Resolves when it is on disk; rejects when it cannot be kept. */
  keep(envelope: ValidEnvelope, target: Party): Promise<void>;
}

/** Threads that belong to something shared: whoever takes part in it may write to everyone else who does. */
export interface SharedThreads {
  /** Do both take part? */
  admits(thread: string, source: Party, target: Party): boolean;
}

/** Finds other nodes, tells them this node's cards and learns theirs, until stopped. */
export interface CardDiscovery {
  /** Shown on the cards of other nodes' agents. */
  readonly presence?: Presence;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** How channels reach other nodes. What another node asks comes in through the `ChannelManager`. */
export interface ChannelCarrier {
  /** What carries messages to that node at present. */
  transportTo(node: string): ChannelTransport['kind'];
  /** Asks an agent of another node for a channel; the answer comes through `ChannelManager.answered`. */
  open(node: string, channel: ChannelRequest): Promise<void>;
  /** Tells the node that asked whether its channel was taken; `refusal` says why not. */
  answer(node: string, channelId: string, refusal: string | undefined): Promise<void>;
  /** Resolves when the other end has it; rejects when it refused it, or when the node is lost. */
  deliver(node: string, channelId: string, envelope: ValidEnvelope): Promise<void>;
  close(node: string, channelId: string): Promise<void>;
}

/** A channel that one node asks another for: ids as the asked node knows its own, and as the asking one knows its own. */
export interface ChannelRequest {
  readonly channelId: string;
  readonly from: string;
  readonly to: string;
}

/** What is underneath one end of a channel. */
export interface ChannelTransport {
  readonly kind: 'local' | 'hyperswarm' | 'websocket';
  /** Resolves when the other end has the envelope; rejects when it has not. */
  deliver(envelope: ValidEnvelope): void | Promise<void>;
  /** Closes the other end. */
  close(): void | Promise<void>;
}
