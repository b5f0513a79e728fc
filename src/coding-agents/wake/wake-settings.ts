import type { WakeRules } from './wake-machine.js';

/** How agents are woken, as the configuration says it. */
export interface WakeInit {
  /** Pointers to one agent in an hour. Default 30. */
  readonly perHour?: number | undefined;
  /** Seconds within which a pointer is to lead to `read`. Default 300. */
  readonly readWithinS?: number | undefined;
  /** Seconds that a self-test takes at most. Default 60. */
  readonly testWithinS?: number | undefined;
  /** When no idle agent is woken, as `22:00-07:00`. Default never. */
  readonly quietHours?: string | undefined;
  /** Test each way in when it is found, at the price of a short turn. Default false: `ecliptic doctor --wake` does. */
  readonly selfTest?: boolean | undefined;
}

export interface WakeSettings extends WakeRules {
  readonly quietHours: string | undefined;
  readonly selfTest: boolean;
}

export function wakeSettings(init: WakeInit = {}): WakeSettings {
  const { perHour = 30, readWithinS = 300, testWithinS = 60, quietHours, selfTest = false } = init;
  return { perHour, readWithinMs: readWithinS * 1_000, testWithinMs: testWithinS * 1_000, quietHours, selfTest };
}
