import type { Link } from '../links/link.js';

/** A topic on which nodes find each other; only nodes that know it can. */
export interface Rendezvous {
  readonly topic: Uint8Array;
  /** Members look and wait, a host that invites waits, a guest that joins looks. */
  readonly role: 'member' | 'host' | 'guest';
}

/** The state of a discovery, for `doctor`. */
export interface DiscoveryStatus {
  readonly kind: 'hyperswarm' | 'websocket' | 'memory' | 'nats';
  readonly working: boolean;
  readonly detail: string;
  /** Features that the other side lacks: it works, with less. */
  readonly gaps?: readonly string[];
}

/** Finds other nodes and opens links to them. Announces nothing before `start`. */
export interface Discovery {
  /** Hands every link, from either side, to `onLink`. */
  start(onLink: (link: Link) => void): Promise<void>;
  /** Announces and looks on exactly these topics from now on. */
  setRendezvous(points: readonly Rendezvous[]): void;
  /** Looks for missing nodes. Called often; the discovery decides how soon it looks again. */
  seek(): void;
  /** Opens a link to that member soon, because something waits for it. Does nothing if this discovery knows no way. */
  reach(node: string): void;
  status(): DiscoveryStatus;
  /** Resolves when `status` has been tried out, where that takes time. */
  settled?(): Promise<void>;
  stop(): Promise<void>;
}

/** The node that a discovery works for. */
export interface Seeker {
  readonly key: string;
  /** Is a link to that node missing, and may it be called now? */
  shouldCall(node: string): boolean;
  /** Is a link to that node kept open, whether or not anything is to be sent? Others are opened by `reach`. */
  isNeighbour(node: string): boolean;
}
