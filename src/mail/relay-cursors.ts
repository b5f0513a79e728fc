import { cursors } from '../store/common-tables.js';
import type { Write } from '../store/store.js';

/**
 * - `store`: the identity of the custodian's store that the others belong to; `epoch`: that of this node's store.
 * - `read`: batches up to this position are done; `seen`: the highest position that was read; `top`: the highest that one
 *   of this node's batches got.
 * - `at`: the time of this node's latest batch.
 */
type Name = 'store' | 'epoch' | 'read' | 'seen' | 'top' | 'at';
/**
 * - `out`: mail for that node up to this number was relayed; `told`: so were receipt updates.
 * - `count`: batches for that node that may still be there.
 * - `from`: the time of the latest batch that was taken from that node.
 */
type NodeName = 'out' | 'told' | 'count' | 'from';

/** Positions in relayed mail. They are set in memory, and stored in the transactions that they belong to. */
export class RelayCursors {
  readonly #values = new Map<string, number>();

  constructor(stored: ReadonlyMap<string, number>) {
    for (const [name, value] of stored) if (name.startsWith(PREFIX)) this.#values.set(name, value);
  }

  get(name: Name): number {
    return this.#values.get(`${PREFIX}${name}`) ?? 0;
  }

  of(node: string, name: NodeName): number {
    return this.#values.get(nodeCursor(name, node)) ?? 0;
  }

  /** The write that stores a value, which `set` sets in memory. */
  write(name: Name, value: number): Write {
    return cursors.put({ name: `${PREFIX}${name}`, value });
  }

  set(name: Name, value: number): void {
    this.#values.set(`${PREFIX}${name}`, value);
  }

  writeOf(node: string, name: NodeName, value: number): Write {
    return cursors.put({ name: nodeCursor(name, node), value });
  }

  setOf(node: string, name: NodeName, value: number): void {
    this.#values.set(nodeCursor(name, node), value);
  }

  /** The writes that make every node's cursor of these names zero. */
  reset(...names: readonly NodeName[]): Write[] {
    return this.#delete((cursor) => names.some((name) => cursor.startsWith(nodeCursor(name, ''))));
  }

  /** The writes that forget a node. */
  forget(node: string): Write[] {
    return this.#delete((cursor) => cursor.endsWith(` ${node}`));
  }

  #delete(matches: (cursor: string) => boolean): Write[] {
    const gone = [...this.#values.keys()].filter(matches);
    for (const cursor of gone) this.#values.delete(cursor);
    return gone.length === 0 ? [] : [cursors.delete({ name: gone })];
  }
}

const PREFIX = 'relay ';

function nodeCursor(name: NodeName, node: string): string {
  return `${PREFIX}${name} ${node}`;
}
