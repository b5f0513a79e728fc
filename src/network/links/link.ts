/** What carries a link. */
export type LinkKind = 'in-process' | 'memory' | 'websocket' | 'hyperswarm';

/**
 * A connection to one other node, whose key the handshake has proven. It carries whole frames of bytes and knows
 * nothing of what they mean. Every transport offers this, and one suite of tests runs over all of them.
 */
export interface Link {
  readonly kind: LinkKind;
  /** The key of the node at the other end. */
  readonly remoteKey: string;
  /** Did this end call? */
  readonly initiator: boolean;
  /** Known to the two ends only, and different for every link: what proofs are bound to. */
  readonly handshake: Uint8Array;
  /** Do frames arrive in the order they were sent, each exactly once, while the link lives? */
  readonly reliable: boolean;
  /** Sends a frame of at least one byte. False means: enough for now, go on at `onDrain`. On a closed link it does nothing. */
  send(frame: Uint8Array): boolean;
  /** Sets the listener, or replaces it by the next. Frames that come before the first one wait for it. */
  listen(listener: LinkListener): void;
  /** Lets what was sent go out, then closes both ends. */
  close(): void;
}

export interface LinkListener {
  onFrame(frame: Uint8Array): void;
  onDrain(): void;
  /** Called once, whoever closed it. `tampered`: what came was not what the other end can have sent. */
  onClose(reason: string, tampered: boolean): void;
}

/** Bytes of the largest frame that anyone may send: a payload at its largest, with everything around it. */
export const MAX_FRAME_BYTES = 2 * 1_048_576;
