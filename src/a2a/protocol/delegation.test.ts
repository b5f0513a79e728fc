import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  admitDelegation,
  DELEGATION_DEPTH,
  extendDelegation,
  readDelegation,
  withDelegation,
  writeDelegationHeader,
} from './delegation.js';

describe('a delegation chain', () => {
  it('comes through metadata and header as it was sent', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ minLength: 1, unit: 'grapheme' }), { maxLength: 8 }), (chain) => {
        expect(readDelegation(withDelegation({ other: 1 }, chain), undefined)).toEqual(chain);
        expect(readDelegation(undefined, writeDelegationHeader(chain))).toEqual(chain);
        expect(readDelegation(withDelegation(undefined, chain), writeDelegationHeader(chain))).toEqual(chain);
      }),
    );
  });

  it('is empty for a task that was not handed on', () => {
    expect(readDelegation(undefined, undefined)).toEqual([]);
    expect(readDelegation({ other: 1 }, undefined)).toEqual([]);
  });

  it('is refused when it is no chain, or when metadata and header differ', () => {
    const wrong: [Record<string, unknown> | undefined, string | undefined][] = [
      [withDelegation(undefined, 'sun' as never), undefined],
      [withDelegation(undefined, [5] as never), undefined],
      [withDelegation(undefined, Array(65).fill('sun')), undefined],
      [undefined, '%'],
      [withDelegation(undefined, ['sun']), 'mars'],
    ];
    for (const [metadata, header] of wrong) {
      expect(() => readDelegation(metadata, header)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }));
    }
  });

  it('never has the same agent twice, and never grows past its depth', () => {
    const agents = fc.array(fc.constantFrom('sun', 'mars', 'venus', 'rhea', 'titan', 'io'), { maxLength: 12 });
    fc.assert(
      fc.property(agents, fc.integer({ min: 1, max: DELEGATION_DEPTH }), (hops, depth) => {
        let chain: readonly string[] = [];
        for (const agent of hops) {
          const loop = chain.includes(agent);
          const full = chain.length >= depth;
          if (loop || full) {
            expect(() => extendDelegation(chain, agent, depth)).toThrow(
              expect.objectContaining({
                code: 'DELEGATION_REFUSED',
                details: expect.objectContaining({ reason: loop ? 'loop' : 'depth' }),
              }),
            );
          } else {
            chain = extendDelegation(chain, agent, depth);
            expect(() => admitDelegation(chain, 'pluto', depth)).not.toThrow();
            expect(() => admitDelegation(chain, agent, depth)).toThrow('come back');
          }
        }
        expect(new Set(chain).size).toBe(chain.length);
        expect(chain.length).toBeLessThanOrEqual(depth);
      }),
    );
    expect(() => admitDelegation(['a', 'b', 'c'], 'd', 2)).toThrow('handed on 3 times');
  });
});
