import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbAgentId } from '../../test/generators.js';
import type { EclipticError } from '../runtime/errors.js';
import { Catalogue, type Offer } from './catalogue.js';
import type { Definition } from './definitions.js';

const HERE = undefined;

describe('the catalogue', () => {
  it('stores offers under their owner and name [R5.1 R5.6]', () => {
    const catalogue = new Catalogue();
    catalogue.add('mars', HERE, [tool('build'), prompt('build'), resource('memory://rules')]);
    catalogue.add('mars', 'far', [tool('build')]);
    expect(catalogue.get('mars', 'tool', 'build')).toMatchObject({ owner: 'mars', fullName: 'mars.build' });
    expect(catalogue.get('mars@far', 'tool', 'build')).toMatchObject({ owner: 'mars@far', fullName: 'mars@far.build' });
    expect(catalogue.get('mars', 'prompt', 'build')?.definition.kind).toBe('prompt');
    expect(catalogue.get('mars', 'tool', 'memory://rules')).toBeUndefined();
    expect(catalogue.get('venus', 'tool', 'build')).toBeUndefined();
    expect([...catalogue.ownersNamed('mars')]).toEqual(['mars', 'mars@far']);
  });

  it.each([
    ['DUPLICATE_TOOL', tool('build'), 'mars.build'],
    ['DUPLICATE_PROMPT', prompt('build'), 'mars.build'],
    ['DUPLICATE_RESOURCE', resource('memory://rules'), 'memory://rules'],
    ['DUPLICATE_RESOURCE', template('memory://{name}'), 'memory://{name}'],
  ])('refuses as %s what its owner offers already, by its name [R5.5]', (code, offer, name) => {
    const catalogue = new Catalogue();
    catalogue.add('mars', HERE, [offer]);
    const refused = thrownBy(() => catalogue.add('mars', HERE, [offer]));
    expect(refused).toMatchObject({ code, message: expect.stringContaining(`"${name}"`), details: { agent: 'mars' } });
    catalogue.add('mars', 'far', [offer]);
  });

  it('adds all of a batch, or none [R5.5]', () => {
    const catalogue = new Catalogue();
    catalogue.add('mars', HERE, [tool('build')]);
    const told: string[] = [];
    catalogue.onChange((kind) => told.push(kind));
    const { version } = catalogue;
    for (const batch of [
      [tool('test'), resource('memory://a'), tool('build')],
      [tool('test'), tool('test')],
    ]) {
      expect(thrownBy(() => catalogue.add('mars', HERE, batch))).toMatchObject({ code: 'DUPLICATE_TOOL' });
    }
    expect(catalogue.of('mars').map(({ key }) => key)).toEqual(['build']);
    expect(catalogue.resourcesAt('memory://a')).toEqual([]);
    expect([catalogue.version, told]).toEqual([version, []]);
  });

  it('allows one agent of a node, and agents of other nodes, to have the same URI [R6.1]', () => {
    const catalogue = new Catalogue();
    catalogue.add('rhea', 'far', [resource('memory://rules')]);
    catalogue.add('mars', HERE, [resource('memory://rules')]);
    catalogue.add('rhea', 'farther', [resource('memory://rules')]);
    const refused = thrownBy(() => catalogue.add('venus', HERE, [resource('memory://rules')]));
    expect(refused.code).toBe('DUPLICATE_RESOURCE');
    expect(catalogue.resourcesAt('memory://rules').map(({ owner }) => owner)).toEqual([
      'mars',
      'rhea@far',
      'rhea@farther',
    ]);
    catalogue.removeOwner('mars');
    expect(catalogue.resourcesAt('memory://rules').map(({ owner }) => owner)).toEqual(['rhea@far', 'rhea@farther']);
    catalogue.removeNode('far');
    catalogue.removeNode('farther');
    expect(catalogue.resourcesAt('memory://rules')).toEqual([]);
    expect(catalogue.ownersNamed('rhea').size).toBe(0);
  });

  it('notifies of changes by kind, and only when something changed', () => {
    const catalogue = new Catalogue();
    const told: unknown[] = [];
    const stop = catalogue.onChange((kind, entries, gone) =>
      told.push([kind, entries.map(({ key }) => key), gone ? 'gone' : 'new']),
    );
    catalogue.add('mars', HERE, [tool('build'), prompt('review'), tool('test')]);
    catalogue.remove('mars', 'tool', ['test', 'never there']);
    catalogue.remove('mars', 'tool', ['test']);
    catalogue.remove('venus', 'tool', ['build']);
    catalogue.removeOwner('mars');
    catalogue.removeOwner('mars');
    stop();
    catalogue.add('mars', HERE, [tool('build')]);
    expect(told).toEqual([
      ['tool', ['build', 'test'], 'new'],
      ['prompt', ['review'], 'new'],
      ['tool', ['test'], 'gone'],
      ['tool', ['build'], 'gone'],
      ['prompt', ['review'], 'gone'],
    ]);
  });

  it('holds exactly what was added and not removed, in the order of owner and name [P18 P20]', () => {
    const step = fc.record({
      owner: fc.constantFrom('a', 'b', 'c'),
      node: fc.constantFrom(HERE, 'far'),
      key: fc.constantFrom('x', 'y', 'z'),
      gone: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const catalogue = new Catalogue();
        const expected = new Set<string>();
        for (const { owner, node, key, gone } of steps) {
          const address = node === HERE ? owner : `${owner}@${node}`;
          const name = `${address}.${key}`;
          if (gone) {
            catalogue.remove(address, 'tool', [key]);
            expected.delete(name);
          } else if (expected.has(name)) {
            expect(thrownBy(() => catalogue.add(owner, node, [tool(key)])).code).toBe('DUPLICATE_TOOL');
          } else {
            catalogue.add(owner, node, [tool(key)]);
            expected.add(name);
          }
        }
        const found = catalogue.all('tool').map(({ fullName }) => fullName);
        expect(new Set(found)).toEqual(expected);
        expect(found).toHaveLength(expected.size);
        const order = catalogue.all('tool').map(({ owner, key }) => [owner, key] as const);
        expect(order).toEqual([...order].sort(([a, x], [b, y]) => (a < b ? -1 : a > b ? 1 : x < y ? -1 : 1)));
      }),
    );
  });

  it('finds an entry by name in constant time', () => {
    fc.assert(
      fc.property(fc.uniqueArray(arbAgentId(), { minLength: 1, maxLength: 30 }), (owners) => {
        const catalogue = new Catalogue();
        for (const owner of owners) catalogue.add(owner, HERE, [tool(owner), tool('shared')]);
        for (const owner of owners) {
          expect(catalogue.get(owner, 'tool', owner)?.fullName).toBe(`${owner}.${owner}`);
          expect(catalogue.get(owner, 'tool', 'shared')?.owner).toBe(owner);
        }
      }),
    );
  });
});

function offer(definition: Definition): Offer {
  return { definition, answer: async () => null };
}

function tool(name: string): Offer {
  return offer({ kind: 'tool', name, inputSchema: { type: 'object' } });
}

function prompt(name: string): Offer {
  return offer({ kind: 'prompt', name });
}

function resource(uri: string): Offer {
  return offer({ kind: 'resource', uri, name: 'a resource' });
}

function template(uriTemplate: string): Offer {
  return offer({ kind: 'template', uriTemplate, name: 'a template' });
}

function thrownBy(act: () => unknown): EclipticError {
  try {
    act();
  } catch (error) {
    return error as EclipticError;
  }
  throw new Error('nothing was thrown');
}
