import type { ValidEnvelope } from './envelope.js';

/** How envelopes reach other nodes. The mesh decides what may go; a carrier only carries. */
export interface Carrier {
  /** Can that node be reached right now? */
  reachable(node: string): boolean;
  /** Resolves when the other node has the envelope; rejects when it is certain or likely that it has not. */
  carry(node: string, envelope: ValidEnvelope): Promise<void>;
}

/** What is underneath one end of a channel. */
export interface ChannelTransport {
  readonly kind: 'local' | 'hyperswarm' | 'websocket';
  /** Resolves when the other end has the envelope; rejects when it has not. */
  deliver(envelope: ValidEnvelope): void | Promise<void>;
  /** Closes the other end. */
  close(): void | Promise<void>;
}
