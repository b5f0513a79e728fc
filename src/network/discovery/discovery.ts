import type { Link } from '../links/link.js';

/** A point where nodes look for each other; only who knows it can. */
export interface Meeting {
  readonly topic: Uint8Array;
  /** Members look and wait; whoever invites waits; whoever joins looks. */
  readonly role: 'member' | 'host' | 'guest';
}

/** What a discovery knows of itself, for `doctor`. */
export interface DiscoveryStatus {
  readonly kind: 'hyperswarm' | 'websocket' | 'memory';
  readonly working: boolean;
  readonly detail: string;
}

/** Finds other nodes and brings links to them. Announces nothing before `start`. */
export interface Discovery {
  /** Every link that comes about, from either side, goes to `onLink`. */
  start(onLink: (link: Link) => void): Promise<void>;
  /** From now on, be at exactly these points. */
  meet(meetings: readonly Meeting[]): void;
  /** Somebody is missing. Called often; how soon to look again is the discovery's own decision. */
  seek(): void;
  status(): DiscoveryStatus;
  /** Resolves when `status` has been tried out, where that takes time. */
  settled?(): Promise<void>;
  stop(): Promise<void>;
}

/** The node that a discovery works for. */
export interface Seeker {
  readonly key: string;
  /** Is there a link to that node, or one being greeted? */
  isLinked(node: string): boolean;
}
