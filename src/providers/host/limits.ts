/** What one provider's process may take, and how long it may be silent. */
export interface HostLimits {
  /** Memory of the process and everything in its group, where the system tells it. Default 2,048. */
  readonly memoryMb: number;
  /** Until it is ready for work. Default 5,000. */
  readonly startMs: number;
  /** Longest silence of the program about one piece of work; waiting for an approval does not count. Default 600,000. */
  readonly executeMs: number;
  /** Between two questions whether it lives. Default 5,000. */
  readonly heartbeatMs: number;
  /** An answer to that takes no longer, or it hangs. Default 10,000. */
  readonly silenceMs: number;
  /** What was cancelled ends within this, or the process is started anew. Default 5,000. */
  readonly cancelMs: number;
}

export const HOST_LIMITS: HostLimits = {
  memoryMb: 2_048,
  startMs: 5_000,
  executeMs: 600_000,
  heartbeatMs: 5_000,
  silenceMs: 10_000,
  cancelMs: 5_000,
};
