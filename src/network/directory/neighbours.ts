/** With up to this many other nodes, every node is a neighbour of every other. */
export const FULL_MESH = 8;
/** Nodes that directly follow a node on the ring and are its neighbours, so that the ring holds when one of them fails. */
const SUCCESSORS = 2;

/**
 * The nodes of a mesh on a ring: a key is a point on it. A node's neighbours are those that directly follow it, those that
 * follow the points a half, a quarter, an eighth … of the ring away from it, and the nodes that it is a neighbour of.
 * Everything spreads over a mesh of n nodes in log n steps, and each node keeps about 2 log n links. A node that comes or goes
 * changes the neighbours of few others.
 */
export class Ring {
  readonly #points: readonly { readonly key: string; readonly at: number }[];
  readonly #neighbours = new Set<string>();
  readonly #own: number;

  constructor(own: string, others: Iterable<string>) {
    const keys = [...new Set([own, ...others])].sort();
    this.#points = keys.map((key) => ({ key, at: pointOf(key) }));
    this.#own = keys.indexOf(own);
    const { length } = keys;
    if (length - 1 <= FULL_MESH) for (const key of keys) this.#neighbours.add(key);
    else {
      // Beyond this, the points are nearer than the next node.
      const steps = Math.ceil(Math.log2(length)) + 1;
      for (const key of this.#following(steps)) this.#neighbours.add(key);
      for (const key of this.#preceding(steps)) this.#neighbours.add(key);
    }
    this.#neighbours.delete(own);
  }

  isNeighbour(node: string): boolean {
    return this.#neighbours.has(node);
  }

  /** Is that node one of the next so many on the ring? */
  isNear(node: string, count: number): boolean {
    const { length } = this.#points;
    for (let step = 1; step <= Math.min(count, length - 1); step++) {
      if (this.#points[(this.#own + step) % length]!.key === node) return true;
    }
    return false;
  }

  /** The nodes that this one is linked to by the rule above. */
  #following(steps: number): string[] {
    const found: string[] = [];
    for (let step = 1; step <= SUCCESSORS; step++) found.push(this.#pointAt(this.#own + step).key);
    const { at } = this.#pointAt(this.#own);
    for (let step = 1; step <= steps; step++) found.push(this.#pointAt(this.#placeFrom((at + 2 ** -step) % 1)).key);
    return found;
  }

  /** The nodes that are linked to this one by the same rule: their points are a step before this node, and not before the last. */
  #preceding(steps: number): string[] {
    const { length } = this.#points;
    const found: string[] = [];
    for (let step = 1; step <= SUCCESSORS; step++) found.push(this.#pointAt(this.#own - step).key);
    const [last, own] = [this.#pointAt(this.#own - 1).at, this.#pointAt(this.#own).at];
    const gap = (own - last + 1) % 1;
    for (let step = 1; step <= steps; step++) {
      const to = (own - 2 ** -step + 1) % 1;
      const from = this.#placeFrom((last - 2 ** -step + 1) % 1);
      for (let place = from; place < from + length; place++) {
        const { at, key } = this.#pointAt(place);
        const before = (to - at + 1) % 1;
        if (before < gap) found.push(key);
        else if (before > gap) break;
      }
    }
    return found;
  }

  #pointAt(place: number): { readonly key: string; readonly at: number } {
    const { length } = this.#points;
    return this.#points[(place + length) % length]!;
  }

  /** The place of the first node at that point of the ring or after it. */
  #placeFrom(at: number): number {
    let [low, high] = [0, this.#points.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#points[middle]!.at < at) low = middle + 1;
      else high = middle;
    }
    return low % this.#points.length;
  }
}

/** The place of a key on the ring, from 0 to 1. Keys are random, so that their first 48 bits tell them apart. */
function pointOf(key: string): number {
  return Number.parseInt(key.slice(0, 12), 16) / 2 ** 48;
}
