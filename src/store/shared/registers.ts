/** The state of a register as it was read. */
export interface Registered {
  /** Grows with every write to any register. 0: it was never written. */
  readonly revision: number;
  /** The node that wrote it; undefined if there is no value, or no node can be shown to have written it. */
  readonly writer: string | undefined;
  readonly value: unknown;
}

/**
 * Small values that several nodes share and change by compare-and-set: a write succeeds only if its writer knew the
 * latest revision. A read may be behind, a write never is, so decisions rely on writes.
 */
export interface Registers {
  /** Whose registers they are. It changes when the node joins another mesh: the registers are others then. */
  readonly scope: string;
  /** For people: where the registers are. */
  readonly place: string;
  /** Rejects with `BROKER_UNREACHABLE`. */
  read(key: string): Promise<Registered>;
  /** The new revision; undefined if the register's revision is not `expected`. Rejects with `BROKER_UNREACHABLE`, and then it may have been written. */
  write(key: string, value: unknown, expected: number): Promise<number | undefined>;
  /** Reports every register and every later change, each at least once, in order for each register. Returns what ends it. */
  watch(listener: (key: string, entry: Registered) => void): () => void;
  /** Called when the registers can be reached, also for the first time. Returns what unsubscribes. */
  onReachable(listener: () => void): () => void;
}
