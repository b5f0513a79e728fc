/** The state of a node in numbers. The page imports this type, so it imports nothing. */
export interface NodeStatus {
  readonly node: string;
  readonly name: string;
  readonly version: string;
  /** Whether it can take work, and why not. */
  readonly ready: {
    readonly status: 'ready' | 'degraded' | 'not-ready';
    readonly reasons: readonly { readonly part: string; readonly state: string; readonly message: string }[];
  };
  readonly uptimeMs: number;
  /** Agents by state; other nodes' agents are counted too. */
  readonly agents: Readonly<Record<string, number>>;
  /** Other nodes by state. */
  readonly peers: Readonly<Record<string, number>>;
  /** Messages and work that wait, by queue. */
  readonly queues: Readonly<Record<string, number>>;
  /** Items that wait for the owner, by kind. */
  readonly waiting: Readonly<Record<string, number>>;
  /** Workers that are not healthy. */
  readonly degraded: readonly { readonly id: string; readonly state: string; readonly reason: string | null }[];
  /** `freeBytes` is null where the system does not tell it. */
  readonly store: { readonly bytes: number; readonly freeBytes: number | null };
}
