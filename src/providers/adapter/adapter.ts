import type { TaskActivity } from '../../agent/task-activity.js';
import { type CallbackFailed, guarded } from '../../runtime/callbacks.js';
import type { EclipticError } from '../../runtime/errors.js';
import type { BranchReport } from '../../work/branch-report.js';

export const PROVIDER_TYPES = ['acp', 'mcp', 'a2a', 'command', 'model', 'exec'] as const;
export type ProviderType = (typeof PROVIDER_TYPES)[number];

/** Neither degraded nor unavailable providers get work; the difference is for people. */
export type ProviderState = 'healthy' | 'degraded' | 'unavailable';

export interface ProviderHealthStatus {
  readonly state: ProviderState;
  readonly lastCheck: Date;
  /** Failed checks and crashes since the last check that passed. */
  readonly failureCount: number;
  readonly message?: string;
  /** Only the owner can help, for example with a login: the provider leaves routing at once, and no work waits for it. */
  readonly needsOwner?: boolean;
}

/** The terms of one call. */
export interface ExecuteTerms {
  /** Aborted, with a typed error as its reason, when the result is no longer wanted. */
  readonly signal?: AbortSignal;
  /** Called with intermediate results, in order. */
  readonly onUpdate?: (update: ProviderUpdate) => void;
  /** Asks the caller a question that the work depends on. Without this, a question is a failure. */
  readonly onQuestion?: (question: ProviderUpdate) => Promise<string>;
  /** The address of the agent that the work is for, and the agents that delegated it before. */
  readonly caller?: string;
  readonly chain?: readonly string[];
  readonly laneId?: string | undefined;
  /** The working folder of this work, where it is not the provider's own. */
  readonly folder?: string | undefined;
  /** Paths that the work needs beyond it, which a jail opens. */
  readonly opened?: OpenedPaths | undefined;
  /** False refuses the work where no provider can take it now. Default: the work waits for one. */
  readonly wait?: boolean;
}

export interface OpenedPaths {
  readonly read: readonly string[];
  readonly write: readonly string[];
}

/** Part of the answer (`text`), or a report about the work: progress, a plan, a tool call, … */
export interface ProviderUpdate {
  readonly kind:
    | 'text'
    | 'progress'
    | 'plan'
    | 'tool-call'
    | 'artifact'
    | 'question'
    | 'usage'
    | 'branch'
    | 'session'
    | 'waiting';
  readonly text: string;
  /** This `text` replaces the text so far: what came before was not the answer. */
  readonly replaces?: boolean;
  /**
   * The same for programs, in the provider's own protocol; of `usage`, a `Usage`; of `branch`, a `BranchUpdate`; of `session`, a
   * `TaskSession`; of `waiting`, how many of the owner's decisions the work waits for.
   */
  readonly data?: unknown;
  /** The same for every program that shows the work. */
  readonly activity?: TaskActivity;
}

/** The data of an update of the kind `branch`. */
export interface BranchUpdate {
  readonly report: BranchReport;
  /** The patch, where one was asked for and it fits into a message. */
  readonly patch: string | undefined;
}

/** A provider, or the connection to it, ended unexpectedly. */
export interface ProviderCrash {
  readonly error: EclipticError;
  /** It crashed so often that it is not restarted automatically. */
  readonly looping?: boolean;
}

/**
 * One provider: an agent process, a tool server, remote agents. Everything that it throws is a `NormalizedProviderError`.
 *
 * - `init` makes it ready for work, and leaves nothing behind when it fails; it may be called again after that, and
 *   after `terminate`. Its caller waits no longer than 5 s and then terminates it.
 * - `health` asks the provider itself, by the path and with the credentials of real traffic. It throws, or gives a
 *   state that is not healthy, when the provider cannot do its work.
 * - `execute` does one piece of work, once. Many may run at a time.
 * - `terminate` ends what is in flight with `PROVIDER_TERMINATED`, and resolves when nothing of it is left; it may be
 *   called at any time, any number of times.
 */
export interface ProviderAdapter<TConfig = unknown, TExecuteInput = unknown, TExecuteOutput = unknown> {
  readonly type?: ProviderType;
  init(config: TConfig): Promise<void>;
  health(): Promise<ProviderHealthStatus>;
  execute(input: TExecuteInput, correlationId: string, terms?: ExecuteTerms): Promise<TExecuteOutput>;
  terminate(): Promise<void>;
  /** Uses the present credentials from now on, without interrupting work. */
  renew?(): Promise<void>;
  /** Calls back at each crash. Returns the function that unsubscribes, as do the other subscriptions. */
  onCrash?(listener: (crash: ProviderCrash) => void): () => void;
  /** Further facts for people. Never a secret. */
  describe?(): Readonly<Record<string, unknown>>;
  /** Is the provider still starting although `init` has resolved? `onReady` or `onCrash` follows. */
  readonly starting?: boolean;
  /** Calls back when the provider is ready again after a crash. */
  onReady?(listener: () => void): () => void;
}

export interface ProviderRegistration<TConfig = unknown> {
  /** Letters, digits, `_`, `-`, `.` and `/`; unique in a registry. */
  readonly id: string;
  readonly type: ProviderType;
  /** Providers of one pool stand in for each other, whatever their types; work names the pool. Default: the type. */
  readonly pool?: string;
  readonly config: TConfig;
  readonly workspaceId: string;
  /** Calls at a time, 1 to 100. */
  readonly concurrencyLimit: number;
  /** At least 5,000. Default 30,000. */
  readonly healthCheckIntervalMs?: number;
  /** Default: none. */
  readonly capabilities?: readonly string[];
  /** The smallest is the first choice. Default 0. */
  readonly priority?: number;
  /** The provider ends with this lane. */
  readonly laneId?: string;
}

/** The same terms, with an `onUpdate` whose failures are reported and never reach the provider. */
export function guardedTerms(terms: ExecuteTerms, provider: string, failed: CallbackFailed): ExecuteTerms {
  const { onUpdate } = terms;
  return onUpdate ? { ...terms, onUpdate: guarded(onUpdate, `onUpdate of provider ${provider}`, failed) } : terms;
}
