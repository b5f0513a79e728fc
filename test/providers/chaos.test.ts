import { describe, expect, it } from 'vitest';
import { NormalizedProviderError } from '../../src/providers/adapter/errors.js';
import type { ProcessConfig } from '../../src/providers/host/process-adapter.js';
import { p99, TwoLanes } from './chaos.js';
import { lives, until } from './processes.js';

/** `npm run chaos`: 200 runs a scenario, and lane B's times are compared. */
const FULL = process.env.ECLIPTIC_CHAOS !== undefined;
const RUNS = Number(process.env.ECLIPTIC_CHAOS || 20);
const LOAD = FULL ? { workMs: 50, streams: 4, each: 5 } : { workMs: 5, streams: 2, each: 2 };
/** Lane B may take that much longer while lane A is harmed. */
const TOLERANCE = 1.2;

type Harm = (two: TwoLanes) => Promise<void>;

/** The outcome of A's work. */
function ends(input: object, code: string, details: object = {}): Harm {
  return async (two) => {
    const error = await two.harm(input);
    expect(error).toBeInstanceOf(NormalizedProviderError);
    expect(error).toMatchObject({ code, retryable: true, details, correlationId: expect.stringMatching(/^a-/) });
  };
}

const RAPID = { firstDelayMs: 1, maxDelayMs: 5, maxCrashes: 5, withinMs: 60_000 };

const rapidCrashes: Harm = async (two) => {
  for (let crash = 0; crash < 5; crash++) {
    await until(() => two.providers.get('a').state === 'healthy' && two.lane('lane-1').providers[0]?.pid != null);
    const error = await two.a.execute({ do: 'kill' }, 'a-rapid').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'PROVIDER_CRASHED', retryable: true });
    expect(two.providers.get('a').state).not.toBe('healthy');
  }
  expect(two.providers.get('a').state).toBe('unavailable');
  await two.providers.restart('a');
  await until(() => two.providers.get('a').state === 'healthy');
};

const midHealthCheck: Harm = async (two) => {
  const worse = ['degraded', 'unavailable'];
  const fell = () => two.events.filter(({ provider, details }) => provider === 'a' && worse.includes(`${details?.to}`));
  const before = fell().length;
  expect(await two.harm({ do: 'arm' })).toBe('armed');
  const error = await two.a.health().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'PROVIDER_CRASHED', details: { exit: { signal: 'SIGKILL' } } });
  expect(fell()).toHaveLength(before + 1);
};

const grandchildren: Harm = async (two) => {
  let family: number[] = [];
  const error = await two.harm({ do: 'family', count: 3, die: true }, ({ data }) => {
    family = data as number[];
  });
  expect(error).toMatchObject({ code: 'PROVIDER_CRASHED' });
  expect(family).toHaveLength(3);
  await until(() => !family.some(lives));
};

const signal = (name: string) => ({ exit: { kind: 'signal', signal: name } });

describe(`lane B, in ${RUNS} runs, does not notice that lane A`, () => {
  it.each<[string, Harm, Partial<ProcessConfig>?]>([
    ['is killed in the middle of its work', ends({ do: 'kill' }, 'PROVIDER_CRASHED', signal('SIGKILL'))],
    ['crashes five times in a row', rapidCrashes, { restart: RAPID }],
    ['is killed in the middle of a health check', midHealthCheck],
    [
      'is stopped and says nothing more',
      ends({ do: 'stop' }, 'PROVIDER_TIMEOUT', { reason: 'silence' }),
      { limits: { heartbeatMs: 100, silenceMs: 300 } },
    ],
    ['floods its output', ends({ do: 'flood' }, 'PROVIDER_CRASHED', { reason: 'protocol' })],
    ['takes all the memory it can get', ends({ do: 'grow' }, 'PROVIDER_CRASHED', { reason: 'memory' })],
    ['leaves children of its own behind', grandchildren],
    ['closes its input', ends({ do: 'deafen' }, 'PROVIDER_CRASHED', { reason: 'protocol' })],
  ])(
    '%s [SC-025-002 T019.1 T019.2a T019.2b T019.2c T019.2d T019.2e T019.3a T019.3b T019.3c T019.4 T019.5 T019.V1 T019.V2 T019.V3 NFR-025-004 FR-025-007 FR-025-008]',
    async (name, harm, config) => {
      const two = await TwoLanes.start(LOAD, config);
      try {
        for (let run = 0; run < RUNS; run++) {
          await two.work(two.baseline);
          await Promise.all([harm(two), two.work(two.meanwhile)]);
          expect(two.providers.get('b')).toMatchObject({ state: 'healthy', failureCount: 0, failed: 0 });
          expect(two.troubles()).toEqual([]);
          await two.recovered();
          await until(() => two.providers.get('a').state === 'healthy');
        }
      } finally {
        const { orphans, files } = await two.end();
        expect(orphans).toEqual([]);
        expect(files).toBeLessThanOrEqual(0);
      }
      const [before, meanwhile] = [p99(two.baseline), p99(two.meanwhile)];
      console.log(`lane B while lane A ${name}: p99 ${meanwhile.toFixed(1)} ms, else ${before.toFixed(1)} ms`);
      if (FULL) expect(meanwhile / before).toBeLessThanOrEqual(TOLERANCE);
    },
    FULL ? 3_600_000 : 300_000,
  );
});
