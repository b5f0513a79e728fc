import type { WorkerHealth } from '../../agent/staffing.js';
import type { ProviderHealthStatus } from '../adapter/provider-adapter.js';
import type { ProviderPhase, RegisteredProvider } from './registered-provider.js';

/** A provider as it is, for people and programs. */
export interface ProviderRow {
  readonly id: string;
  readonly type: string;
  readonly workspaceId: string;
  readonly laneId: string | null;
  readonly phase: ProviderPhase;
  /** `starting` until it is ready for the first time. */
  readonly state: ProviderHealthStatus['state'] | 'starting';
  readonly failureCount: number;
  /** When it was last checked; null where it has not been yet. */
  readonly lastCheck: string | null;
  readonly message: string | null;
  readonly priority: number;
  readonly capabilities: readonly string[];
  readonly inFlight: number;
  readonly concurrencyLimit: number;
  readonly healthCheckIntervalMs: number;
  readonly completed: number;
  readonly failed: number;
}

export function rowOf(
  provider: RegisteredProvider,
  laneId: string | undefined,
  status: ProviderHealthStatus | undefined,
): ProviderRow {
  const { registration, phase, work } = provider;
  const { config: _, ...about } = registration;
  // One that is ready and was not checked yet gets work.
  const { state = phase === 'ready' ? 'healthy' : 'unavailable', failureCount = 0, lastCheck, message } = status ?? {};
  return {
    ...about,
    laneId: laneId ?? null,
    phase,
    state: phase === 'starting' ? 'starting' : state,
    failureCount,
    lastCheck: lastCheck?.toISOString() ?? null,
    message: message ?? null,
    ...work,
  };
}

/** Which of two an agent's work goes to. */
export const WORSE: Readonly<Record<WorkerHealth['state'], number>> = {
  ready: 0,
  starting: 1,
  degraded: 2,
  unavailable: 3,
};

/** How a provider is, for the agent whose work it does. */
export function workerHealthOf({ id, phase, state, message }: ProviderRow, impediment?: string): WorkerHealth {
  if (impediment !== undefined) return { state: 'unavailable', reason: impediment, blocked: true };
  if (phase === 'starting') return { state: 'starting', reason: `provider "${id}" is being started` };
  if (state === 'healthy' && phase === 'ready') return { state: 'ready' };
  const reason = `provider "${id}" is ${phase === 'ready' ? state : phase}${message === null ? '' : `: ${message}`}`;
  return { state: state === 'degraded' ? 'degraded' : 'unavailable', reason };
}
