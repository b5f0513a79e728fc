import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { MemoryStore } from '../../store/memory-store.js';
import { KeeperElection } from './keeper-election.js';

/** Devices that know some of the others, and reach some of those. */
class World {
  readonly keepings = new Map<string, KeeperElection>();
  readonly known = new Map<string, Set<string>>();
  readonly cut = new Set<string>();

  constructor(names: readonly string[]) {
    for (const name of names) {
      this.known.set(name, new Set());
      const reachable = (node: string) => !this.cut.has([name, node].sort().join());
      const ask = async (node: string, _question: string, body: unknown) => {
        await Promise.resolve();
        if (!reachable(node)) throw new Error('cut');
        this.meet(name, node);
        return this.keepings.get(node)!.answerClaim((body as { repository: string }).repository, name);
      };
      const devices = () => [...this.known.get(name)!];
      const tokens = { highest: () => 0, onBegin: async () => {}, onMove: async () => {} };
      const components = { store: new MemoryStore(), nodeKey: name, devices, reachable, ask, ...tokens };
      this.keepings.set(name, new KeeperElection(components, []));
    }
  }

  meet(one: string, other: string): void {
    this.known.get(one)!.add(other);
    this.known.get(other)!.add(one);
  }
}

const NAMES = ['a', 'b', 'c', 'd'];
const pair = fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...NAMES)).filter(([one, other]) => one !== other);

describe('the keeper of a repository', () => {
  it('is one device, whichever asks first, in every connected set of devices', async () => {
    const property = fc.asyncProperty(
      fc.array(pair, { maxLength: 6 }),
      fc.array(pair, { maxLength: 3 }),
      fc.shuffledSubarray(NAMES, { minLength: 2 }),
      fc.string({ minLength: 1, maxLength: 3 }),
      async (acquaintances, cuts, claimants, repository) => {
        const world = new World(NAMES);
        // A chain holds them together: everybody was let in by somebody.
        for (const [at, name] of NAMES.entries()) if (at > 0) world.meet(NAMES[at - 1]!, name);
        for (const [one, other] of acquaintances) world.meet(one, other);
        for (const cut of cuts) world.cut.add([...cut].sort().join());
        await Promise.all(claimants.map((name) => world.keepings.get(name)!.find(repository)));
        world.cut.clear();
        for (const name of NAMES) await world.keepings.get(name)!.find(repository);
        const keepers = NAMES.filter((name) => world.keepings.get(name)!.keeperOf(repository) === name);
        expect(keepers.length).toBeLessThanOrEqual(1);
      },
    );
    await fc.assert(property, { numRuns: tries(process.env.ECLIPTIC_SOAK ? 5_000 : 300, 'random histories') });
  });

  it('is undecided while a candidate cannot be asked', async () => {
    const world = new World(['a', 'b']);
    world.meet('a', 'b');
    world.cut.add('a,b');
    for (const keeping of world.keepings.values()) expect(await keeping.find('r')).toBeUndefined();
    world.cut.clear();
    const found = [await world.keepings.get('a')!.find('r'), await world.keepings.get('b')!.find('r')];
    expect(new Set(found).size).toBe(1);
  });

  it('stays when other devices join, and is replaced when it is no longer a device', async () => {
    const world = new World(NAMES);
    expect(await world.keepings.get('c')!.find('r')).toBe('c');
    for (const name of ['a', 'b', 'd']) {
      world.meet('c', name);
      expect(await world.keepings.get(name)!.claim('r')).toBe('c');
    }
    await world.keepings.get('a')!.heard('r', 'c');
    world.known.get('a')!.delete('c');
    expect(world.keepings.get('a')!.keeperOf('r')).toBeUndefined();
    expect(await world.keepings.get('a')!.find('r')).toBe('a');
  });
});
