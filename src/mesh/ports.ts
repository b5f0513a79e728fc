import type { EclipticError, ErrorCode } from '../runtime/errors.js';
import type { ValidEnvelope } from './envelope.js';
import type { Party } from './policy.js';
import type { AgentEndpoint } from './schemas.js';

/** Carries envelopes to other nodes. The mesh decides which may go. */
export interface Carrier {
  reachable(node: string): boolean;
  /** Is there a conversation with that node, even if it is interrupted? Then what is carried waits for it. */
  converses(node: string): boolean;
  /** Carries an envelope with these addresses for its ends; `outcome` is told once what became of it. */
  carry(node: string, envelope: ValidEnvelope, sender: string, recipient: string, outcome: CarryOutcome): void;
}

/** Told what became of an envelope. An object of the caller's, because promises cost more than the rest of a send. */
export interface CarryOutcome {
  /** The other node has it. */
  taken(): void;
  /**
   * With the code of the other node's refusal, or with `DELIVERY_FAILED`, whose `outcome` says whether it certainly did not
   * arrive or that is unknown.
   */
  refused(error: EclipticError): void;
}

/** Records the decision about each message, and its grounds. */
export interface Journal {
  note(entry: JournalEntry): void;
}

export interface JournalEntry {
  readonly envelope: ValidEnvelope;
  readonly source: Party;
  readonly target: Party;
  /** Was it a reply, by the thread's permits? */
  readonly inReply: boolean;
  /** Was the answer's way back checked, too? */
  readonly needsAnswer?: boolean;
  /** The code of the refusal; null if it was delivered. */
  readonly code: ErrorCode | null;
}

/** The current state of other nodes. */
export interface Presence {
  /** When the node was last heard from, if there is a conversation with it. */
  seenAt(node: string): number | undefined;
  endpointsOf(node: string): readonly AgentEndpoint[];
}

/** Keeps durable messages until their recipients are done with them. */
export interface Postbox {
  /** The agent with that address, present or not. */
  find(address: string): Party | undefined;
  /** All agents of other nodes that have, or had, that id. */
  named(id: string): readonly Party[];
  /** Did a durable message from `opener` to `responder` open that thread, perhaps in an earlier run? */
  mayReply(thread: string, responder: string, opener: string): boolean;
  /** Resolves when the message is on disk; rejects if it cannot be stored. */
  keep(envelope: ValidEnvelope, target: Party): Promise<void>;
}

/** Threads of shared things, such as documents: every member may write to every other. */
export interface SharedThreads {
  /** Are both members? */
  admits(thread: string, source: Party, target: Party): boolean;
}

/** Finds other nodes, tells them this node's cards and learns theirs, until stopped. */
export interface CardDiscovery {
  /** Shown on the cards of other nodes' agents. */
  readonly presence?: Presence;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Connects channels to other nodes. Their requests arrive at `ChannelManager.remote`. */
export interface ChannelCarrier {
  /** The present transport to that node. */
  transportTo(node: string): ChannelTransport['kind'];
  /** Requests a channel to an agent of another node; the answer arrives at `RemoteChannels.answered`. */
  open(node: string, channel: ChannelRequest): Promise<void>;
  /** Answers a request; `refusal` says why it was declined. */
  answer(node: string, channelId: string, refusal: string | undefined): Promise<void>;
  /** Resolves when the other end has the envelope; rejects if it was refused, or the node is lost. */
  deliver(node: string, channelId: string, envelope: ValidEnvelope): Promise<void>;
  close(node: string, channelId: string): Promise<void>;
}

/** A request for a channel. Each id is as the agent's own node writes it. */
export interface ChannelRequest {
  readonly channelId: string;
  readonly from: string;
  readonly to: string;
}

/** Carries the envelopes of one end of a channel. */
export interface ChannelTransport {
  readonly kind: 'local' | 'hyperswarm' | 'websocket' | 'nats';
  /** Resolves when the other end has the envelope; rejects otherwise. */
  deliver(envelope: ValidEnvelope): void | Promise<void>;
  /** Closes the other end. */
  close(): void | Promise<void>;
}
