import type { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Link, LinkListener } from '../links/link.js';
import type { FairReading } from './fair-reading.js';
import type { ItemOutcome } from './reliable-stream.js';
import type { Item } from './wire.js';

/**
 * `connecting`: known, never met. `idle`: present, without a link until something is sent. `suspected`: linked, but silent.
 * `away`: no link; items in flight are kept. `lost`: away for too long. `incompatible`: speaks another version.
 */
export type PeerStatus = 'connecting' | 'connected' | 'idle' | 'suspected' | 'away' | 'lost' | 'incompatible';

export interface PeerLimits {
  /** Silence of the peer after which it is suspected. */
  suspectMs: number;
  /** Silence of this node after which it sends a ping. */
  heartbeatMs: number;
  /** How long items are kept for a peer that is away or suspected. */
  graceMs: number;
  /** How long a conversation with a node that is no neighbour lasts without an item. */
  idleMs: number;
  /** Links that stay open however idle they are. */
  keptLinks: number;
  /** How long the first acknowledgement may take; each further wait is twice as long. */
  acknowledgeMs: number;
  /** How often items are sent again before a peer that acknowledges nothing is dropped. */
  retries: number;
  queueItems: number;
  queueChars: number;
}

/** The session ids of both sides of a conversation; `knows` is the other side's. */
export interface SessionIds {
  readonly session: string;
  readonly knows: string | null;
}

/** The farewell of two nodes that have nothing to say to each other for now. */
export const IDLE = 'idle';

export const FAREWELLS: ReadonlyMap<unknown, string> = new Map([
  ['stopping', 'it was stopped'],
  ['leaving', 'it left the mesh'],
  ['removed', 'it says that this node was removed from the mesh'],
  ['expired', 'it says that this node’s certificate has expired'],
]);

/** The first wait for an acknowledgement over an unreliable link, where a missing one usually means a lost frame. */
export const UNRELIABLE_ACKNOWLEDGE_MS = 500;
/** Links beside the one in use that may wait for the other side to close them. */
export const MAX_OLDER_LINKS = 3;
/** How late the frames of a crashed process may come. */
export const LATE_MS = 5_000;

/** What a peer of type `P` needs. */
export const PEER_LIMITS: PeerLimits = {
  suspectMs: 2_000,
  heartbeatMs: 700,
  graceMs: 60_000,
  idleMs: 60_000,
  acknowledgeMs: 2_000,
  retries: 3,
  keptLinks: 16,
  queueItems: 100_000,
  queueChars: 64 * 1_048_576,
};

export interface PeerComponents<P> {
  runtime: Runtime;
  ownKey: string;
  limits: PeerLimits;
  reading: FairReading;
  /** Takes an item. An error refuses it; `INVALID_FRAME` and `INVALID_ENVELOPE` are violations. */
  take: (peer: P, item: Item) => void;
  onStatus: (peer: P, status: PeerStatus) => void;
  /** The conversation is over, and everything that was open in it. */
  onEnd: (peer: P) => void;
  /** Is there work under way with that node? */
  isBusy: (peer: P) => boolean;
  /** An item that the other side did not take any more, because the conversation ended for want of anything to say. */
  onReturned: (peer: P, text: string, outcome: ItemOutcome) => void;
  /** The node is about to stop, or to leave the mesh. */
  onStopping: (peer: P) => void;
  /** The node has left the mesh. */
  onFarewell: (peer: P) => void;
  /** The peer sent what no honest peer sends, or never acknowledges. */
  onViolation: (peer: P, error: EclipticError) => void;
}

/**
 * Listens to a link over which the other side resumes a conversation that this side has ended, because the farewell was lost:
 * says it again until a new conversation begins.
 */
export function repeatFarewell(link: Link, farewell: Uint8Array, present: () => Uint8Array | undefined): LinkListener {
  link.send(farewell);
  return {
    onFrame() {
      if (present() === farewell) link.send(farewell);
      else link.close();
    },
    onDrain() {},
    onClose() {},
  };
}
