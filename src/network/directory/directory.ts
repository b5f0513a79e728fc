/** What one node says of itself to every full member: a signed text that replaces the one before. */
export interface DirectoryEntry {
  readonly node: string;
  /** Grows with each entry of the node, also from one process to the next. */
  readonly version: number;
  /** The signed entry as JSON. */
  readonly text: string;
}

export interface DirectoryListener {
  /**
   * An entry arrived, of which nothing has been checked. True if it is genuine and newer than the known one, so that it may
   * be passed on. Throws `INVALID_FRAME` if its node has not signed it, so that no honest node would have passed it on.
   */
  onEntry(text: string): boolean;
  /** An earlier process with this node's key has published that version: the next one must exceed it. */
  onOutdone(version: number): void;
  /** Has another directory brought this version, or a later one, to this node and to those that it talks to? */
  isBrought?(node: string, version: number): boolean;
  /** That node was alive when it said so, by this node's clock. */
  onHeard(node: string): void;
  /** That node has left, or has not been heard of in time. */
  onGone(node: string): void;
}

/**
 * Who is there: spreads the entry of this node and brings those of the others, and says which nodes are alive. It reads no
 * entry. Gossip between neighbours, a key-value bucket of NATS, memory. `directory.contract.test.ts` runs over all of them.
 */
export interface Directory {
  /** Do entries travel over links between neighbours? Otherwise nodes need no links to know each other. */
  readonly needsNeighbours: boolean;
  start(listener: DirectoryListener): Promise<void>;
  /** Spreads this node's entry in place of the one before, and lets the others know that this node is alive, until `stop`. */
  publish(entry: DirectoryEntry): void;
  /** That node is no longer a member: drops its entry. */
  forget(node: string): void;
  /** Withdraws this node. The last entry that was published says that it is gone. */
  stop(): Promise<void>;
}
