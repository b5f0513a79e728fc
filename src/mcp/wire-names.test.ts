import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Catalogue } from './catalogue.js';
import { NAME_STYLES, type NameStyle, WireNames } from './wire-names.js';

interface Owned {
  readonly owner: string;
  readonly node: string | undefined;
  readonly key: string;
}

/** Few letters, and everything that is replaced or has a meaning, so that names often coincide. */
const arbId = fc.stringMatching(/^[a-b][a-b_-]{0,4}$/);
const arbKey = fc.oneof(fc.stringMatching(/^[a-b_.\-/]{1,6}$/), fc.stringMatching(/^[a-b_.\-/]{50,127}$/));
const arbNode = fc.constantFrom(undefined, '1'.repeat(64), `${'1'.repeat(8)}${'2'.repeat(56)}`);
const arbOwned: fc.Arbitrary<Owned> = fc.record({ owner: arbId, node: arbNode, key: arbKey });
const arbTools = fc.uniqueArray(arbOwned, { selector: fullName, maxLength: 25 });

describe('names on the wire', () => {
  it.each<[NameStyle, string, RegExp]>([
    ['safe', 'mars__build', /^[A-Za-z0-9_]{1,64}$/],
    ['dotted', 'mars.build', /^[A-Za-z0-9_./@-]+$/],
    ['bare', 'build', /^[A-Za-z0-9_./-]{1,64}$/],
  ])('are, in the %s style, like %s, and no two are the same [MC1 R5.6]', (style, example, pattern) => {
    expect(namesOf(style, [{ owner: 'mars', node: undefined, key: 'build' }])).toEqual([example]);
    fc.assert(
      fc.property(arbTools, (tools) => {
        const names = namesOf(style, tools);
        expect(new Set(names).size).toBe(tools.length);
        for (const name of names) expect(name).toMatch(pattern);
      }),
      { numRuns: 300 },
    );
  });

  it.each(NAME_STYLES)('lead, in the %s style, to the tool that they were made for', (style) => {
    fc.assert(
      fc.property(arbTools, (tools) => {
        const { names, entries } = nameAll(tools);
        for (const entry of entries) expect(names.find('tool', names.nameOf(entry, style), style)).toBe(entry);
        expect(names.find('prompt', 'mars__build', style)).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });

  it('keep their meaning when tools are added: the same tool, or none [MC1]', () => {
    fc.assert(
      fc.property(fc.constantFrom(...NAME_STYLES), arbTools, arbTools, (style, before, more) => {
        const added = more.filter((one) => !before.some((other) => fullName(other) === fullName(one)));
        const earlier = nameAll(before);
        const later = nameAll([...before, ...added]);
        for (const entry of earlier.entries) {
          const found = later.names.find('tool', earlier.names.nameOf(entry, style), style);
          // A plain id means the agent of this node, also where it comes later.
          const { ownerId, key } = entry;
          const named = found?.node === undefined ? `${ownerId}.${key}` : entry.fullName;
          if (found) expect([entry.fullName, named]).toContain(found.fullName);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('do not change when unrelated tools are added', () => {
    fc.assert(
      fc.property(fc.constantFrom(...NAME_STYLES), arbTools, (style, tools) => {
        const others = tools.map((tool) => ({ ...tool, owner: `z${tool.owner}`, key: `z${tool.key}` }));
        expect(namesOf(style, [...tools, ...others]).slice(0, tools.length)).toEqual(namesOf(style, tools));
      }),
    );
  });

  it('cannot be taken over by an agent that knows how they are lengthened [MC1]', () => {
    // `mars__build` with `now` is written as `mars` with `build__now` is; the third has the first one's longer name.
    const mine = { owner: 'mars', node: undefined, key: 'build__now' };
    const hash = createHash('sha256').update(fullName(mine)).digest('hex');
    const node = '6'.repeat(64);
    const theirs = [
      { owner: 'mars__build', node, key: 'now' },
      { owner: 'mars__build', node, key: `now_${hash.slice(0, 8)}` },
      { owner: 'mars__build', node, key: `now_${hash.slice(0, 32)}` },
    ];
    const { names, entries } = nameAll([mine, ...theirs]);
    expect(new Set(entries.map((entry) => names.nameOf(entry, 'safe'))).size).toBe(4);
    expect(names.find('tool', names.nameOf(entries[0]!, 'safe'), 'safe')).toBe(entries[0]);
    for (const guess of ['mars__build__now', `mars__build__now_${hash.slice(0, 8)}`]) {
      expect([undefined, entries[0]]).toContain(names.find('tool', guess, 'safe'));
    }
  });

  it('include the node when agents of several nodes share an id', () => {
    const far = { owner: 'mars', node: 'abcdef0123456789', key: 'build' };
    const here = { ...far, node: undefined };
    expect(namesOf('safe', [far])).toEqual(['mars__build']);
    expect(namesOf('safe', [here, far])).toEqual(['mars__build', 'mars_abcdef01__build']);
    expect(namesOf('dotted', [here, far])).toEqual(['mars.build', 'mars@abcdef0123456789.build']);
  });

  it('are bare only where the name is unique, and cannot be read as a full name', () => {
    const tools = ['build', 'test', 'venus.paint'].map((key) => ({ owner: 'mars', node: undefined, key }));
    const other = { owner: 'venus', node: undefined, key: 'test' };
    expect(namesOf('bare', [...tools, other])).toEqual(['build', 'mars__test', 'mars__venus_paint', 'venus__test']);
  });

  it('are recomputed when the catalogue changes', () => {
    const { catalogue, names } = nameAll([{ owner: 'mars', node: undefined, key: 'build' }]);
    expect(names.find('tool', 'build', 'bare')?.owner).toBe('mars');
    catalogue.removeOwner('mars');
    expect(names.find('tool', 'build', 'bare')).toBeUndefined();
  });
});

function fullName({ owner, node, key }: Owned): string {
  return `${node === undefined ? owner : `${owner}@${node}`}.${key}`;
}

function nameAll(tools: readonly Owned[]) {
  const catalogue = new Catalogue();
  for (const { owner, node, key } of tools) {
    const definition = { kind: 'tool', name: key, inputSchema: { type: 'object' } } as const;
    catalogue.add(owner, node, [{ definition, answer: async () => null }]);
  }
  const entries = tools.map(({ owner, node, key }) => {
    const address = node === undefined ? owner : `${owner}@${node}`;
    return catalogue.get(address, 'tool', key)!;
  });
  return { catalogue, names: new WireNames(catalogue), entries };
}

/** The names of the tools, in their order. */
function namesOf(style: NameStyle, tools: readonly Owned[]): string[] {
  const { names, entries } = nameAll(tools);
  return entries.map((entry) => names.nameOf(entry, style));
}
