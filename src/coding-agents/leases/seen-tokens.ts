import { cursors } from '../../store/common-tables.js';
import { beginningWith, type Store, type Write } from '../../store/store.js';

const PREFIX = 'lease ';

/** The highest token of each repository that this node has seen, whichever authority gave it. */
export async function seenTokens(store: Store): Promise<Map<string, number>> {
  const rows = await store.read(cursors, beginningWith('name', PREFIX));
  return new Map(rows.map(({ name, value }) => [name.slice(PREFIX.length), value]));
}

export function tokenSeen(repository: string, token: number): Write {
  return cursors.put({ name: `${PREFIX}${repository}`, value: token });
}
