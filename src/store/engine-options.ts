export interface EngineOptions {
  /** How long another process may take to let the file go. */
  readonly busyMs?: number;
  /** How many bytes of the database are checked before it is opened; the rest is checked afterwards. */
  readonly checkBytes?: number;
  /** How long the write-ahead log grows, in frames, before its pages are moved into the database. */
  readonly checkpointFrames?: number;
  /** How many changes wait, at least, before they are written to their tables. */
  readonly pendingChanges?: number;
  /** How large the database may become, in pages: a disk that is full, for tests. */
  readonly maxPages?: number;
}
