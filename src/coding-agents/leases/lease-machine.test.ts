import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { overlaps } from './glob.js';
import { type LeaseState, MAX_LEASES_PER_HOLDER, NOTHING, step } from './lease-machine.js';
import type { Operation } from './lease-wire.js';

const HOLDERS = ['alice@1', 'bob@1', 'carol@2'];
const GLOBS = ['a', 'a/b', 'a/*', '**/c', 'd', '{a,d}/x', 'e'];
const holder = fc.constantFrom(...HOLDERS);
const globs = fc.uniqueArray(fc.constantFrom(...GLOBS), { minLength: 1, maxLength: 3 });
const action = fc.record({
  kind: fc.constantFrom('take', 'take', 'take', 'renew', 'release', 'revoke'),
  holder,
  globs,
  all: fc.boolean(),
  ttlMs: fc.integer({ min: 1, max: 50 }),
  gone: fc.subarray(HOLDERS),
  pass: fc.integer({ min: 0, max: 20 }),
});
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

function operationOf({ kind, holder: who, globs: some, all, ttlMs }: Action, n: number, state: LeaseState): Operation {
  const chosen = all ? {} : { globs: some };
  if (kind === 'renew') return { kind, holder: who, ttlMs, ...chosen };
  if (kind === 'release') return { kind, holder: who, ...chosen };
  if (kind === 'revoke') return { kind, id: state.leases[0]?.id ?? 'none' };
  return { kind: 'take', holder: who, wanted: some.map((glob, at) => ({ id: `${n}.${at}`, glob })), ttlMs, why: '' };
}

describe('the lease machine', () => {
  it('never grants overlapping leases to two holders, grants all or nothing, and gives only growing tokens', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 30 }), (actions) => {
        let state = NOTHING;
        let now = 0;
        let highest = 0;
        for (const [n, one] of actions.entries()) {
          now += one.pass;
          const isGone = (who: string) => who !== one.holder && one.gone.includes(who);
          const circumstances = { now, isGone, settles: true };
          const operation = operationOf(one, n, state);
          const { state: next, outcome } = step(state, operation, circumstances);
          if (operation.kind === 'take') {
            const checked = step(state, { ...operation, kind: 'check' }, circumstances);
            expect(checked.outcome.conflicts).toEqual(outcome.conflicts);
            expect(checked.state.leases).toEqual(state.leases.filter(({ expiresAt }) => expiresAt > now));
            const held = next.leases.filter((lease) => lease.holder === one.holder).map(({ glob }) => glob);
            if (outcome.conflicts.length === 0) expect(held).toEqual(expect.arrayContaining(one.globs));
            else expect(next).toEqual(checked.state);
            const fresh = outcome.conflicts.length > 0 ? [] : outcome.leases.filter(({ id }) => id.startsWith(`${n}.`));
            for (const { token } of fresh) expect(token).toBeGreaterThan(highest);
          }
          highest = Math.max(highest, next.token);
          expect(next.token).toBeGreaterThanOrEqual(state.token);
          for (const lease of next.leases) {
            for (const other of next.leases) {
              expect(lease.holder === other.holder || !overlaps(lease.glob, other.glob)).toBe(true);
            }
          }
          state = next;
        }
      }),
      { numRuns: tries(process.env.ECLIPTIC_SOAK ? 4_000 : 300, 'random histories') },
    );
  });

  it('refuses too many leases of one holder', () => {
    const wanted = Array.from({ length: MAX_LEASES_PER_HOLDER + 1 }, (_, at) => ({ id: `${at}`, glob: `f${at}` }));
    const take: Operation = { kind: 'take', holder: 'alice@1', wanted, ttlMs: 1, why: '' };
    const circumstances = { now: 0, isGone: () => false, settles: true };
    expect(() => step(NOTHING, take, circumstances)).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
  });

  it('gives no token on a device that is not the keeper', () => {
    const take: Operation = { kind: 'take', holder: 'a@1', wanted: [{ id: '1', glob: 'x' }], ttlMs: 5, why: '' };
    const { state, outcome } = step(NOTHING, take, { now: 0, isGone: () => false, settles: false });
    expect([state.token, outcome.leases[0]?.token]).toEqual([0, 0]);
  });
});
