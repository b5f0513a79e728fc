import type { ProviderState } from '../adapter/adapter.js';

/** When a provider leaves routing, and when it returns. */
export interface HealthPolicy {
  /** Failures in a row that make it degraded. Default 3. */
  readonly degradedAfter: number;
  /** Failures in a row that make it unavailable. Default 5. */
  readonly unavailableAfter: number;
  /** Checks in a row that must pass before it is healthy again. Default 1; a higher number keeps a flapping provider out. */
  readonly recoveryThreshold: number;
  /** That many crashes … Default 5. */
  readonly loopCrashes: number;
  /** … within this time are a crash loop. Default 60,000. */
  readonly loopMs: number;
}

export const HEALTH_POLICY: HealthPolicy = {
  degradedAfter: 3,
  unavailableAfter: 5,
  recoveryThreshold: 1,
  loopCrashes: 5,
  loopMs: 60_000,
};

export interface Health {
  readonly state: ProviderState;
  /** Failed checks and crashes since the last check that passed. */
  readonly failures: number;
  /** Checks that passed since the last failure. */
  readonly passes: number;
  /** Times of the crashes within `loopMs`. */
  readonly crashes: readonly number[];
  readonly lastCheck: number;
  readonly message: string | undefined;
  readonly needsOwner: boolean;
}

export type HealthEvent =
  | { readonly type: 'passed'; readonly at: number }
  | { readonly type: 'failed'; readonly at: number; readonly reason: string; readonly needsOwner?: boolean }
  | { readonly type: 'crashed'; readonly at: number; readonly reason: string; readonly looping?: boolean | undefined };

export interface HealthTransition {
  readonly from: ProviderState;
  readonly to: ProviderState;
}

interface HealthStep {
  readonly next: Health;
  readonly transition: HealthTransition | undefined;
}

export function newHealth(state: ProviderState, at: number, message?: string): Health {
  return {
    state,
    failures: state === 'healthy' ? 0 : 1,
    passes: 0,
    crashes: [],
    lastCheck: at,
    message,
    needsOwner: false,
  };
}

/** The pure health machine: the next state after one check or crash. */
export function stepHealth(now: Health, event: HealthEvent, policy: HealthPolicy): HealthStep {
  switch (event.type) {
    case 'passed':
      return changed(now, pass(now, event.at, policy));
    case 'failed':
      return changed(now, fail(now, event, policy));
    case 'crashed': {
      const crashes = [...now.crashes.filter((earlier) => event.at - earlier < policy.loopMs), event.at];
      const failed = fail(now, event, policy);
      const looping = event.looping === true || crashes.length >= policy.loopCrashes;
      const state = worse(failed.state, looping ? 'unavailable' : 'degraded');
      return changed(now, { ...failed, crashes, state, needsOwner: event.looping === true });
    }
  }
}

function pass(now: Health, at: number, { recoveryThreshold }: HealthPolicy): Health {
  const passes = now.passes + 1;
  const healthy = now.state === 'healthy' || passes >= recoveryThreshold;
  return {
    state: healthy ? 'healthy' : now.state,
    failures: 0,
    passes: healthy ? 0 : passes,
    crashes: now.crashes,
    lastCheck: at,
    message: healthy ? undefined : now.message,
    needsOwner: false,
  };
}

function fail(
  now: Health,
  { at, reason: message, needsOwner = false }: { at: number; reason: string; needsOwner?: boolean },
  policy: HealthPolicy,
): Health {
  const failures = now.failures + 1;
  const counted =
    failures >= policy.unavailableAfter ? 'unavailable' : failures >= policy.degradedAfter ? 'degraded' : 'healthy';
  // A state that needs the owner is certain, so failures are not counted.
  const state = worse(worse(now.state, counted), needsOwner ? 'degraded' : 'healthy');
  return { ...now, state, failures, passes: 0, lastCheck: at, message, needsOwner };
}

const SEVERITY: Readonly<Record<ProviderState, number>> = { healthy: 0, degraded: 1, unavailable: 2 };

/** A failure never improves the state. */
function worse(a: ProviderState, b: ProviderState): ProviderState {
  return SEVERITY[a] >= SEVERITY[b] ? a : b;
}

function changed(now: Health, next: Health): HealthStep {
  return { next, transition: now.state === next.state ? undefined : { from: now.state, to: next.state } };
}
