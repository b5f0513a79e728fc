export type LinkKind = 'in-process' | 'memory' | 'websocket' | 'hyperswarm' | 'nats';

/**
 * A connection to one other node, whose key the handshake has proven. It carries whole frames of bytes and does not
 * read them. One contract suite runs over every kind.
 */
export interface Link {
  readonly kind: LinkKind;
  /** The key of the node at the other end. */
  readonly remoteKey: string;
  /** Did this end call? */
  readonly initiator: boolean;
  /** Known to the two ends only, and different for every link: proofs are bound to it. */
  readonly handshake: Uint8Array;
  /** Does every frame arrive exactly once and in order while the link lives? */
  readonly reliable: boolean;
  /** Sends a frame of at least one byte. False asks the sender to wait for `onDrain`. On a closed link it does nothing. */
  send(frame: Uint8Array): boolean;
  /** Sets the listener, or replaces it by the next. Frames that come before the first one wait for it. */
  listen(listener: LinkListener): void;
  /** Hands no more frames over until `resume`, and lets the other side wait. Absent where that cannot be done. */
  pause?(): void;
  resume?(): void;
  /** Sends the frames that wait, then closes both ends. */
  close(): void;
}

export interface LinkListener {
  onFrame(frame: Uint8Array): void;
  onDrain(): void;
  /** Called once, whichever end closed it. `tampered`: the other end cannot have sent the bytes that arrived. */
  onClose(reason: string, tampered: boolean): void;
}

/** The largest frame: a payload of the largest size with everything around it. */
export const MAX_FRAME_BYTES = 2 * 1_048_576;
