import { type CallbackFailed, guarded } from '../../runtime/callbacks.js';
import type { EclipticError } from '../../runtime/errors.js';

/** What a provider is reached by. */
export const PROVIDER_TYPES = ['acp', 'mcp', 'a2a', 'command'] as const;
export type ProviderType = (typeof PROVIDER_TYPES)[number];

/** Degraded and unavailable providers get no work; the difference is for people. */
export type ProviderState = 'healthy' | 'degraded' | 'unavailable';

export interface ProviderHealthStatus {
  readonly state: ProviderState;
  readonly lastCheck: Date;
  /** Checks that failed, and crashes, since one last passed. */
  readonly failureCount: number;
  readonly message?: string;
  /** Only its owner can help, by a login, say: it is out of routing at once, and no work waits for it. */
  readonly needsOwner?: boolean;
}

/** What one call may want to know and say while it runs. */
export interface ExecuteTerms {
  /** Aborted when nobody wants the result any more; its reason is a typed error. */
  readonly signal?: AbortSignal;
  /** What a provider tells before it is done, in order. */
  readonly onUpdate?: (update: ProviderUpdate) => void;
  /** Asks whoever wants the work something that it cannot go on without. Without this, a question is a failure. */
  readonly onQuestion?: (question: ProviderUpdate) => Promise<string>;
  /** On whose behalf: the address of an agent, and who handed the work on before. */
  readonly caller?: string;
  readonly chain?: readonly string[];
  /** The lane that the work belongs to. */
  readonly laneId?: string | undefined;
  /** False refuses it where nobody can take it now. Default: it waits for the first that can. */
  readonly wait?: boolean;
}

/** Part of the answer (`text`), or something about the work: progress, a plan, a tool call, … */
export interface ProviderUpdate {
  readonly kind: 'text' | 'progress' | 'plan' | 'tool-call' | 'artifact' | 'question';
  /** For people. */
  readonly text: string;
  /** The same for programs, as the provider's own protocol has it. */
  readonly data?: unknown;
}

/** A provider ended, or its connection did, without being asked to. */
export interface ProviderCrash {
  readonly error: EclipticError;
  /** It crashed so often that it is not started again by itself. */
  readonly looping?: boolean;
}

/**
 * One provider: an agent process, a tool server, remote agents. Everything that it throws is a `NormalizedProviderError`.
 *
 * - `init` makes it ready for work and leaves nothing behind when it fails; it may be called again after that, and
 *   after `terminate`. Its caller waits no longer than 5 s and then terminates it.
 * - `health` asks the provider itself, by the path and with the credentials of real traffic. It throws, or gives a
 *   state that is not healthy, when the provider cannot do its work.
 * - `execute` does one piece of work, once. Many may run at a time.
 * - `terminate` ends what is in flight with `PROVIDER_TERMINATED`, and resolves when nothing of it is left; it may be
 *   called at any time, any number of times.
 */
export interface ProviderAdapter<TConfig = unknown, TExecuteInput = unknown, TExecuteOutput = unknown> {
  /** What it is reached by, where it knows. */
  readonly type?: ProviderType;
  init(config: TConfig): Promise<void>;
  health(): Promise<ProviderHealthStatus>;
  execute(input: TExecuteInput, correlationId: string, terms?: ExecuteTerms): Promise<TExecuteOutput>;
  terminate(): Promise<void>;
  /** Takes its credentials as they are now, and interrupts no work. */
  renew?(): Promise<void>;
  /** Calls back when it crashes, at once. Returns the way to stop. */
  onCrash?(listener: (crash: ProviderCrash) => void): () => void;
  /** What else people may want to know of it. Never a secret. */
  describe?(): Readonly<Record<string, unknown>>;
  /** Is it still being made ready, although `init` has resolved? It then calls back by `onReady` or `onCrash`. */
  readonly starting?: boolean;
  /** Calls back when it is ready again after a crash, so that it is checked then. Returns the way to stop. */
  onReady?(listener: () => void): () => void;
}

/** How a provider is to be run. */
export interface ProviderRegistration<TConfig = unknown> {
  /** Letters, digits, `_`, `-`, `.` and `/`; one of a registry's. */
  readonly id: string;
  readonly type: ProviderType;
  readonly config: TConfig;
  readonly workspaceId: string;
  /** Calls at a time, 1 to 100. */
  readonly concurrencyLimit: number;
  /** At least 5,000. Default 30,000. */
  readonly healthCheckIntervalMs?: number;
  /** What it can be asked for. Default: nothing in particular. */
  readonly capabilities?: readonly string[];
  /** The smallest is the first choice. Default 0. */
  readonly priority?: number;
  /** The lane that it is bound to, and ends with. */
  readonly laneId?: string;
}

/** The same terms, with an `onUpdate` whose failure is reported and never reaches the provider. */
export function guardedTerms(terms: ExecuteTerms, provider: string, failed: CallbackFailed): ExecuteTerms {
  const { onUpdate } = terms;
  return onUpdate ? { ...terms, onUpdate: guarded(onUpdate, `onUpdate of provider ${provider}`, failed) } : terms;
}
