const MAX_CHUNK = 512;

/** A set of keys in order: a list of sorted chunks, so that adding a key moves few others. */
export class SortedKeys {
  readonly #chunks: string[][] = [[]];

  add(key: string): void {
    const place = this.#chunkFor(key);
    const chunk = this.#chunks[place]!;
    const at = lowerBound(chunk, key);
    if (chunk[at] === key) return;
    if (at === chunk.length) chunk.push(key);
    else chunk.splice(at, 0, key);
    if (chunk.length <= MAX_CHUNK) return;
    // A full last chunk was probably filled in order: keep it full, and go on with an empty one.
    const split = place === this.#chunks.length - 1 && at === chunk.length - 1 ? MAX_CHUNK : MAX_CHUNK / 2;
    this.#chunks.splice(place + 1, 0, chunk.splice(split));
  }

  delete(key: string): void {
    const place = this.#chunkFor(key);
    const chunk = this.#chunks[place]!;
    const at = lowerBound(chunk, key);
    if (chunk[at] !== key) return;
    chunk.splice(at, 1);
    if (chunk.length === 0 && this.#chunks.length > 1) this.#chunks.splice(place, 1);
  }

  /** The keys from `from` (inclusive) to `to` (exclusive). The set must not change meanwhile. */
  *range(from: string, to: string | undefined, descending: boolean): Generator<string, undefined> {
    const step = descending ? -1 : 1;
    let place = descending && to === undefined ? this.#chunks.length - 1 : this.#chunkFor(descending ? to! : from);
    const bound = descending ? to : from;
    let at = bound === undefined ? this.#chunks[place]!.length : lowerBound(this.#chunks[place]!, bound);
    if (descending) at--;
    for (; place >= 0 && place < this.#chunks.length; place += step) {
      const chunk = this.#chunks[place]!;
      for (; at >= 0 && at < chunk.length; at += step) {
        const key = chunk[at]!;
        if (descending ? key < from : to !== undefined && key >= to) return;
        yield key;
      }
      at = descending ? (this.#chunks[place - 1]?.length ?? 0) - 1 : 0;
    }
  }

  /** The last chunk whose first key is not greater than this key. */
  #chunkFor(key: string): number {
    let low = 0;
    let high = this.#chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const first = this.#chunks[middle]![0];
      if (first !== undefined && first <= key) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keys[middle]! < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
