import type { Store } from '../../store/store.js';
import type { audit, journal } from './tables.js';

/** The number of the first row at or after a time: rows are in the order of their times, but for a clock that was set back. */
export async function firstSince(
  store: Pick<Store, 'read'>,
  table: typeof audit | typeof journal,
  time: number,
): Promise<number> {
  const [last] = await store.read(table, { orderBy: 'seq', descending: true, limit: 1 });
  let [low, high] = [0, (last?.seq ?? 0) + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await store.read(table, { above: { seq: middle - 1 }, orderBy: 'seq', limit: 1 });
    if (row && row.at < time) low = row.seq + 1;
    else high = middle;
  }
  return low;
}
