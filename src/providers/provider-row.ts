import type { ProviderHealthStatus } from './provider-adapter.js';
import type { ProviderPhase, RegisteredProvider } from './registered-provider.js';

/** A provider as it is, for people and programs. */
export interface ProviderRow {
  readonly id: string;
  readonly type: string;
  readonly workspaceId: string;
  readonly laneId: string | null;
  readonly phase: ProviderPhase;
  readonly state: ProviderHealthStatus['state'];
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
  const { state = 'unavailable', failureCount = 0, lastCheck, message } = status ?? {};
  return {
    ...about,
    laneId: laneId ?? null,
    phase,
    state,
    failureCount,
    lastCheck: lastCheck?.toISOString() ?? null,
    message: message ?? null,
    ...work,
  };
}
