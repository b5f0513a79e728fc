const MAX_CHUNK = 512;

/** A set of keys in order: a list of sorted chunks, so that adding a key moves few others. */
export class SortedKeys {
  readonly #chunks: string[][] = [[]];

  add(key: string): void {
    const [place, at] = this.#find(key);
    const chunk = this.#chunks[place]!;
    if (chunk[at] === key) return;
    if (at === chunk.length) chunk.push(key);
    else chunk.splice(at, 0, key);
    if (chunk.length <= MAX_CHUNK) return;
    // A full last chunk was probably filled in order: keep it full, and go on with an empty one.
    const split = place === this.#chunks.length - 1 && at === chunk.length - 1 ? MAX_CHUNK : MAX_CHUNK / 2;
    this.#chunks.splice(place + 1, 0, chunk.splice(split));
  }

  delete(key: string): void {
    const [place, at] = this.#find(key);
    const chunk = this.#chunks[place]!;
    if (chunk[at] !== key) return;
    chunk.splice(at, 1);
    if (chunk.length === 0 && this.#chunks.length > 1) this.#chunks.splice(place, 1);
  }

  /** The keys from `from` (inclusive) to `to` (exclusive). The set must not change meanwhile. */
  *range(from: string, to: string | undefined, descending: boolean): Generator<string, undefined> {
    const chunks = this.#chunks;
    const end = (place: number) => chunks[place]?.length ?? 0;
    if (descending) {
      const last = chunks.length - 1;
      let [place, at] = to === undefined ? [last, end(last)] : this.#find(to);
      for (; place >= 0; at = end(--place)) {
        while (--at >= 0) {
          const key = chunks[place]![at]!;
          if (key < from) return;
          yield key;
        }
      }
      return;
    }
    let [place, at] = this.#find(from);
    for (; place < chunks.length; place++, at = 0) {
      for (; at < end(place); at++) {
        const key = chunks[place]![at]!;
        if (to !== undefined && key >= to) return;
        yield key;
      }
    }
  }

  /** The last chunk whose first key is not greater than this key, and the place of the first key in it that is not less. */
  #find(key: string): [chunk: number, place: number] {
    let [low, high] = [0, this.#chunks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#chunks[middle]![0]! <= key) low = middle;
      else high = middle - 1;
    }
    const keys = this.#chunks[low]!;
    let [from, to] = [0, keys.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (keys[middle]! < key) from = middle + 1;
      else to = middle;
    }
    return [low, from];
  }
}
