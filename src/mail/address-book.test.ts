import { expect, it } from 'vitest';
import { startMesh } from '../../test/mesh-fixture.js';
import { buildCard } from '../agent/agent-init.js';
import { MemoryStore } from '../store/memory-store.js';
import { AddressBook } from './address-book.js';
import { addresses } from './tables.js';

it('keeps the latest addresses of each node, in memory and on disk, and never drops another node’s [T-F12]', async () => {
  const { node } = await startMesh();
  const store = new MemoryStore();
  const book = await AddressBook.open(store);
  const stop = book.follow(
    node.registry,
    () => 1,
    (error) => expect.unreachable(String(error)),
  );
  node.registry.mergeRemote(buildCard({ id: 'bob', tier: 3 }, 0), 'honest');
  for (let n = 0; n < 10_100; n++) {
    node.registry.mergeRemote(buildCard({ id: `ghost${n}`, tier: 3 }, 0), 'rogue');
  }
  stop();
  expect(book.all).toHaveLength(10_001);
  expect(await store.count(addresses)).toBe(10_001);
  const known = ['bob@honest', 'ghost0@rogue', 'ghost10099@rogue'].map((address) => book.find(address) !== undefined);
  expect(known).toEqual([true, false, true]);
  expect((await AddressBook.open(store)).all).toHaveLength(10_001);
});
