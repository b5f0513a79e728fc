export interface LogEntry<R> {
  /** That of the leader that appended it. */
  readonly epoch: number;
  readonly record: R;
}

/**
 * A log that several seats share. One of them leads it and appends; which one is the log's own matter. Sequences count
 * from 1. A settled record is the same for all seats and survives whatever the implementation promises to survive; the
 * leader also has its own records that are not settled yet, and loses them if another seat becomes the leader.
 */
export interface RecordLog<R> {
  /** This seat. */
  readonly me: string;
  /** Grows with every change of the leader: no two seats lead in the same epoch. */
  readonly epoch: number;
  /** The leader of the epoch, if it is known. */
  readonly leader: string | undefined;
  /** Does this seat lead, as far as it knows? Another may lead already; then nothing that it appends is settled. */
  readonly isLeading: boolean;
  /** The sequence of the last record that this seat has. */
  readonly last: number;
  readonly settled: number;
  /** Of the leader: when it last knew that its records can be settled. */
  readonly inTouchAt: number;
  /** The records above a sequence, up to another if it is given; those of the leader that are not settled too. */
  read(above: number, upTo?: number): readonly LogEntry<R>[];
  /** False, and nothing is appended, if this seat does not lead or the log does not end at `expectedLast`. */
  append(expectedLast: number, records: readonly R[]): boolean;
}

/** A value of a shared log as it was read. */
export interface SharedLogValue {
  /** Grows from value to value of a log, not always by one. */
  readonly sequence: number;
  /** The node that wrote it. */
  readonly writer: string;
  readonly value: unknown;
}

export interface SharedLogTail {
  readonly values: readonly SharedLogValue[];
  /** The sequence to expect in the next append, if there is nothing more to read; 0 if the log is empty. */
  readonly last: number;
  /** There may be more above `last`. */
  readonly isCut: boolean;
}

/** Logs at a broker, by name. A value is appended by a writer that knows the log's end, and is the same for all readers. */
export interface SharedLogs {
  /**
   * The value's sequence; undefined if the log does not end at `expectedLast`, which an unanswered attempt of the same append may
   * have caused. Rejects with `BROKER_UNREACHABLE` if it is not known whether it was appended. Reading the log tells.
   */
  append(log: string, expectedLast: number, value: unknown): Promise<number | undefined>;
  /** The values above a sequence, in order, without those that no node has signed. Rejects with `BROKER_UNREACHABLE`. */
  read(log: string, above: number): Promise<SharedLogTail>;
  /** Called when the log may have grown, and at times for no reason. Returns what ends it. */
  watch(log: string, listener: () => void): () => void;
}
